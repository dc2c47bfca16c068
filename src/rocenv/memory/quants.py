"""How GGUF files store numbers: the types of a tensor, in blocks of so many elements and bytes.

A part of the format, like the sizes of C types: it only grows. A type that is not here is no error; the
reader then takes a tensor's size from where the next one begins.

Source: PyPI gguf 0.19.0, `GGML_QUANT_SIZES`; a test holds the table against the package
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quant:
    """A type of tensor."""

    name: str
    elements: int  # of a block
    n_bytes: int  # of a block


QUANTS: dict[int, Quant] = {
    0: Quant("F32", 1, 4),
    1: Quant("F16", 1, 2),
    2: Quant("Q4_0", 32, 18),
    3: Quant("Q4_1", 32, 20),
    6: Quant("Q5_0", 32, 22),
    7: Quant("Q5_1", 32, 24),
    8: Quant("Q8_0", 32, 34),
    9: Quant("Q8_1", 32, 40),
    10: Quant("Q2_K", 256, 84),
    11: Quant("Q3_K", 256, 110),
    12: Quant("Q4_K", 256, 144),
    13: Quant("Q5_K", 256, 176),
    14: Quant("Q6_K", 256, 210),
    15: Quant("Q8_K", 256, 292),
    16: Quant("IQ2_XXS", 256, 66),
    17: Quant("IQ2_XS", 256, 74),
    18: Quant("IQ3_XXS", 256, 98),
    19: Quant("IQ1_S", 256, 50),
    20: Quant("IQ4_NL", 32, 18),
    21: Quant("IQ3_S", 256, 110),
    22: Quant("IQ2_S", 256, 82),
    23: Quant("IQ4_XS", 256, 136),
    24: Quant("I8", 1, 1),
    25: Quant("I16", 1, 2),
    26: Quant("I32", 1, 4),
    27: Quant("I64", 1, 8),
    28: Quant("F64", 1, 8),
    29: Quant("IQ1_M", 256, 56),
    30: Quant("BF16", 1, 2),
    34: Quant("TQ1_0", 256, 54),
    35: Quant("TQ2_0", 256, 66),
    39: Quant("MXFP4", 32, 17),
    40: Quant("NVFP4", 64, 36),
    41: Quant("Q1_0", 128, 18),
}

# What the cache of keys and values may be stored as.
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_BY_NAME = {quant.name.lower(): quant for quant in QUANTS.values()}


def cache_bytes(name: str, elements: int) -> int | None:
    """Return what so many elements take in a cache of a type, None where there is no such type."""
    quant = _BY_NAME.get(name.lower()) if name.lower() in CACHE_TYPES else None
    return None if quant is None else -(-elements // quant.elements) * quant.n_bytes

"""Parse the header of a GGUF file, which can be truncated, damaged or hostile.

Format: ggml-org/ggml:docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 4096
_MAX_TENSORS = 1 << 16
_MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
_MAX_ITEMS = 512  # longer arrays are skipped; llama.cpp supports at most this many layers
_MAX_ALIGNMENT = 1 << 20
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Tensor types: name, elements per block, bytes per block. The list only grows.
# Source: PyPI gguf 0.19.0, `GGML_QUANT_SIZES`; a test compares the table with the package
TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

# None stands for a skipped array: an array of strings, or one with more than 512 items.
Value = Union[bool, int, float, str, "tuple[bool | int | float, ...]", None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor."""

    name: str
    shape: tuple[int, ...]  # innermost dimension first, as in the file
    kind: str  # "Q4_K"
    n_bytes: int
    offset: int  # within the data after the header


class Damaged(Exception):
    """The bytes are not a complete and valid header."""


class UnsupportedVersion(Exception):
    """The header is in a version of GGUF that rocenv cannot read."""


class _Cursor:
    """A read position in a header; reading numbers past the end raises struct.error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, code: str) -> int:
        """Read an integer with this `struct` code."""
        return int(self.numbers(code, 1)[0])

    def numbers(self, code: str, count: int) -> tuple[bool | int | float, ...]:
        """Read numbers with this `struct` code."""
        layout = struct.Struct(f"<{count}{code}")
        found = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return found

    def text(self) -> str:
        """Read a string."""
        size, begin = self.number("Q"), self.at
        self.at += size
        return self.data[begin : begin + size].decode("utf-8", "replace")

    def skip_texts(self, count: int) -> None:
        """Skip strings. A vocabulary has up to 260,000 strings, so this loop avoids method calls."""
        unpack, data, at = struct.Struct("<Q").unpack_from, self.data, self.at
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self.at = at

    def count(self, maximum: int, item_bytes: int, what: str) -> int:
        """Read a count and check that it is plausible."""
        count = self.number("Q")
        if count > maximum or count * item_bytes > len(self.data):
            raise Damaged(f"it claims to contain {count:,} {what}")
        return count


def parse(data: bytes) -> tuple[dict[str, Value], list[Tensor], int]:
    """Parse the start of a file into metadata, tensors (size -1 for unknown types) and data offset.

    Raises:
        Damaged: The bytes are not a complete and valid header.
        UnsupportedVersion: rocenv cannot read this version of GGUF.
    """
    try:
        return _parse(_Cursor(data))
    except (struct.error, OverflowError) as error:
        raise Damaged("its header is truncated") from error


def _parse(cursor: _Cursor) -> tuple[dict[str, Value], list[Tensor], int]:
    if not cursor.data.startswith(MAGIC):
        raise Damaged("it does not begin with GGUF")
    cursor.at = len(MAGIC)
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise UnsupportedVersion(f"it is GGUF version {version}; rocenv supports versions 2 and 3")
    tensor_count = cursor.count(_MAX_TENSORS, 24, "tensors")
    metadata: dict[str, Value] = {}
    for _ in range(cursor.count(_MAX_KEYS, 12, "keys")):
        key = cursor.text()
        if key in metadata:
            raise Damaged("a key occurs twice")
        metadata[key] = _parse_value(cursor)
    tensors = [_parse_tensor(cursor) for _ in range(tensor_count)]
    if cursor.at > len(cursor.data):  # the last string or array is truncated
        raise struct.error
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise Damaged("two tensors have the same name")
    alignment = metadata.get("general.alignment", 32)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or not 0 < alignment <= _MAX_ALIGNMENT:
        raise Damaged("its alignment is not a valid size")
    return metadata, tensors, -(-cursor.at // alignment) * alignment


def _parse_value(cursor: _Cursor) -> Value:
    kind = cursor.number("I")
    if kind in _NUMBERS:
        return cursor.numbers(_NUMBERS[kind], 1)[0]
    if kind == _STRING:
        return cursor.text()
    if kind != _ARRAY:
        raise Damaged(f"a value has the unknown type {kind}")
    kind = cursor.number("I")
    if kind == _STRING:
        cursor.skip_texts(cursor.count(1 << 62, 8, "strings in an array"))
        return None
    if kind not in _NUMBERS:
        raise Damaged(f"an array has items of unknown type {kind}")
    size = struct.calcsize(_NUMBERS[kind])
    count = cursor.count(1 << 62, size, "items in an array")
    if count > _MAX_ITEMS:
        cursor.at += count * size
        return None
    return cursor.numbers(_NUMBERS[kind], count)


def _parse_tensor(cursor: _Cursor) -> Tensor:
    name = cursor.text()
    dimensions = cursor.number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise Damaged(f"a tensor has {dimensions:,} dimensions")
    shape = tuple(int(size) for size in cursor.numbers("Q", dimensions))
    kind, offset = cursor.number("I"), cursor.number("Q")
    elements = math.prod(shape)
    if max(elements, offset) >= 1 << 63:
        raise Damaged("a tensor is larger than the largest possible file")
    if kind not in TENSOR_TYPES:
        return Tensor(name=name, shape=shape, kind=f"type {kind}", n_bytes=-1, offset=offset)
    label, block, block_bytes = TENSOR_TYPES[kind]
    if (shape[0] if shape else 1) % block:
        raise Damaged(f"a tensor's rows are not whole {label} blocks")
    return Tensor(name=name, shape=shape, kind=label, n_bytes=elements // block * block_bytes, offset=offset)


def with_sizes(tensors: Sequence[Tensor], data_bytes: int) -> tuple[Tensor, ...]:
    """Compute the sizes of tensors of unknown (usually new) types from the next tensor's offset."""
    starts = sorted({tensor.offset for tensor in tensors})
    ends = dict(zip(starts, [*starts[1:], max([data_bytes, *starts[-1:]])], strict=False))
    return tuple(
        replace(tensor, n_bytes=ends[tensor.offset] - tensor.offset) if tensor.n_bytes < 0 else tensor
        for tensor in tensors
    )

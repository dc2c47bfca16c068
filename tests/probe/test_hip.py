"""The tables of vendor structures and calls, where a wrong offset would silently read garbage."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest

from rocenv.core.variables import overridden_target
from rocenv.probe import cuda, hip
from rocenv.probe.library import CallError

# Measured with offsetof in the headers of 5.7.1 (R0000), and of 6.0.0, 6.2.0 and develop (R0600).
LAYOUTS = [
    (hip.DevicePropertiesR0000, 792, {"total_global_mem": 256, "warp_size": 276, "gcn_arch_name": 396}),
    (hip.DevicePropertiesR0600, 1472, {"total_global_mem": 288, "warp_size": 308, "gcn_arch_name": 1160}),
]


@pytest.mark.parametrize(("structure", "size", "offsets"), LAYOUTS)
def test_field_offsets_match_the_headers(structure: Any, size: int, offsets: dict[str, int]) -> None:
    assert {name: getattr(structure, name).offset for name in offsets} == offsets
    assert structure.name.offset == 0
    assert (structure.name.size, structure.gcn_arch_name.size) == (256, 256)
    assert ctypes.sizeof(structure) >= max(size, 4096)


def test_argument_counts_match_the_prototypes() -> None:
    # The counts are from the headers. ctypes checks calls against the table, and this test checks the
    # table.
    counts = {
        "hipModuleLaunchKernel": 11,
        "rocblas_sgemm": 14,
        "rocblas_gemm_ex": 24,
        "hiprtcCreateProgram": 6,
        "cuLaunchKernel": 11,
        "cublasSgemm_v2": 14,
        "cublasGemmEx": 19,
    }
    prototypes = {**hip.PROTOTYPES, **cuda.PROTOTYPES}
    assert {name: len(prototypes[name]) for name in counts} == counts


def test_every_function_called_by_a_rung_is_in_the_table() -> None:
    folder = Path(hip.__file__).parent
    # `"hipFree": [` is a row of the table, and `="hipFree"` is a use.
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    called = set(re.findall(r'"((?:hip|hiprtc|rocblas_|cu|cublas)[A-Za-z]\w+)"(?!:)', text))
    called -= {"hiprtc", "cublas", "cuda", "hipGetErrorName", "hiprtcGetErrorString"}
    called -= {
        "rocblas_status_to_string",
        "cuGetErrorName",
        "cublasGetStatusName",
    }  # only return names of status codes
    assert called == {*hip.PROTOTYPES, *cuda.PROTOTYPES}


def test_an_error_contains_the_call_the_status_and_its_name() -> None:
    assert str(CallError("hipInit", 100, "hipErrorNoDevice")) == "hipInit returned 100 hipErrorNoDevice"
    assert str(CallError("hipInit", 5, "")) == "hipInit returned 5"


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("11.0.0", "gfx1100"),
        ("10.3.0", "gfx1030"),
        ("9.0.10", "gfx90a"),
        ("9.4.2", "gfx942"),
        ("", ""),
        ("gfx1030", ""),
        ("10.3", ""),
        ("10.3.x", ""),
    ],
)
def test_an_override_consists_of_three_decimal_numbers(value: str, target: str) -> None:
    assert overridden_target(value) == target

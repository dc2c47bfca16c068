"""The matrix multiplication that tests a GPU: kernel source, input, float64 reference, bound, comparison.

Pure functions. Matrices are flat, row-major lists of n*n numbers. The bound is the standard one for an inner
product summed in any order, with or without fused multiply-add: |C - AB| <= gamma_k |A||B|, where
gamma_k = k u / (1 - k u).

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from operator import mul
from random import Random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Precision = Literal["float32", "float16"]

KERNEL = "sgemm"
TILE = 16
# Uses builtins instead of blockIdx and threadIdx, whose spelling differs between releases, and avoids
# blockDim, which reads an implicit kernel argument.
SOURCE = """\
// C = A * B, row-major n x n, n a multiple of 16.
// Launch 16x16 work-groups on an (n/16) x (n/16) grid; no implicit kernel argument is read.
extern "C" __global__ __launch_bounds__(256) void sgemm(const float* A, const float* B, float* C, int n) {
  __shared__ float a[16][16];
  __shared__ float b[16][16];
  const int x = __builtin_amdgcn_workitem_id_x();
  const int y = __builtin_amdgcn_workitem_id_y();
  const int column = __builtin_amdgcn_workgroup_id_x() * 16 + x;
  const int row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
  float sum = 0.0f;
  for (int k = 0; k < n; k += 16) {
    a[y][x] = A[(size_t)row * n + k + x];
    b[y][x] = B[(size_t)(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  C[(size_t)row * n + column] = sum;
}
"""

_FORMAT = {"float32": "f", "float16": "e"}
_BITS = {"float32": "I", "float16": "H"}
# A quiet NaN with a payload that no arithmetic produces.
_POISON = {"float32": b"\xfe\xca\xde\x7f", "float16": b"\xda\x7e"}
_SIGNIFICAND = {"float32": 24, "float16": 11}
_U64, _U32, _U16 = 2.0**-53, 2.0**-24, 2.0**-11
# Matrix units may flush subnormal float16 results to zero, so smaller numbers are not checked.
_TINY_F16 = 2.0**-14


@dataclass(frozen=True, slots=True)
class Expected:
    """One element of the product, and its error bound."""

    value: float
    tolerance: float


def random_values(seed: int, count: int, precision: Precision) -> list[float]:
    """Generate `count` numbers in [-1, 1), exact in `precision`, using all its bits, never zero."""
    bits = _SIGNIFICAND[precision]
    words = struct.unpack(f"<{count}i", Random(seed).randbytes(4 * count))
    return [((word >> (32 - bits)) or 1) / 2 ** (bits - 1) for word in words]


def pack(values: Sequence[float], precision: Precision) -> bytes:
    """Encode numbers for the device."""
    return struct.pack(f"<{len(values)}{_FORMAT[precision]}", *values)


def unpack(data: bytes, precision: Precision) -> list[float]:
    """Decode numbers from the device."""
    item = _FORMAT[precision]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(item)}{item}", data))


def poison(count: int, precision: Precision) -> bytes:
    """Return the initial contents of an output: a NaN that no arithmetic produces."""
    return _POISON[precision] * count


def expected_element(row: Iterable[float], column: Iterable[float], precision: Precision) -> Expected:
    """Compute an inner product in float64, and its error bound for accumulation in float32."""
    products = list(map(mul, row, column))
    value = sum(products)
    # The float64 reference is itself rounded.
    bound = (_gamma(len(products), _U32) + _gamma(len(products), _U64)) * sum(map(abs, products))
    if precision == "float16":
        bound += _U16 * (abs(value) + bound) + _TINY_F16
    return Expected(value, bound)


def expected_product(a: Sequence[float], b: Sequence[float], n: int, precision: Precision) -> list[Expected]:
    """Compute every element of A*B in float64 with its bound."""
    columns = [b[j::n] for j in range(n)]
    rows = (a[i * n : (i + 1) * n] for i in range(n))
    return [expected_element(row, column, precision) for row in rows for column in columns]


def difference(data: bytes, expected: Sequence[Expected], n: int, precision: Precision) -> str:
    """Describe what is wrong with the result `data`, or return "" if every element is within its bound."""
    bits = _BITS[precision]
    poisoned = struct.unpack(f"<{bits}", _POISON[precision])[0]
    unwritten = struct.unpack(f"<{len(expected)}{bits}", data).count(poisoned)
    if unwritten:
        return f"{unwritten} of {len(expected)} elements were never written"
    # `not <=`, so that NaN counts as wrong
    wrong = [
        (index, value)
        for index, (value, want) in enumerate(zip(unpack(data, precision), expected, strict=True))
        if not abs(value - want.value) <= want.tolerance
    ]
    if not wrong:
        return ""
    index, value = wrong[0]
    want = expected[index]
    return (
        f"{len(wrong)} of {len(expected)} elements are wrong: C[{index // n},{index % n}] = {value:.9g}, "
        f"expected {want.value:.9g} within {want.tolerance:.2g}"
    )


def _gamma(k: int, unit: float) -> float:
    return k * unit / (1 - k * unit)

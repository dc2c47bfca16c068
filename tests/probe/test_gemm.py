"""The error bound, which accepts every correct matrix product and rejects wrong ones."""

from __future__ import annotations

import math
import struct
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.probe import gemm
from rocenv.probe.gemm import Precision

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
SEEDS = st.integers(0, 2**32)
N = 16


def float32(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


def device_product(a: list[float], b: list[float], precision: Precision, order: list[int]) -> list[float]:
    """Multiply as a device might: round every step to float32, and sum in any order."""
    result = []
    for i in range(N):
        for j in range(N):
            total = 0.0
            for k in order:
                total = float32(total + float32(a[i * N + k] * b[k * N + j]))
            result.append(total)
    return gemm.unpack(gemm.pack(result, precision), precision)


def inputs(seed: int, precision: Precision) -> tuple[list[float], list[float]]:
    both = gemm.random_values(seed, 2 * N * N, precision)
    return both[: N * N], both[N * N :]


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, order=st.permutations(range(N)))
def test_a_matrix_product_summed_in_any_order_is_accepted(
    precision: Precision, seed: int, order: list[int]
) -> None:
    a, b = inputs(seed, precision)
    expected = gemm.expected_product(a, b, N, precision)
    got = device_product(a, b, precision, order)
    assert gemm.difference(gemm.pack(got, precision), expected, N, precision) == ""


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    at=st.integers(0, N * N - 1),
    by=st.sampled_from([-1.0, -0.125, 0.125, math.nan, math.inf]),
)
def test_one_wrong_element_of_a_product_is_found(precision: Precision, seed: int, at: int, by: float) -> None:
    a, b = inputs(seed, precision)
    expected = gemm.expected_product(a, b, N, precision)
    got = [element.value for element in expected]
    got[at] += by
    fault = gemm.difference(gemm.pack(got, precision), expected, N, precision)
    assert fault.startswith(f"1 of {N * N} elements are wrong: C[{at // N},{at % N}] = ")


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_tf32_and_bfloat16_products_are_rejected_as_float32(seed: int) -> None:
    # Some libraries use these formats by default, because they are faster.
    def truncated(value: float) -> float:
        bits = struct.unpack("<I", struct.pack("<f", value))[0] & ~0x1FFF  # 10 bits of fraction
        cut: float = struct.unpack("<f", struct.pack("<I", bits))[0]
        return cut

    a, b = inputs(seed, "float32")
    expected = gemm.expected_product(a, b, N, "float32")
    got = device_product([truncated(x) for x in a], [truncated(x) for x in b], "float32", list(range(N)))
    assert "elements are wrong" in gemm.difference(gemm.pack(got, "float32"), expected, N, "float32")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_unwritten_elements_are_distinguished_from_wrong_ones(precision: Precision) -> None:
    expected = [gemm.Expected(1.0, 0.1)] * 4
    one, poison = gemm.pack([1.0], precision), gemm.poison(1, precision)
    assert gemm.difference(one * 4, expected, 2, precision) == ""
    fault = gemm.difference(one * 3 + poison, expected, 2, precision)
    assert fault == "1 of 4 elements were never written"
    assert all(math.isnan(value) for value in gemm.unpack(gemm.poison(2, precision), precision))


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_the_input_matrices_are_reproducible_exact_and_never_zero(precision: Precision, seed: int) -> None:
    values = gemm.random_values(seed, 100, precision)
    assert values == gemm.random_values(seed, 100, precision)
    assert gemm.unpack(gemm.pack(values, precision), precision) == values
    assert all(values)
    assert all(-1 <= value <= 1 for value in values)


def test_the_reference_implementation_multiplies_row_by_column() -> None:
    product = gemm.expected_product([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], 2, "float32")
    assert [element.value for element in product] == [19.0, 22.0, 43.0, 50.0]
    assert product[0].tolerance == pytest.approx(2 * 2.0**-24 * 19, rel=1e-6)

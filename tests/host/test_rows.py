"""The shipped rows that identify GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.host.gpu import target_name
from rocenv.host.pci import Ids
from rocenv.host.ranking import supported_today
from rocenv.host.windows import target_by_name

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def test_kernel_numbers_match_the_rows(matrix: Matrix) -> None:
    # The kernel uses the same number for Raven and Raven2.
    numbers = {row.name: row.kfd for row in matrix.targets.values() if row.kfd and row.name != "gfx909"}
    assert len(numbers) > 30
    assert {name: target_name(number) for name, number in numbers.items()} == {name: name for name in numbers}


def test_names_and_ids_do_not_contradict_each_other(matrix: Matrix) -> None:
    # Two products are called Radeon 840M.
    products = [(row.target, name) for row in matrix.pci for name in row.products if name != "Radeon 840M"]
    wrong = [
        (name, target, row.target)
        for target, name in products
        for row in matrix.gpu_name
        if re.search(row.pattern, name, re.IGNORECASE) and row.target != target
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("Radeon (TM) RX 480 Graphics", "gfx803"),
        ("AMD Radeon(TM) RX Vega 11 Graphics", "gfx902"),
        ("AMD Radeon RX 6800M", "gfx1031"),
        ("AMD Radeon RX 6800S", "gfx1032"),
        ("AMD Radeon RX 6800 XT", "gfx1030"),
        ("AMD Radeon RX 6750 GRE 10GB", "gfx1031"),
        ("AMD Radeon RX 6750 GRE 12GB", "gfx1031"),
        ("AMD Radeon RX 7700S", "gfx1102"),
        ("AMD Radeon RX 7700 XT", "gfx1101"),
        ("AMD Radeon(TM) 780M Graphics", "gfx1103"),
        ("AMD Radeon(TM) Graphics", ""),
    ],
)
def test_each_windows_name_has_one_target(matrix: Matrix, name: str, target: str) -> None:
    assert target_by_name(name, matrix) == target


def test_ids_that_several_products_share_refer_to_the_right_target(matrix: Matrix) -> None:
    ids = Ids(matrix)
    assert ids.target("13c0", "c1") == "gfx1036"
    assert ids.target("74a0", "00") == "gfx942", "the retail MI300A, listed with this revision in amdgpu.ids"


def test_current_releases_are_the_newest_in_each_channel(matrix: Matrix) -> None:
    support = supported_today(matrix)
    assert support["gfx1100"] == 2
    assert "gfx803" not in support

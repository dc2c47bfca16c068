"""The shipped rows that map GPU names in Windows to targets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.host.windows import target_by_name

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LIST = Path(__file__).with_name("windows_names.toml")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def test_every_name_matches_exactly_its_target(matrix: Matrix) -> None:
    rows = tomllib.loads(_LIST.read_text(encoding="utf-8"))["names"]
    assert len(rows) >= 120
    found = {row["name"]: (row["target"], target_by_name(row["name"], matrix)) for row in rows}
    assert len(found) == len(rows), "a name is listed twice"
    wrong = [
        f"{name}: {wanted or 'none'}, not {got or 'none'}"
        for name, (wanted, got) in found.items()
        if got != wanted
    ]
    assert wrong == []


def test_product_names_agree_with_pci_ids(matrix: Matrix) -> None:
    wrong = [
        f"{row.device} {product}: {row.target}, not {got}"
        for row in matrix.pci
        for product in row.products
        if (got := target_by_name(f"AMD {product}", matrix)) not in ("", row.target)
    ]
    assert wrong == []

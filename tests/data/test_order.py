"""Rows and files in any order, which must load to the same matrix."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.data.load import TABLES, data_files, load
from tests.data.data import BASE, example, write

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix
    from tests.data.data import Rows

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROFILES = Path(__file__).parents[2] / "profiles"

ROWS: Rows = [
    *BASE,
    *((table, example(table)) for table in TABLES if table not in ("target", "repo", "c_library")),
    ("support", example("support", targets=["gfx1030", "gfx1031"], rocm="6.2", level="official")),
    ("support", example("support", targets=["gfx1100"], rocm="6.2", level="libraries")),
    ("verdict", example("verdict", what="it runs", verdict="works", targets=["gfx1031"])),
    ("verdict", example("verdict", what="it ends", verdict="broken", targets=["gfx1030"])),
]
OWN: Rows = [
    ("support", example("support", targets=["gfx1031"], rocm="6.2", level="runtime")),
    ("verdict", example("verdict", what="not here", verdict="broken", targets=["gfx1031"])),
    ("target", example("target", name="gfx1030", products="mine")),
    ("pci", example("pci", device="7590")),
]


def content(matrix: Matrix) -> dict[str, Counter[str]]:
    """Return each table's rows in a form that does not depend on their order."""
    return {table: Counter(map(repr, getattr(matrix, table))) for table in TABLES}


def dealt(rows: Rows, files: int, seed: int) -> list[Rows]:
    """Shuffle the rows and spread them over this many files."""
    order = random.Random(seed)
    shuffled = order.sample(rows, len(rows))
    hands: list[Rows] = [[] for _ in range(files)]
    for row in shuffled:
        order.choice(hands).append(row)
    return hands


def loaded(rows: Rows, own: Rows, files: int, seed: int) -> dict[str, Counter[str]]:
    with tempfile.TemporaryDirectory() as folder:
        shipped = write(Path(folder) / "shipped", *dealt(rows, files, seed))
        return content(load(shipped, write(Path(folder) / "own", *dealt(own, min(files, 2), seed))))


@settings(max_examples=25, deadline=None)
@given(files=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_the_matrix_does_not_depend_on_the_order_or_files_of_rows(files: int, seed: int) -> None:
    assert loaded(ROWS, OWN, files, seed) == loaded(ROWS, OWN, 1, 0)


@settings(max_examples=3, deadline=None)
@given(files=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_shipped_rows_can_be_in_any_order_and_file(files: int, seed: int) -> None:
    rows: Rows = []
    for path in data_files(PROFILES):
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        rows += [(table, row) for table, found in plain.items() if table != "schema" for row in found]
    assert len(rows) > 1000
    assert loaded(rows, [], files, seed) == content(load(PROFILES))

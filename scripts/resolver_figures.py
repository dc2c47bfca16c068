"""Times of the resolver in one process, on the shipped matrix and on one 100 times as large; JSON on stdout.

The large matrix holds the shipped one and 99 more worlds like it: the same rows with other version numbers,
so that every table is 100 times as long and parts go together within a world, as they would in a matrix of
other products.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Request
from rocenv.data.load import load
from rocenv.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.data.rows import Matrix

TIMES = 100
STEP = 1000  # between the major versions of two worlds

POSSIBLE = (
    Request(target="gfx1100"),
    Request(target="gfx1031", torch="*"),
    Request(target="gfx1201", rocm="6.4", torch="*", python="3.12"),
    Request(target="gfx1031", rocm="5.7", zluda="*", torch="*", platform="windows"),
    Request(target="gfx1031", rocm="6.1", zluda="*", torch="*", platform="windows"),
    Request(target="gfx803", zluda="*", torch="*", platform="windows"),
    Request(target="gfx1151", torch="*", platform="windows"),
)
IMPOSSIBLE = (
    Request(target="gfx1201", rocm="6.2"),
    Request(target="gfx906", rocm="6.4", torch="*"),
    Request(target="gfx1033", torch="*"),
    Request(target="gfx1031", rocm="6.1", zluda="3.8.3", torch="*", platform="windows"),
    Request(target="gfx1100", rocm="6.2", zluda="3.9.6", torch="*", platform="windows"),
    Request(target="gfx1100", zluda="<=3.9.4", torch="*", platform="windows", driver="25.6.1"),
    Request(target="gfx803", zluda="*", torch="*", platform="windows", driver="25.6.1"),
)


def main() -> int:
    """Measure and print."""
    matrix = load(Path(__file__).resolve().parents[1] / "profiles")
    large = enlarged(matrix)
    for request in (*POSSIBLE, *IMPOSSIBLE):  # what is worked out once for a matrix
        milliseconds(request, matrix, 1)
        milliseconds(request, large, 1)
    gc.collect()
    gc.freeze()  # or the collector walks through a matrix of 36,000 rows, which is no work of the resolver
    found = {
        "resolve_ms": [milliseconds(request, matrix, 25) for request in POSSIBLE],
        "explain_ms": [milliseconds(request, matrix, 15) for request in IMPOSSIBLE],
        "large_resolve_ms": [milliseconds(request, large, 5) for request in POSSIBLE],
        "large_explain_ms": [milliseconds(request, large, 5) for request in IMPOSSIBLE],
        "rows": rows_of(matrix),
        "large_rows": rows_of(large),
    }
    json.dump(found, sys.stdout)
    return 0


def milliseconds(request: Request, matrix: Matrix, repetitions: int) -> float:
    """Return the least time until the best set, or the explanation with its suggestions, is there."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        try:
            next(resolve(request, matrix))
        except ResolutionImpossible:
            if request in POSSIBLE:
                raise
        times.append((time.perf_counter() - start) * 1000)
    return min(times)  # what else the machine does can only add


def rows_of(matrix: Matrix) -> int:
    """Return how many rows the tables have that a resolution reads."""
    return sum(len(getattr(matrix, table)) for table in _TABLES)


# Table -> what of its rows changes from world to world.
_TABLES: dict[str, dict[str, str]] = {
    "rocm": {"version": "version"},
    "torch": {"version": "version", "rocm": "version", "zluda": "range"},
    "rocm_wheels": {"version": "version", "torch": "versions"},
    "hip_sdk": {"version": "version"},
    "zluda": {"version": "version", "assets": "assets"},
    "pack": {"rocm": "versions"},
    "support": {"rocm": "version"},
    "verdict": {"rocm": "range", "zluda": "range", "torch": "range"},
    "good_set": {"rocm": "range", "zluda": "range", "torch": "range"},
    "driver_pair": {"drivers": "versions", "rocm": "versions"},
    "override": {"target": "target"},
}


def enlarged(matrix: Matrix) -> Matrix:
    """Return a matrix with each table 100 times as long."""
    tables: dict[str, Any] = {}
    for table, changes in _TABLES.items():
        rows = list(getattr(matrix, table))
        tables[table] = tuple(
            moved(row, world, table, changes) if world else row for world in range(TIMES) for row in rows
        )
    targets = {
        f"{name}{world or ''}": replace(row, name=f"{name}{world or ''}")
        for world in range(TIMES)
        for name, row in matrix.targets.items()
    }
    return replace(matrix, targets=targets, **tables)


def moved(row: Any, world: int, table: str, changes: dict[str, str]) -> Any:
    """Return a row as it is in another world."""
    moves: dict[str, Callable[[Any], Any]] = {
        "version": lambda text: moved_version(text, world),
        "versions": lambda texts: tuple(moved_version(text, world) for text in texts),
        "range": lambda text: moved_range(text, world),
        "assets": lambda assets: tuple(
            replace(each, rocm=tuple(moved_version(text, world) for text in each.rocm)) for each in assets
        ),
        "target": lambda text: f"{text}{world}",
    }
    values = {
        field: moves[kind](getattr(row, field)) for field, kind in changes.items() if getattr(row, field)
    }
    if table == "verdict":
        values["what"] = f"{row.what} ({world})"
        if row.project and not row.zluda:
            values["zluda"] = moved_range("", world)
    return replace(row, **values)


def moved_version(text: str, world: int) -> str:
    """Return a version of another world: its major number is a multiple of STEP higher."""
    major, dot, rest = text.partition(".")
    digits = len(major) - len(major.lstrip("0123456789"))
    return f"{int(major[:digits]) + world * STEP}{major[digits:]}{dot}{rest}"


def moved_range(text: str, world: int) -> str:
    """Return a range of another world, which ends with it."""
    parts = [f"{each.operator}{moved_version(each.version, world)}" for each in SpecifierSet(text)]
    return ",".join([*parts, f">={world * STEP}", f"<{(world + 1) * STEP}"])


if __name__ == "__main__":
    sys.exit(main())

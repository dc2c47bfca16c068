"""The whole matrix on one page: what each release does for each target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import series
from rocenv.explain.on_windows import packs_for
from rocenv.explain.support import series_known, wheels_of
from rocenv.explain.words import targets_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.known import Platform
    from rocenv.data.releases import RocmWheels
    from rocenv.data.rows import Matrix

_LETTERS = {"official": "O", "deprecated": "D", "libraries": "L", "runtime": "R", "unsupported": "x"}
_PACK = "P"
_NONE = "-"
_READY = "*"
LEGEND = (
    "O supported by AMD  D supported, its end announced  L kernels in the libraries, no promise",
    "7.14+: AMD's wheels whose lists of GPUs are known; * release-ready for the target",
    "P a library pack adds kernels  R AMD's runtime runs, no kernels  x said to be unsupported  - nothing",
    "RUNS AS: by HSA_OVERRIDE_GFX_VERSION on Linux, with these releases of ROCm",
)


def overview(matrix: Matrix, platforms: Sequence[Platform]) -> list[tuple[str, ...]]:
    """Return a table, two rows of headings first: for each target a letter for each release, by platform."""
    letters = _letters(matrix, platforms)
    known = {
        platform: [*series_known(matrix, platform), *_wheel_heads(matrix, platform)] for platform in platforms
    }
    runs_as = "linux" in platforms
    rows: list[tuple[str, ...]] = [
        ("", *(platform.upper() for platform in platforms), *([""] if runs_as else [])),
        ("TARGET", *(" ".join(known[platform]) for platform in platforms), *(["RUNS AS"] if runs_as else [])),
    ]
    for target in targets_first(matrix.targets):
        cells = [
            " ".join(
                letters.get((platform, release, target), _NONE).ljust(len(release)) for release in releases
            )
            for platform, releases in known.items()
        ]
        rows.append((target, *cells, *([_overrides(matrix, target)] if runs_as else [])))
    return rows


def _letters(matrix: Matrix, platforms: Sequence[Platform]) -> dict[tuple[str, str, str], str]:
    """Return the letters by platform, release and target."""
    letters: dict[tuple[str, str, str], str] = {
        (row.platform, row.rocm, target): _LETTERS[row.level]
        for row in matrix.support
        for target in row.targets
    }
    for target in matrix.targets if "windows" in platforms else ():
        for release in {series(version) for row in packs_for(matrix, target) for version in row.rocm}:
            if letters.get(("windows", release, target), "x") not in "ODL":
                letters["windows", release, target] = _PACK
    for platform in platforms:
        for head, row in _wheel_heads(matrix, platform).items():
            for target in row.targets:
                letter = _LETTERS["official" if target in row.official else "libraries"]
                mark = _READY if target in row.ready else ""
                letters[platform, head, target] = f"{letter}{mark}"
    return letters


def _wheel_heads(matrix: Matrix, platform: Platform) -> dict[str, RocmWheels]:
    """Find the heads of columns for wheels newer than packages: one for releases that do the same.

    Those for which nobody has read what AMD promises have none.
    """
    packages = series_known(matrix, platform)
    every = wheels_of(matrix, platform)
    rows = [row for row in every if row.has_lists and series(row.version) not in packages]
    heads: dict[str, RocmWheels] = {}
    last: tuple[object, ...] = ()
    for row in rows:
        does = tuple(map(frozenset, (row.targets, row.official, row.ready)))
        if does != last:
            heads[f"{series(row.version)}+"] = row
        last = does
    return heads


def _overrides(matrix: Matrix, target: str) -> str:
    """Return the targets that a target can run as, the best first, and with which releases."""
    rows = sorted(
        (row for row in matrix.override if row.target == target and row.verdict in ("ok", "caution")),
        key=lambda row: (row.verdict != "ok", row.value),
    )
    return ", ".join(row.runs_as + (f" ({row.rocm})" if row.rocm else "") for row in rows)

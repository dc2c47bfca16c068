"""What the releases do for a target, neighbouring releases that do the same drawn together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rocenv.core.versions import version_of
from rocenv.explain.answer import Line
from rocenv.explain.words import LEVELS, listed, oldest_first, range_in_words, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.data.known import Platform
    from rocenv.data.releases import RocmWheels, Support
    from rocenv.data.rows import Matrix


def series_known(matrix: Matrix, platform: Platform) -> list[str]:
    """List the series of packages or SDKs of which it is known what they do, oldest first."""
    return oldest_first(row.rocm for row in matrix.support if row.platform == platform)


def levels(matrix: Matrix, platform: Platform, target: str) -> dict[str, Support]:
    """What a platform's packages or SDKs do for a target, by series; one that is not in it does nothing."""
    return {row.rocm: row for row in matrix.support if row.platform == platform and target in row.targets}


def wheels_of(matrix: Matrix, platform: str) -> list[RocmWheels]:
    """List the releases of ROCm's own wheels for a platform, oldest first; what floats is none."""
    rows = [row for row in matrix.rocm_wheels if row.platform == platform and not row.floating]
    return sorted(rows, key=lambda row: (version_of(row.version), row.channel))


def support_lines(matrix: Matrix, target: str) -> list[Line]:
    """Say what ROCm's releases for Linux do for a target: AMD's wheels, then its packages."""
    rows = [row for row in matrix.support if row.platform == "linux"]
    said = {row.rocm: row for row in rows if target in row.targets}
    known = series_known(matrix, "linux")
    lines: list[Line] = []
    for level, run in groupby(known, key=lambda series: said[series].level if series in said else ""):
        group = list(run)
        # Where a release says nothing, its lists are what shows that.
        basis = [row for row in rows if row.rocm in group and (not level or target in row.targets)]
        basis.sort(key=lambda row: known.index(row.rocm), reverse=True)
        lines.append(Line(label=f"packages {spans(group, known)}", text=LEVELS[level], rows=tuple(basis)))
    return [*wheel_lines(matrix, target, "linux"), *lines[::-1]]


def wheel_lines(matrix: Matrix, target: str, platform: Platform) -> list[Line]:
    """Say what AMD's wheels do for a target: whether AMD supports it, and whether they are release-ready.

    Releases for which nobody has read that come at the end of a line, as built.
    """
    every = wheels_of(matrix, platform)
    rows = [row for row in every if target in row.targets]
    groups: dict[tuple[str, str], list[RocmWheels]] = {}
    unread: dict[str, list[RocmWheels]] = {}
    for row in rows[::-1]:
        if row.has_lists:
            groups.setdefault((row.channel, _promise(row, target)), []).append(row)
        else:
            unread.setdefault(row.channel, []).append(row)
    lines = []
    for (channel, promise), group in groups.items():
        others = unread.pop(channel, [])
        known = [row.version for row in every if row.channel == channel]
        more = "".join(f"; {text}" for text in (*_drivers(group), *_built(others)))
        text = f"ROCm {spans((row.version for row in group), known)} ({channel}): {promise}{more}"
        lines.append(Line(label="wheels", text=text, rows=(*group, *others)))
    for channel, group in unread.items():
        text = f"ROCm {listed(oldest_first(row.version for row in group))} ({channel}): built"
        lines.append(Line(label="wheels", text=text, rows=tuple(group)))
    if not rows and every:
        lines.append(Line(label="wheels", text=LEVELS[""], rows=tuple(every[-1:])))
    return lines


def _promise(row: RocmWheels, target: str) -> str:
    """Say in few words whether AMD supports a target, and whether the build for it is release-ready."""
    if target in row.official:
        text = "supported by AMD"
        return f"{text}, {'' if target in row.ready else 'not marked '}release-ready" if row.ready else text
    if target in row.ready:
        return "release-ready, not on AMD's list of supported GPUs"
    return "not supported or release-ready"


def _built(rows: Sequence[RocmWheels]) -> list[str]:
    return [f"{listed(oldest_first(row.version for row in rows))}: built"] if rows else []


def _drivers(rows: Iterable[RocmWheels]) -> list[str]:
    ranges = [(row.version, range_in_words(row.driver)) for row in rows if row.driver]
    needed = [f"{version} needs display driver {text}" for version, text in ranges]
    return [listed(needed)] if needed else []

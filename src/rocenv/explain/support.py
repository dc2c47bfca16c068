"""What the releases do for a target, neighbouring releases that do the same drawn together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rocenv.core.versions import version_of
from rocenv.data.releases import RocmWheels
from rocenv.explain.answer import Line
from rocenv.explain.words import LEVELS, oldest_first, spans

if TYPE_CHECKING:
    from rocenv.data.known import Platform
    from rocenv.data.releases import Support
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found


def series_known(matrix: Matrix, platform: Platform, channel: str | None = None) -> list[str]:
    """Return the series of which it is known what they do, oldest first; of all channels, or of one."""
    return oldest_first(
        row.rocm
        for row in matrix.support
        if row.platform == platform and (channel is None or row.channel == channel)
    )


def levels(matrix: Matrix, platform: Platform, target: str) -> dict[str, Support]:
    """Return what a platform's releases do for a target, by series; one that is not in it does nothing."""
    return {row.rocm: row for row in matrix.support if row.platform == platform and target in row.targets}


def support_lines(matrix: Matrix, target: str, found: Found) -> list[Line]:
    """Return what ROCm's releases for Linux do for a target: AMD's packages, then other channels.

    Args:
        matrix: Everything that is known.
        target: In the matrix.
        found: The sets for the target: what they leave out is said.
    """
    left = {row.channel for row in wheels_left(matrix, target, found)}
    lines = []
    for channel in sorted({row.channel for row in matrix.support if row.platform == "linux"}):
        lines += _channel_lines(matrix, target, channel, left=channel in left)
    return lines


def wheels_left(matrix: Matrix, target: str, found: Found) -> list[RocmWheels]:
    """Return ROCm's own wheels for Linux that have kernels for a target, and that no set is made of."""
    taken = {row.channel for each in found.candidates if (row := each.row(RocmWheels))}
    rows = [
        row
        for row in matrix.rocm_wheels
        if "linux" in row.platforms and target in row.targets and not row.nightly and row.channel not in taken
    ]
    return sorted(rows, key=lambda row: version_of(row.version))


def _channel_lines(matrix: Matrix, target: str, channel: str, *, left: bool) -> list[Line]:
    rows = [row for row in matrix.support if row.platform == "linux" and row.channel == channel]
    said = {row.rocm: row for row in rows if target in row.targets}
    known = series_known(matrix, "linux", channel)
    lines: list[Line] = []
    for level, run in groupby(known, key=lambda series: said[series].level if series in said else ""):
        group = list(run)
        text = LEVELS[level]
        # Where a release says nothing, its lists are what shows that.
        basis = [row for row in rows if row.rocm in group and (not level or target in row.targets)]
        basis.sort(key=lambda row: known.index(row.rocm), reverse=True)
        if level and left:
            text += "; as Python wheels, which `rocenv create` does not take on Linux"
        lines.append(
            Line(
                label=f"{_title(matrix, channel)} {spans(group, known)}",
                text=text,
                rows=tuple(basis),
            )
        )
    return lines[::-1]


def _title(matrix: Matrix, channel: str) -> str:
    """Return what the releases of a channel are called."""
    return next((row.channel for row in matrix.release if row.channel.casefold() == channel), "ROCm")

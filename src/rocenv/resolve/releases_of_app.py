"""Which releases of an app work with which ROCm. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.versions import bounds, newest_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.rows import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Releases of an app that follow each other and work with the same ROCm."""

    rocm: str  # PEP 440
    low: str  # the first of them
    high: str = ""  # the first that is none of them any more; "" = there is none

    @property
    def words(self) -> str:
        """Which they are, after the name of the app: `from 4.4, before 5.0`."""
        return f"from {self.low}, before {self.high}" if self.high else f"from {self.low} on"


def known_releases(app: str, platform: str, matrix: Matrix) -> list[Span]:
    """Return the releases of an app of which the ROCm is known, the newest first; each up to the next one."""
    rows = [
        (str(low).removesuffix(".dev0"), row.rocm)
        for row in matrix.app_release
        if (row.app, row.platform) == (app, platform) and row.rocm and (low := bounds(row.versions)[0])
    ]
    rows.sort(key=lambda pair: newest_first(pair[0]))
    highs = ["", *(low for low, _rocm in rows)]
    return [Span(rocm=rocm, low=low, high=high) for (low, rocm), high in zip(rows, highs[:-1], strict=True)]


def spans(releases: Sequence[Span]) -> list[Span]:
    """Return releases with neighbours that work with the same ROCm drawn together, the newest first."""
    drawn: list[Span] = []
    for each in releases:
        if drawn and drawn[-1].rocm == each.rocm:
            each = Span(rocm=each.rocm, low=each.low, high=drawn.pop().high)
        drawn.append(each)
    return drawn

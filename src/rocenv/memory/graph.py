"""Bars and lines of blocks, in characters that the terminal has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = "_.-=+*%#"
_FULL, _EMPTY = "█", "░"
_PLAIN_FULL, _PLAIN_EMPTY = "#", "."


def can_draw(encoding: str | None) -> bool:
    """Tell whether a stream of this encoding can show blocks."""
    try:
        f"{_LEVELS}{_EMPTY}".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def bar(part: float, whole: float, width: int, *, blocks: bool) -> str:
    """Return a bar that is filled as `part` is of `whole`; it is empty or full only where that is so."""
    full, empty = (_FULL, _EMPTY) if blocks else (_PLAIN_FULL, _PLAIN_EMPTY)
    share = min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
    filled = round(share * width)
    if 0 < share < 1:
        filled = min(width - 1, max(1, filled))
    return full * filled + empty * (width - filled)


def line(shares: Sequence[float | None], width: int, *, blocks: bool) -> str:
    """Return the last shares, each from 0 to 1, as a line of levels; None leaves a gap."""
    levels = _LEVELS if blocks else _PLAIN_LEVELS
    drawn = [
        " " if share is None else levels[min(len(levels) - 1, int(min(1.0, max(0.0, share)) * len(levels)))]
        for share in shares[-width:]
    ]
    return "".join(drawn).rjust(width)

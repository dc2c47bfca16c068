"""Format and parse memory sizes in binary units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GIB = 1 << 30
MIB = 1 << 20
MAX_BYTES = 1 << 50  # more than any GPU has; larger values are treated as errors
_UNITS = {"": 1, "k": 1 << 10, "m": MIB, "g": GIB, "t": 1 << 40}


def amount(size_bytes: float | None) -> str:
    """Format a size as `15.9 GiB` or `512 MiB`, or as "?" if it is None."""
    if size_bytes is None:
        return "?"
    if abs(size_bytes) >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    if abs(size_bytes) >= MIB:
        return f"{size_bytes / MIB:.0f} MiB"
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes else "0"


def parse_amount(text: str) -> int | None:
    """Parse a size such as `8`, `8G`, `7.5 GiB` or `900MiB` into bytes; return None if it is invalid.

    A bare number is in GiB. `GB` also means GiB, as in GPU vendors' specifications.
    """
    found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not found:
        return None
    has_unit = found[2] or text.strip().lower().endswith("b")
    size = int(float(found[1]) * _UNITS[found[2].lower() if has_unit else "g"])
    return size if 0 < size <= MAX_BYTES else None


def add(first: int | None, second: int | None) -> int | None:
    """Add two sizes; return None if either is unknown."""
    return None if first is None or second is None else first + second


def ranges(numbers: Iterable[int]) -> str:
    """Format ascending numbers as ranges: `0-3, 7`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

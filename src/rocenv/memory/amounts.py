"""Amounts of memory as people read and write them, in the binary units that GPUs are counted in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GIB = 1 << 30
MIB = 1 << 20
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": MIB, "g": GIB, "t": 1 << 40}
MOST = 1 << 50  # more is no memory of a GPU


def amount(size_bytes: float | None) -> str:
    """Return an amount as people read it, "?" where it is not known: `15.9 GiB`, `512 MiB`."""
    if size_bytes is None:
        return "?"
    if abs(size_bytes) >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    if abs(size_bytes) >= MIB:
        return f"{size_bytes / MIB:.0f} MiB"
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes else "0"


def added(first: int | None, second: int | None) -> int | None:
    """Return the sum of two amounts, None where one of them is not known."""
    return None if first is None or second is None else first + second


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as people write them: `0-3, 7`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def bytes_of(text: str) -> int | None:
    """Return the bytes of `8`, `8G`, `7.5 GiB` or `900MiB`; a number alone is GiB; None = no amount.

    `GB` is taken for `GiB`, as people say it of cards.
    """
    found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not found:
        return None
    has_unit = found[2] or text.strip().lower().endswith("b")
    size = int(float(found[1]) * _UNITS[found[2].lower() if has_unit else "g"])
    return size if 0 < size <= MOST else None

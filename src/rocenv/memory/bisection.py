"""The largest amount that works, in few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT_BYTES = 1 << 20  # all amounts are multiples of it
_PARTS = 1024  # of the bound: how finely it is looked for


def resolution_of(bound: int) -> int:
    """Return by how much the answer may be too small."""
    return max(UNIT_BYTES, bound // _PARTS // UNIT_BYTES * UNIT_BYTES)


def largest(bound: int, works: Callable[[int], bool]) -> int:
    """Return the largest amount up to `bound` that works, 0 if none does.

    It may be too small by `resolution_of`. The bound is tried first, since as a rule it works. What is less
    than one step of that is looked for again, more finely.

    Args:
        bound: A multiple of UNIT_BYTES.
        works: Tries an amount; once one does not work, it is not asked for more.
    """
    while bound >= UNIT_BYTES:
        found, least_not = _between(bound, resolution_of(bound), works)
        if found:
            return found
        bound = least_not - UNIT_BYTES
    return 0


def _between(bound: int, resolution: int, works: Callable[[int], bool]) -> tuple[int, int]:
    """Return the largest amount that worked, and the least that did not."""
    if works(bound):
        return bound, bound + UNIT_BYTES
    low, high = 0, bound
    while high - low > resolution:
        middle = max(UNIT_BYTES, (low + high) // 2 // UNIT_BYTES * UNIT_BYTES)
        if works(middle):
            low = middle
        else:
            high = middle
    return low, high

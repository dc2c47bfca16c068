"""Words of a user as names of things."""

from __future__ import annotations

import re


def plain(thing: str) -> str:
    """Return a word as names are written: lower case, no quotes, one blank between words."""
    return " ".join(thing.casefold().replace('"', " ").replace("'", " ").split())


def asked_version(thing: str, kinds: tuple[str, ...]) -> str:
    """Return the version in `KIND-V`, `KIND V`, `KIND==V` or `KINDV`; "" where it is nothing of these kinds.

    The kind "" stands for a version alone.
    """
    for kind in kinds:
        found = re.fullmatch(rf"{re.escape(kind)}[\s=-]*v?([0-9][0-9a-z.+-]*)", thing.replace("_", "-"))
        if found:
            return found[1]
    return ""

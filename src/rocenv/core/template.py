"""Fill placeholders: `{prefix}` and `{gfx|your GPU}` in rows and suggested commands, `__NAME__` in scripts.

Values are inserted in one pass, because a value can look like a placeholder.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLACE = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")
_PLACE_IN_SCRIPT = re.compile("__([A-Z]+(?:_[A-Z]+)*)__")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace each `{name}` that has a value; leave other braces unchanged."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)


def fill_all(text: str, values: Mapping[str, str]) -> str | None:
    """Replace each `{name}` with its value, or with its fallback if the value is unknown or empty.

    Returns None if a placeholder has neither.
    """
    if any(not values.get(place[1]) and place[2] is None for place in _PLACE.finditer(text)):
        return None
    return _PLACE.sub(lambda place: values.get(place[1]) or place[2], text)


def without_values(text: str, word: Callable[[str], str]) -> str:
    """Replace each `{name}` with its fallback, or with `word(name)`."""
    return _PLACE.sub(lambda place: place[2] or word(place[1]), text)


def fill_script(text: str, values: Mapping[str, str]) -> str:
    """Replace each `__NAME__` in a script, where braces are shell syntax; KeyError for unknown names."""
    return _PLACE_IN_SCRIPT.sub(lambda place: values[place[1]], text)


def places(text: str) -> dict[str, bool]:
    """Map each placeholder name in a string to whether all its occurrences have a fallback."""
    found: dict[str, bool] = {}
    for place in _PLACE.finditer(text):
        found[place[1]] = found.get(place[1], True) and place[2] is not None
    return found

"""Texts with places such as `{prefix}`: in rows, in proposed commands and in values of variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACE = re.compile(r"\{([a-z_0-9]+)\}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace each `{name}` by its value, in one pass; braces around anything else are left alone."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)


def places(text: str) -> set[str]:
    """Collect the names that a text has places for."""
    return set(_PLACE.findall(text))

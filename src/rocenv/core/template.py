"""Templates with placeholders such as `{prefix}`, in rows, suggested commands and values of variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACE = re.compile(r"\{([a-z_0-9]+)\}")


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace each `{name}` with its value in one pass; other braces stay as they are."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)


def places(text: str) -> set[str]:
    """Collect the placeholder names in a text."""
    return set(_PLACE.findall(text))

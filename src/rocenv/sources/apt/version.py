"""Compare Debian package versions.

Source: Debian Policy 5.6.12, "Version"
"""

from __future__ import annotations

import operator
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECES = re.compile(r"(\D*)(\d*)")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">>": operator.gt,
}


@cache
def version_key(version: str) -> tuple[Any, ...]:
    """Return a sort key for versions, oldest first."""
    return tuple(map(_part_key, _split(version)))


def satisfies(version: str, relation: str, wanted: str) -> bool:
    """Whether `version` satisfies a relation such as `>= 2.38`; any version satisfies an empty relation."""
    if not relation:
        return True
    compare = _OPERATORS.get(relation)
    return compare is not None and compare(version_key(version), version_key(wanted))


def upstream(version: str) -> str:
    """Return the upstream part of a version without repacking suffixes: `5.7.1` for `1:5.7.1-6+deb13u1`."""
    return re.split(r"[+~]|\.dfsg", _split(version)[1])[0]


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    plain, dash, revision = rest.rpartition("-")
    return (epoch, plain, revision) if dash else (epoch, rest, "0")


def _part_key(part: str) -> list[tuple[list[int], int]]:
    """Split a part into strings and numbers; shorter versions compare as if padded with empty parts."""
    pieces = _PIECES.findall(part)[:-1] or [("", "")]
    return [*((_order(text), int(digits or 0)) for text, digits in pieces), ([0], 0)]


def _order(text: str) -> list[int]:
    """Return a sort key: letters before other characters, and `~` before anything, even the end."""
    ranks = [-1 if char == "~" else ord(char) if char.isalpha() else ord(char) + 256 for char in text]
    return [*ranks, 0]

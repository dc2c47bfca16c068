"""The order of Debian package versions.

Source: Debian Policy 5.6.12, "Version"
"""

from __future__ import annotations

import re
from functools import cmp_to_key

_PARTS = re.compile(r"(\D*)(\d*)")


def compare(left: str, right: str) -> int:
    """Return a number below, equal to or above 0 as `left` is older than, equal to or newer than `right`."""
    for one, other in zip(_split(left), _split(right), strict=True):
        difference = _compare_part(one, other)
        if difference:
            return difference
    return 0


version_key = cmp_to_key(compare)


def satisfies(version: str, operator: str, wanted: str) -> bool:
    """Tell whether `version` meets a relation of a dependency, say `>= 2.38`; an empty operator is met."""
    difference = compare(version, wanted) if operator else 0
    match operator:
        case "<<":
            return difference < 0
        case "<=" | "<":
            return difference <= 0
        case "=":
            return difference == 0
        case ">=" | ">":
            return difference >= 0
        case ">>":
            return difference > 0
        case _:
            return operator == ""


def upstream(version: str) -> str:
    """Return the upstream part of a version: `5.7.1` of `1:5.7.1-6+deb13u1`, repacking marks removed."""
    plain = _split(version)[1]
    return re.split(r"[+~]|\.dfsg", plain)[0]


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    plain, dash, revision = rest.rpartition("-")
    return (epoch, plain, revision) if dash else (epoch, rest, "0")


def _compare_part(one: str, other: str) -> int:
    for (text1, digits1), (text2, digits2) in _pairs(one, other):
        order1, order2 = _order(text1), _order(text2)
        if order1 != order2:
            return -1 if order1 < order2 else 1
        number1, number2 = int(digits1 or 0), int(digits2 or 0)
        if number1 != number2:
            return number1 - number2
    return 0


def _pairs(one: str, other: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    parts1, parts2 = _PARTS.findall(one), _PARTS.findall(other)
    length = max(len(parts1), len(parts2))
    empty = [("", "")]
    parts1 += empty * (length - len(parts1))
    parts2 += empty * (length - len(parts2))
    return list(zip(parts1, parts2, strict=True))


def _order(text: str) -> list[int]:
    """Letters come before other signs, and `~` before everything, even before the end."""
    ranks = [-1 if char == "~" else ord(char) if char.isalpha() else ord(char) + 256 for char in text]
    return [*ranks, 0]

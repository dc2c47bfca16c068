"""What must hold of rules, clues and advice before anybody's log is searched for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocenv.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.matrix.checks import Placed
    from rocenv.matrix.rules import Sign

SHORTEST = 3  # bytes of a literal: shorter ones stand everywhere
FARTHEST = 60  # lines that `near` can look at
OPERATORS = ("<", ">", "=", "!", "~")


def check_rules(rows: Mapping[str, Sequence[Placed]]) -> None:
    """Raise DataError where a pattern, a literal or a condition is none, or a code leads nowhere."""
    codes = {placed.row.code for placed in rows["rule"]}
    for placed in rows["rule"]:
        row = placed.row
        for code in row.explains:
            _require(code in codes, placed, f"`explains` names `{code}`, which is not there")
        _require(bool(row.sign), placed, "`sign` is empty: nothing would ever show it")
        _require(bool(row.why) and not row.why[-1].when, placed, "the last `why` must hold whatever is known")
        for sign in row.sign:
            for fault in _faults(sign):
                raise DataError(f"{fault} (`{placed.where}`, `{row.code}`)")
        for each in (*row.why, *row.remedy):
            _check_conditions(each.when, placed)
    for placed in rows["clue"]:
        _require(_is_pattern(placed.row.pattern), placed, f"`{placed.row.pattern}` is no regular expression")
        _check_literals(placed.row.text, placed)
    for placed in rows["advice"]:
        for each in placed.row.remedy:
            _check_conditions(each.when, placed)


def _faults(sign: Sign) -> Iterator[str]:
    for pattern in (sign.pattern, *sign.near, *sign.not_near):
        if not _is_pattern(pattern):
            yield f"`{pattern}` is no regular expression"
    for text in sign.text or ("",):
        if len(text.encode()) < SHORTEST or "\n" in text:
            yield f"`text`: `{text}` is no part of a line that says anything"
    if not 0 < sign.weight <= 1:
        yield f"`weight` is {sign.weight}, not above 0 and at most 1"
    if not 0 <= sign.within <= FARTHEST:
        yield f"`within` is {sign.within}, not 0 to {FARTHEST}"
    for value in sign.when.values():
        if not is_condition(value):
            yield f"`when`: `{value}` is neither a range of versions nor a pattern"


def _check_conditions(when: Mapping[str, str], placed: Placed) -> None:
    for value in when.values():
        fault = f"`when`: `{value}` is neither a range of versions nor a pattern"
        _require(is_condition(value), placed, fault)


def _check_literals(texts: Sequence[str], placed: Placed) -> None:
    for text in texts or ("",):
        _require(
            len(text.encode()) >= SHORTEST and "\n" not in text,
            placed,
            f"`text`: `{text}` is no part of a line that says anything",
        )


def is_condition(text: str) -> bool:
    """Tell whether a condition can be asked of a fact."""
    if text.startswith(OPERATORS):
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            return False
        return True
    return text in ("", "*") or _is_pattern(text)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _require(condition: bool, placed: Placed, fault: str) -> None:
    if not condition:
        raise DataError(f"{fault} (`{placed.where}`)")

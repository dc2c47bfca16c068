"""What must hold of rules, clues and advice before anybody's log is searched for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.checks import Placed
    from rocenv.data.rules import Rule, Sign, Text

SHORTEST = 3  # bytes of a literal: shorter ones stand everywhere
FARTHEST = 60  # lines that `near` can look at
OPERATORS = ("<", ">", "=", "!", "~")
# What rocenv fills in besides what a log says; `env` only where it knows one.
DERIVED = ("create", "rocm_minor", "platform", "gfx", "gpu", "driver", "amdgpu", "kernel", "env")
_ONLY_SOMETIMES = "env"
_PLACE = re.compile(r"\{(\w+)(\|[^{}]*)?\}")


def check_rules(rows: Mapping[str, Sequence[Placed]]) -> None:
    """Raise DataError where a pattern, a literal or a condition is none, or a code leads nowhere."""
    codes = {placed.row.code for placed in rows["rule"]}
    facts = {*DERIVED, *(placed.row.fact for placed in rows["clue"])}
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
        for fault in _never_filled(row, facts):
            raise DataError(f"{fault} (`{placed.where}`, `{row.code}`)")
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


def _never_filled(rule: Rule, facts: set[str]) -> Iterator[str]:
    """Yield what is wrong with the places of a rule's texts and the names in its conditions."""
    own = facts.union(*(re.compile(sign.pattern).groupindex for sign in rule.sign))
    for sign in rule.sign:
        yield from (f"`when` of a sign: no clue draws `{name}`" for name in sign.when if name not in facts)
    asked = dict.fromkeys(name for row in (rule.why, rule.remedy) for each in row for name in each.when)
    yield from (f"`when`: nothing in a log is `{name}`" for name in asked if name not in own)
    for text, always in _texts(rule):
        for name, words in _PLACE.findall(text):
            if name not in own:
                yield f"`{{{name}}}` is never known: `{text}`"
            elif not words and (always or name == _ONLY_SOMETIMES):
                yield f"`{{{name}}}` needs words for when it is not known: `{text}`"
    pairs = (rule.title, *(why.text for why in rule.why), *(remedy.text for remedy in rule.remedy))
    for pair in pairs:
        if _places(pair.en) != _places(pair.zh):
            yield f"the languages have different places: `{pair.en}`"


def _texts(rule: Rule) -> Iterator[tuple[str, bool]]:
    """Yield each text of a rule, and whether it has to be told whatever is known."""
    pairs: list[tuple[Text, bool]] = [(rule.title, True)]
    pairs += [(why.text, why is rule.why[-1]) for why in rule.why]
    pairs += [(remedy.text, False) for remedy in rule.remedy]
    for pair, always in [*pairs, *([(rule.more, True)] if rule.more else [])]:
        yield from ((pair.en, always), (pair.zh, always))
    yield from ((command, False) for remedy in rule.remedy for command in remedy.commands)


def _places(text: str) -> set[str]:
    return {name for name, _words in _PLACE.findall(text)}


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

"""What a log says about the machine and the programs, and conditions on that."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.data.rules import OPERATORS
from rocenv.diagnose.decode import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Clue
    from rocenv.diagnose.sieve import Sightings

Facts = dict[str, tuple[str, ...]]
_THERE = "yes"
# People write `rx9070xt`, the data `RX 9070 XT`.
_MODEL = re.compile(r"\b(RX) ?(?=[0-9])", re.IGNORECASE)
_SUFFIX = re.compile(r"([0-9]) ?(XTX?|GRE)\b", re.IGNORECASE)
_ANY = "."  # the literal says it all
_SOME, _MANY = 200, 1000  # sightings
_LIST = 4  # a line that names more is a list of what there can be, not of what is there
_MOST = 40  # values of a fact
_LONGEST = 80  # characters of a value


def drawn(clues: Iterable[Clue], sightings: Sightings, page: str) -> Facts:
    """Return the facts that the lines of a log show: of each its values, in the order of the log."""
    found: dict[str, dict[str, int]] = {}
    for clue in clues:
        for sighting in sightings.of(clue.text):
            for value in _values(clue, decoded(sighting.line, page)):
                values = found.setdefault(clue.fact, {})
                values[value] = min(values.get(value, sighting.number), sighting.number)
    return {name: _in_order(values) for name, values in found.items()}


def sightings_needed(clue: Clue) -> int:
    """Return after how many lines with its literal a clue has told what there is to tell."""
    if clue.fact in compiled(clue.pattern).groupindex:
        return _MANY
    return 1 if clue.pattern == _ANY else _SOME


def _values(clue: Clue, line: str) -> tuple[str, ...]:
    """Return what a line says of a fact, in its order."""
    pattern = compiled(clue.pattern)
    if clue.fact not in pattern.groupindex:
        return (clue.value,) if pattern.search(line) else ()
    said = (match[clue.fact].strip()[:_LONGEST] for match in pattern.finditer(line) if match[clue.fact])
    values = tuple(dict.fromkeys(said))
    return values if len(values) <= _LIST else ()


def _in_order(values: Mapping[str, int]) -> tuple[str, ...]:
    """Return the values of a fact in the order of their lines; that it is there at all is then no value."""
    known = [value for value in values if value != _THERE] or [_THERE]
    return tuple(sorted(known, key=lambda each: values[each]))[:_MOST]


def settled(facts: Facts, matrix: Matrix) -> Facts:
    """Return facts with one platform, and with the targets of GPUs that a log only calls by their names."""
    if "wsl" in facts:
        facts = {**facts, "platform": ("linux",)}
    elif len(facts.get("platform", ())) > 1:
        facts = {**facts, "platform": facts["platform"][:1]}
    if facts.get("gfx") or not facts.get("gpu"):
        return facts
    from rocenv.host.windows import target_by_name

    names = [_MODEL.sub(r"\1 ", _SUFFIX.sub(r"\1 \2", name)) for name in facts["gpu"]]
    targets = tuple(dict.fromkeys(filter(None, (target_by_name(name, matrix) for name in names))))
    return {**facts, "gfx": targets} if targets else facts


def joined(*facts: Facts) -> Facts:
    """Return facts together, the values of the first ones first."""
    found: dict[str, dict[str, None]] = {}
    for each in facts:
        for name, values in each.items():
            found.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values)[:_MOST] for name, values in found.items()}


def hold(when: Mapping[str, str], facts: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether conditions hold; what a log does not say holds only where it must not be known."""
    return all(_holds(condition, facts.get(name, ())) for name, condition in when.items())


def _holds(condition: str, values: tuple[str, ...]) -> bool:
    if condition in ("", "*"):
        return bool(values) == bool(condition)
    if condition.startswith(OPERATORS):
        return any(_allows(condition, value) for value in values)
    return any(compiled(condition).fullmatch(value) for value in values)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of a rule or a clue."""
    return re.compile(pattern, re.IGNORECASE)


def _allows(condition: str, value: str) -> bool:
    number = re.match(r"[0-9]+(?:\.[0-9]+)*", value)
    try:
        return number is not None and SpecifierSet(condition).contains(Version(number[0]), prereleases=True)
    except InvalidVersion:
        return False

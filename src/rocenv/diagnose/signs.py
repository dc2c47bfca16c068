"""Which rules a log gives signs of, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.diagnose.decode import decoded
from rocenv.diagnose.facts import Facts, compiled, hold, joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.rules import Rule, Sign
    from rocenv.diagnose.sieve import Sighting, Sightings

_MORE = 0.3  # how much of what is left to be sure a sign in a further line takes
_STRONG = 0.6  # weight of a sign that would do alone
LEAST = 0.3  # confidence of what is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A sign of a rule in a line of a log."""

    sign: Sign
    sighting: Sighting
    text: str  # the line
    place: int  # of the literal in it
    groups: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that a log gives signs of, the surest first."""

    rule: Rule
    shown: tuple[Shown, ...]
    file: str = ""  # in a folder: which log

    @property
    def confidence(self) -> float:
        """How sure it is: as the surest sign, and a little more for each line with another one."""
        first, *others = {shown.sighting.number: shown for shown in reversed(self.shown)}.values()
        weights = sorted((each.sign.weight for each in (first, *others)), reverse=True)
        sure = weights[0]
        for weight in weights[1:]:
            sure += (1 - sure) * _MORE * weight
        return round(min(sure, 0.99), 2)

    @property
    def facts(self) -> Facts:
        """What its lines say by themselves; the surest sign has the first word."""
        return joined(*(shown.groups for shown in self.shown))

    @property
    def lines(self) -> set[tuple[str, str]]:
        """The lines that show it by themselves; the surest one even where it is only a hint."""
        strong = [each for each in self.shown if each.sign.weight >= _STRONG] or self.shown[:1]
        return {(self.file, each.text) for each in strong}

    @property
    def first_line(self) -> tuple[str, int]:
        """Where it shows first."""
        return self.file, min(shown.sighting.number for shown in self.shown)


def candidate(
    rule: Rule, signs: Iterable[Sign], sightings: Sightings, facts: Facts, page: str, file: str = ""
) -> Candidate | None:
    """Return what a log shows of a rule by some signs; None where it shows nothing."""
    found = (_first(sign, sightings, page) for sign in signs if hold(sign.when, facts))
    shown = sorted(filter(None, found), key=lambda each: (-each.sign.weight, each.sighting.number))
    return Candidate(rule=rule, shown=tuple(shown), file=file) if shown else None


def _first(sign: Sign, sightings: Sightings, page: str) -> Shown | None:
    """Return the first line that shows a sign."""
    for sighting in sorted(sightings.of(sign.text), key=lambda each: each.number):
        found = _shown(sign, sighting, page)
        if found is not None:
            return found
    return None


def _shown(sign: Sign, sighting: Sighting, page: str) -> Shown | None:
    text = decoded(sighting.line, page)
    groups: Facts = {}
    if sign.pattern:
        pattern = compiled(sign.pattern)
        match = pattern.search(text) or pattern.search(decoded(sighting.wrapped(), page))
        if match is None:
            return None
        groups = {name: (value.strip(),) for name, value in match.groupdict().items() if value}
    if sign.near or sign.not_near:
        around = decoded(sighting.around(sign.within), page)
        if not all(compiled(pattern).search(around) for pattern in sign.near):
            return None
        if any(compiled(pattern).search(around) for pattern in sign.not_near):
            return None
    place = len(decoded(sighting.line[: sighting.place], page))
    return Shown(sign=sign, sighting=sighting, text=text, place=place, groups=groups)

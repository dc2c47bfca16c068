"""Which rules a log gives signs of, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.diagnose.decode import decoded
from rocenv.diagnose.facts import Facts, compiled, hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.diagnose.sieve import Sighting, Sightings
    from rocenv.matrix.rules import Rule, Sign

_MORE = 0.3  # how much of what is left to be sure each further sign takes
LEAST = 0.3  # confidence of what is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A sign of a rule in a line of a log."""

    sign: Sign
    sighting: Sighting
    text: str  # the line
    groups: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that a log gives signs of, the surest first."""

    rule: Rule
    shown: tuple[Shown, ...]

    @property
    def confidence(self) -> float:
        """How sure it is: as the surest sign, and a little more for each other one."""
        first, *others = self.shown
        sure = first.sign.weight
        for each in others:
            sure += (1 - sure) * _MORE * each.sign.weight
        return round(min(sure, 0.99), 2)

    @property
    def facts(self) -> Facts:
        """What its lines say by themselves; the surest sign has the first word."""
        found: Facts = {}
        for shown in self.shown:
            for name, values in shown.groups.items():
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *values)))
        return found

    @property
    def lines(self) -> set[tuple[str, int]]:
        """Where its signs stand."""
        return {(shown.sighting.file, shown.sighting.number) for shown in self.shown}


def candidate(rule: Rule, sightings: Sightings, facts: Facts, encoding: str) -> Candidate | None:
    """Return what a log shows of a rule; None where it shows nothing."""
    shown = [
        found for sign in rule.sign if hold(sign.when, facts) for found in _first(sign, sightings, encoding)
    ]
    if not shown:
        return None
    shown.sort(key=lambda each: (-each.sign.weight, each.sighting.number))
    return Candidate(rule=rule, shown=tuple(shown))


def _first(sign: Sign, sightings: Sightings, encoding: str) -> Iterator[Shown]:
    """Yield the first line that shows a sign."""
    for sighting in sorted(sightings.of(sign.text), key=lambda each: each.number):
        found = _shown(sign, sighting, encoding)
        if found is not None:
            yield found
            return


def _shown(sign: Sign, sighting: Sighting, encoding: str) -> Shown | None:
    text = decoded(sighting.line, encoding)
    groups: Facts = {}
    if sign.pattern:
        pattern = compiled(sign.pattern)
        match = pattern.search(text) or pattern.search(decoded(sighting.wrapped(), encoding))
        if match is None:
            return None
        groups = {name: (value.strip(),) for name, value in match.groupdict().items() if value}
    if sign.near or sign.not_near:
        around = decoded(sighting.around(sign.within), encoding)
        if not all(compiled(pattern).search(around) for pattern in sign.near):
            return None
        if any(compiled(pattern).search(around) for pattern in sign.not_near):
            return None
    return Shown(sign=sign, sighting=sighting, text=text.strip(), groups=groups)

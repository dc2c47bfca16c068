"""Match a log against the patterns of rules, and choose the causes that become findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.data.remedies import compiled, hold
from rocenv.diagnose.facts import Facts, joined
from rocenv.diagnose.reading import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.rules import Pattern, Rule
    from rocenv.diagnose.scanner import Sighting, Sightings

MAX_FINDINGS = 3  # per log
_MIN_BEST = 0.3  # minimum confidence of the best finding
_MIN_OTHER = 0.6  # minimum confidence of each other finding
_MIN_CAUSE = 0.5  # minimum confidence of a cause that hides its consequences
_STRONG = 0.6  # minimum weight of a pattern that suffices on its own
_MORE = 0.3  # fraction of the remaining doubt that each match on another line removes


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line of a log that matches a pattern."""

    pattern: Pattern
    sighting: Sighting
    text: str  # the line
    place: int  # offset of the literal in `text`
    groups: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that matches a log."""

    rule: Rule
    matches: tuple[Match, ...]  # the pattern with the greatest weight first
    file: str = ""  # the file in a folder of logs

    @property
    def confidence(self) -> float:
        """The greatest weight, increased slightly by each match on another line, up to 0.99."""
        by_line = {match.sighting.number: match for match in reversed(self.matches)}
        weights = sorted((match.pattern.weight for match in by_line.values()), reverse=True)
        confidence = weights[0]
        for weight in weights[1:]:
            confidence += (1 - confidence) * _MORE * weight
        return round(min(confidence, 0.99), 2)

    @property
    def facts(self) -> Facts:
        """The facts in its lines, strongest pattern first."""
        return joined(*(match.groups for match in self.matches))

    @property
    def lines(self) -> set[tuple[str, str]]:
        """Its decisive lines: those that suffice on their own, or else the strongest one."""
        strong = [match for match in self.matches if match.pattern.weight >= _STRONG] or self.matches[:1]
        return {(self.file, match.text) for match in strong}

    @property
    def first_line(self) -> tuple[str, int]:
        """The file and line number of its first matching line."""
        return self.file, min(match.sighting.number for match in self.matches)


def candidate(
    rule: Rule, patterns: Iterable[Pattern], sightings: Sightings, facts: Facts, page: str, file: str = ""
) -> Candidate | None:
    """Match a log against the patterns of a rule; return None if none matches."""
    found = (_first(pattern, sightings, page) for pattern in patterns if hold(pattern.when, facts))
    matches = sorted(filter(None, found), key=lambda each: (-each.pattern.weight, each.sighting.number))
    return Candidate(rule=rule, matches=tuple(matches), file=file) if matches else None


def _first(pattern: Pattern, sightings: Sightings, page: str) -> Match | None:
    in_order = sorted(sightings.of(pattern.text), key=lambda each: each.number)
    return next(filter(None, (_match(pattern, sighting, page) for sighting in in_order)), None)


def _match(pattern: Pattern, sighting: Sighting, page: str) -> Match | None:
    text = decoded(sighting.line, page)
    groups: Facts = {}
    if pattern.regex:
        regex = compiled(pattern.regex)
        match = regex.search(text) or regex.search(decoded(sighting.wrapped(), page))
        if match is None:
            return None
        groups = {name: (value.strip(),) for name, value in match.groupdict().items() if value}
    if pattern.near or pattern.not_near:
        around = decoded(sighting.around(pattern.within), page)
        if not all(compiled(regex).search(around) for regex in pattern.near):
            return None
        if any(compiled(regex).search(around) for regex in pattern.not_near):
            return None
    place = len(decoded(sighting.line[: sighting.place], page))
    return Match(pattern=pattern, sighting=sighting, text=text, place=place, groups=groups)


def ranked(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Choose the candidates that become findings: the best one and others that are independent of it.

    A cause hides its consequences. The remaining candidates are sorted by confidence; all except the first
    need high confidence and decisive lines of their own to become findings.
    """
    likely = [each for each in candidates if each.confidence >= _MIN_BEST]
    left = [each for each in likely if not any(_hides(other, each) for other in likely)]
    left.sort(key=lambda each: (-each.confidence, each.first_line))
    chosen: list[Candidate] = []
    for each in left:
        shares = any(each.lines & other.lines for other in chosen)
        if not chosen or (each.confidence >= _MIN_OTHER and not shares):
            chosen.append(each)
    return tuple(chosen[:MAX_FINDINGS])


def _hides(cause: Candidate, other: Candidate) -> bool:
    """Whether a cause explains another candidate; if each explains the other, the likelier wins."""
    if cause.confidence < _MIN_CAUSE or other.rule.code not in cause.rule.explains:
        return False
    mutual = cause.rule.code in other.rule.explains and other.confidence >= _MIN_CAUSE
    return not mutual or (-cause.confidence, cause.rule.code) < (-other.confidence, other.rule.code)

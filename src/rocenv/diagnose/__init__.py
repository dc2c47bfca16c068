"""From a log to the causes of what it shows.

    blocks (reading) -> sightings of all literals (sieve) -> facts of the log (facts)
                     -> rules with signs (signs) -> findings, best first (ranking) -> texts (report)

What is known about failures is data: `rule` in `profiles/rules/`, `clue` in `profiles/clues.toml`, and the
failures of apps in `profiles/apps/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rocenv.diagnose.decode import code_page
from rocenv.diagnose.facts import Facts, drawn, joined, settled, sightings_needed
from rocenv.diagnose.of_apps import signs_of_apps
from rocenv.diagnose.ranking import ranked
from rocenv.diagnose.reading import read_bytes
from rocenv.diagnose.sieve import sift
from rocenv.diagnose.signs import candidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Rule
    from rocenv.diagnose.reading import Block
    from rocenv.diagnose.signs import Candidate, Shown

_SHOWN = 4  # lines that a finding is shown with
_WIDTH = 300  # characters of one
_SAMPLE_BYTES = 300  # before a line, by which the code page is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line that shows a cause."""

    line: int  # its number, from 1
    text: str  # printable
    file: str = ""  # in a folder of logs: which one
    count: int = 1  # how many such lines there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause that a log shows."""

    rule: Rule
    confidence: float  # 0 to 1
    evidence: tuple[Evidence, ...]  # the decisive line first
    own: Facts  # what its lines say by themselves
    facts: Facts  # that, then what the whole log says

    @property
    def code(self) -> str:
        """The cause."""
        return self.rule.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a log shows."""

    findings: tuple[Finding, ...]  # best first
    facts: Facts  # of the log; of several, of the one with the best finding
    lines: int
    is_empty: bool  # there was nothing to read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """One log, looked through."""

    candidates: tuple[Candidate, ...]
    facts: Facts
    lines: int
    is_empty: bool


def diagnose_bytes(data: bytes, matrix: Matrix) -> Diagnosis:
    """Return what a log that is at hand shows."""
    return diagnose(read_bytes(data), matrix)


def diagnose(blocks: Iterable[Block], matrix: Matrix) -> Diagnosis:
    """Return what a log shows, or several: each is looked through by itself, and the findings are ranked.

    It raises only what reading the blocks does: there is no log that it cannot take.
    """
    logs = [_looked(file, of_file, matrix) for file, of_file in groupby(blocks, key=lambda block: block.file)]
    best: dict[str, tuple[Candidate, Facts]] = {}
    for log in logs:
        for each in log.candidates:
            known = best.get(each.rule.code)
            if known is None or each.confidence > known[0].confidence:
                best[each.rule.code] = (each, log.facts)
    findings = tuple(
        _finding(each, best[each.rule.code][1]) for each in ranked(found for found, _facts in best.values())
    )
    facts = best[findings[0].code][1] if findings else (logs[0].facts if logs else {})
    return Diagnosis(
        findings=findings,
        facts=facts,
        lines=sum(log.lines for log in logs),
        is_empty=all(log.is_empty for log in logs),
    )


def _looked(file: str, blocks: Iterable[Block], matrix: Matrix) -> _Log:
    literals, enough = matrix.kept("literals", _literals)
    sightings = sift(blocks, literals, enough)
    seen = (each for found in sightings.by_literal.values() for each in found)
    page = code_page(
        {line for each in seen for line in (each.before[-_SAMPLE_BYTES:] + each.line).split(b"\n")}
    )
    facts = settled(drawn(matrix.clue, sightings, page), matrix)
    of_apps = matrix.kept("signs_of_apps", signs_of_apps)
    found = (
        candidate(rule, rule.sign, sightings, facts, page, file)
        or candidate(rule, of_apps.get(rule.code, ()), sightings, facts, page, file)
        for rule in matrix.rule
    )
    return _Log(
        candidates=tuple(filter(None, found)),
        facts=facts,
        lines=sightings.lines,
        is_empty=sightings.is_empty,
    )


def _literals(matrix: Matrix) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return what is looked for in a log, and how often what only draws facts has to be seen."""
    of_rules = [sign for rule in matrix.rule for sign in rule.sign]
    of_apps = [sign for each in matrix.kept("signs_of_apps", signs_of_apps).values() for sign in each]
    signs = dict.fromkeys(text for sign in (*of_rules, *of_apps) for text in sign.text)
    enough: dict[str, int] = {}
    for clue in matrix.clue:
        for text in clue.text:
            if text not in signs:
                enough[text] = max(enough.get(text, 0), sightings_needed(clue))
    return (*signs, *enough), enough


def _finding(found: Candidate, facts: Facts) -> Finding:
    own = found.facts
    told: dict[int, Evidence] = {}
    for shown in found.shown:
        told.setdefault(shown.sighting.number, _evidence(shown, found.file))
    return Finding(
        rule=found.rule,
        confidence=found.confidence,
        evidence=tuple(told.values())[:_SHOWN],
        own=own,
        facts=joined(own, facts),
    )


def _evidence(shown: Shown, file: str) -> Evidence:
    """Return a line as it is shown; of a very long one what stands around its literal."""
    first = max(0, shown.place - _WIDTH // 3) if len(shown.text) > _WIDTH else 0
    plain = "".join(char if char.isprintable() else " " for char in shown.text[first : first + _WIDTH])
    return Evidence(line=shown.sighting.number, text=plain.strip(), file=file, count=shown.sighting.count)

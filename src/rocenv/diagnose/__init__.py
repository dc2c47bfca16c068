"""Find the causes of failures in a log.

    blocks (reading) -> sightings of all literals (scanner) -> facts from the log (facts)
                     -> rules with matches (matching) -> findings, best first -> messages (report)

The knowledge is data: rules in `profiles/rules/`, extractors in `profiles/extractors.toml`, and app failures
in `profiles/apps/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rocenv.diagnose.apps import app_patterns
from rocenv.diagnose.facts import Facts, extracted, joined, settled, sightings_needed
from rocenv.diagnose.matching import candidate, ranked
from rocenv.diagnose.reading import code_page, read_bytes
from rocenv.diagnose.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Rule
    from rocenv.diagnose.matching import Candidate, Match
    from rocenv.diagnose.reading import Block

_SHOWN = 4  # lines of evidence per finding
_WIDTH = 300  # characters of a line
_SAMPLE_BYTES = 300  # bytes before a line that are used to recognize the code page


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line that shows a cause."""

    line: int  # line number, from 1
    text: str  # the line, with only printable characters
    file: str = ""  # its file in a folder of logs
    count: int = 1  # number of similar lines in the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause found in a log."""

    rule: Rule
    confidence: float  # from 0 to 1
    evidence: tuple[Evidence, ...]  # the decisive line first
    own: Facts  # from the matching lines
    facts: Facts  # `own`, then the facts from the whole log

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.rule.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result for one or more logs."""

    findings: tuple[Finding, ...]  # best first
    facts: Facts  # from the log with the best finding
    lines: int
    is_empty: bool  # nothing could be read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    candidates: tuple[Candidate, ...]
    facts: Facts
    lines: int
    is_empty: bool


def diagnose_bytes(data: bytes, matrix: Matrix) -> Diagnosis:
    """Diagnose a log in memory."""
    return diagnose(read_bytes(data), matrix)


def diagnose(blocks: Iterable[Block], matrix: Matrix) -> Diagnosis:
    """Diagnose each log separately, then rank all findings together.

    The blocks can contain any bytes; only reading them can raise an exception.
    """
    logs = [_examined(file, of_file, matrix) for file, of_file in groupby(blocks, key=lambda each: each.file)]
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


def _examined(file: str, blocks: Iterable[Block], matrix: Matrix) -> _Log:
    literals, enough = matrix.kept("literals", _literals)
    sightings = scan(blocks, literals, enough)
    found = (each for of_literal in sightings.by_literal.values() for each in of_literal)
    page = code_page(
        {line for each in found for line in (each.before[-_SAMPLE_BYTES:] + each.line).split(b"\n")}
    )
    facts = settled(extracted(matrix.extractor, sightings, page), matrix)
    of_apps = matrix.kept("app_patterns", app_patterns)
    candidates = (
        candidate(rule, rule.pattern, sightings, facts, page, file)
        or candidate(rule, of_apps.get(rule.code, ()), sightings, facts, page, file)
        for rule in matrix.rule
    )
    return _Log(
        candidates=tuple(filter(None, candidates)),
        facts=facts,
        lines=sightings.lines,
        is_empty=sightings.is_empty,
    )


def _literals(matrix: Matrix) -> tuple[Sequence[str], Mapping[str, int]]:
    """List all literals, and for those used only by extractors, how many sightings are needed."""
    of_rules = [pattern for rule in matrix.rule for pattern in rule.pattern]
    of_apps = [each for patterns in matrix.kept("app_patterns", app_patterns).values() for each in patterns]
    of_causes = dict.fromkeys(text for pattern in (*of_rules, *of_apps) for text in pattern.text)
    enough: dict[str, int] = {}
    for extractor in matrix.extractor:
        for text in extractor.text:
            if text not in of_causes:
                enough[text] = max(enough.get(text, 0), sightings_needed(extractor))
    return (*of_causes, *enough), enough


def _finding(found: Candidate, facts: Facts) -> Finding:
    evidence: dict[int, Evidence] = {}
    for match in found.matches:
        evidence.setdefault(match.sighting.number, _evidence(match, found.file))
    return Finding(
        rule=found.rule,
        confidence=found.confidence,
        evidence=tuple(evidence.values())[:_SHOWN],
        own=found.facts,
        facts=joined(found.facts, facts),
    )


def _evidence(match: Match, file: str) -> Evidence:
    """Convert a match to evidence; shorten a very long line to the part around the literal."""
    first = max(0, match.place - _WIDTH // 3) if len(match.text) > _WIDTH else 0
    plain = "".join(char if char.isprintable() else " " for char in match.text[first : first + _WIDTH])
    return Evidence(line=match.sighting.number, text=plain.strip(), file=file, count=match.sighting.count)

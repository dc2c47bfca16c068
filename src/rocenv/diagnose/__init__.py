"""From a log to the causes of what it shows.

    blocks (reading) -> sightings of all literals (sieve) -> facts of the log (facts)
                     -> rules with signs (signs) -> findings, best first (ranking) -> texts (telling)

What is known about failures is data: `rule` and `clue` in `profiles/rules/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.diagnose.decode import code_page
from rocenv.diagnose.facts import Facts, drawn, sightings_needed, with_targets
from rocenv.diagnose.ranking import ranked
from rocenv.diagnose.reading import read_bytes
from rocenv.diagnose.sieve import Sighting, sift
from rocenv.diagnose.signs import candidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.diagnose.reading import Block
    from rocenv.diagnose.signs import Candidate
    from rocenv.matrix.rows import Matrix
    from rocenv.matrix.rules import Rule

_SHOWN = 4  # lines that a finding is shown with
_WIDTH = 300  # characters of one
_SAMPLE_BYTES = 2000  # around a line, by which the encoding is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line that shows a cause."""

    line: int  # its number, from 1
    text: str  # printable
    file: str = ""  # in a folder of logs: which one
    count: int = 1  # how often such a line came


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
    facts: Facts
    lines: int  # of the log


def diagnose_bytes(data: bytes, matrix: Matrix) -> Diagnosis:
    """Return what a log that is at hand shows."""
    return diagnose(read_bytes(data), matrix)


def diagnose(blocks: Iterable[Block], matrix: Matrix) -> Diagnosis:
    """Return what a log shows.

    It raises only what reading the blocks does: there is no log that it cannot take.
    """
    literals, enough = matrix.kept("literals", _literals)
    sightings = sift(blocks, literals, enough)
    all_seen = [each for seen in sightings.by_literal.values() for each in seen]
    encoding = code_page(each.before[-_SAMPLE_BYTES:] + each.line for each in all_seen)
    facts = with_targets(drawn(matrix.clue, sightings, encoding), matrix)
    found = [candidate(rule, sightings, facts, encoding) for rule in matrix.rule]
    findings = tuple(_finding(each, facts) for each in ranked(filter(None, found)))
    return Diagnosis(findings=findings, facts=facts, lines=sightings.lines)


def _literals(matrix: Matrix) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return what is looked for in a log, and how often what only draws facts has to be seen."""
    signs = dict.fromkeys(text for rule in matrix.rule for sign in rule.sign for text in sign.text)
    enough: dict[str, int] = {}
    for clue in matrix.clue:
        for text in clue.text:
            if text not in signs:
                enough[text] = max(enough.get(text, 0), sightings_needed(clue))
    return [*signs, *enough], enough


def _finding(found: Candidate, facts: Facts) -> Finding:
    own = found.facts
    told: dict[tuple[str, int], Evidence] = {}
    for shown in found.shown:
        told.setdefault((shown.sighting.file, shown.sighting.number), _evidence(shown.sighting, shown.text))
    merged = {
        name: tuple(dict.fromkeys((*own.get(name, ()), *facts.get(name, ())))) for name in {**facts, **own}
    }
    return Finding(
        rule=found.rule,
        confidence=found.confidence,
        evidence=tuple(told.values())[:_SHOWN],
        own=own,
        facts=merged,
    )


def _evidence(sighting: Sighting, text: str) -> Evidence:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return Evidence(
        line=sighting.number, text=plain[:_WIDTH].strip(), file=sighting.file, count=sighting.count
    )

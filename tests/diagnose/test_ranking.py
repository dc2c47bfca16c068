"""Ranking of findings: the best cause, and other, independent findings."""

from __future__ import annotations

from rocenv.data.rules import Pattern, Rule, Text, Why
from rocenv.diagnose.matching import Candidate, Match, ranked
from rocenv.diagnose.scanner import Sighting

TEXT = Text(en="x", zh="x")


def cause(code: str, weight: float, line: int, *explains: str) -> Candidate:
    pattern = Pattern(text=("some text",), weight=weight)
    rule = Rule(
        code=code, title=TEXT, pattern=(pattern,), why=(Why(text=TEXT),), remedy=(), explains=explains,
        status="tested", source="x", checked="2026-11-22",
    )  # fmt: skip
    text = f"some text of {line}"
    seen = Sighting(number=line, line=text.encode(), place=0, before=b"", after=b"")
    return Candidate(
        rule=rule, matches=(Match(pattern=pattern, sighting=seen, text=text, place=0, groups={}),)
    )


def codes(*candidates: Candidate) -> list[str]:
    return [each.rule.code for each in ranked(candidates)]


def test_the_finding_with_the_highest_confidence_comes_first() -> None:
    assert codes(cause("last", 0.7, 900), cause("first", 0.95, 10)) == ["first", "last"]


def test_a_consequence_of_another_cause_is_hidden_despite_its_higher_confidence() -> None:
    assert codes(cause("nfs", 0.7, 5, "fault"), cause("fault", 0.9, 9)) == ["nfs"]


def test_an_unlikely_cause_does_not_hide_its_consequence() -> None:
    assert codes(cause("nfs", 0.4, 5, "fault"), cause("fault", 0.9, 9)) == ["fault"]


def test_the_likelier_of_two_mutually_exclusive_causes_remains() -> None:
    assert codes(cause("a", 0.8, 1, "b"), cause("b", 0.9, 2, "a")) == ["b"]
    assert codes(cause("a", 0.9, 1, "b"), cause("b", 0.9, 2, "a")) == ["a"]


def test_a_second_finding_needs_evidence_of_its_own() -> None:
    assert codes(cause("a", 0.9, 4), cause("b", 0.8, 4), cause("c", 0.8, 7)) == ["a", "c"]


def test_findings_with_low_confidence_are_not_reported() -> None:
    assert codes(cause("a", 0.2, 4)) == []
    assert codes(cause("a", 0.35, 4)) == ["a"]

"""Logs with their correct results, and the accuracy of `diagnose`."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

NONE = "none"  # the label of a log for which any finding would be wrong
FIRST, AMONG, SILENT = 0.95, 0.98, 0.95
JUDGED = {"first, accepted": FIRST, "among, accepted": AMONG, "silent, accepted": SILENT}
GOALS = {"first": FIRST, "among": AMONG, "silent": SILENT, **JUDGED}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A log and its correct results."""

    name: str
    cause: str  # NONE if any finding would be wrong, or "" if only `wrong` is known
    also: frozenset[str] = frozenset()  # other correct codes
    wrong: str = ""  # a code that is wrong, although the log looks similar
    log: bytes

    @cached_property
    def text(self) -> str | None:
        """The log as text, or None if it is neither UTF-8 nor UTF-16, so its bytes must be preserved."""
        wide = self.log.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        try:
            return self.log.decode("utf-16" if wide else "utf-8-sig")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The findings for one log."""

    case: Case
    codes: tuple[str, ...]  # best first
    shown: tuple[str, ...] = ()  # for printing: the line that led to each finding

    @property
    def first(self) -> str:
        """The best finding, or NONE."""
        return self.codes[0] if self.codes else NONE

    @property
    def accepted(self) -> frozenset[str]:
        """All correct codes."""
        return self.case.also | {self.case.cause}

    @property
    def right(self) -> bool:
        """Whether the findings are accepted."""
        if self.case.wrong:
            return self.case.wrong not in self.codes
        if self.case.cause == NONE:
            return self.case.also.issuperset(self.codes)
        return self.first in self.accepted


@dataclass(frozen=True, kw_only=True)
class Share:
    """A number of cases out of a total."""

    part: int
    of: int
    goal: float = 0

    @property
    def met(self) -> bool:
        """Whether the goal is met, which is always true if there are no cases."""
        return not self.of or self.part >= self.goal * self.of

    def __str__(self) -> str:
        if not self.of:
            return "-"
        return f"{self.part}/{self.of} {100 * self.part / self.of:.1f} %{'' if self.met else ' !'}"


def shares(answers: Sequence[Answer]) -> dict[str, Share]:
    """Compute the figures in a table: name -> fraction."""
    with_cause = [each for each in answers if each.case.cause not in (NONE, "")]
    known = [each for each in answers if each.case.cause]
    still = [each for each in answers if each.case.cause == NONE or each.case.wrong]
    truths: dict[str, Iterable[bool]] = {
        "first": (each.first == each.case.cause for each in with_cause),
        "first, accepted": (each.right for each in with_cause),
        "among": (each.case.cause in each.codes for each in with_cause),
        "among, accepted": (bool(each.accepted & set(each.codes)) for each in with_cause),
        "precision": (code in each.accepted for each in known for code in each.codes),
        "silent": (not each.codes for each in still if each.case.cause == NONE),
        "silent, accepted": (each.right for each in still),
    }
    return {name: _share(list(rows), GOALS.get(name, 0)) for name, rows in truths.items()}


def _share(rows: list[bool], goal: float) -> Share:
    return Share(part=sum(rows), of=len(rows), goal=goal)


def confusion(answers: Sequence[Answer]) -> list[tuple[int, str, str, tuple[str, ...]]]:
    """List wrong first findings, most frequent first: (count, correct code, found first, names)."""
    off = [each for each in answers if each.case.cause and each.first != each.case.cause]
    counts = Counter((each.case.cause, each.first) for each in off)
    return [
        (count, right, found, tuple(each.case.name for each in off if (each.case.cause, each.first) == pair))
        for pair, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        for right, found in (pair,)
    ]


# ---------------------------------------------------------------- corpora


def read_reports(path: Path) -> list[Case]:
    """Read cases from a file with a JSON object on each line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_case(json.loads(line)) for line in lines if line.strip()]


def _case(row: dict[str, Any]) -> Case:
    return Case(
        name=row["id"],
        cause=row["cause"],
        also=frozenset(row.get("also") or ()) - {NONE},
        log=row["log"].encode("utf-8", "replace"),
    )


def read_cases(folder: Path) -> Iterator[Case]:
    """Yield the logs CODE/known-*.log (CODE is correct) and CODE/alike-*.log (CODE is wrong)."""
    for path in sorted(folder.glob("*/*.log")):
        code, kind = path.parent.name, path.name.partition("-")[0]
        name = f"{code}/{path.stem}"
        if kind == "known":
            yield Case(name=name, cause=code, log=path.read_bytes())
        elif kind == "alike":
            yield Case(name=name, cause="", wrong=code, log=path.read_bytes())

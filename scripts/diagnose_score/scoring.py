"""Corpora of logs with their right answers, and how often the engine gives these."""

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

NONE = "none"  # the label of a log that no rule may know
FIRST, AMONG, SILENT = 0.95, 0.98, 0.95
JUDGED = {"first, accepted": FIRST, "among, accepted": AMONG, "silent, accepted": SILENT}
GOALS = {"first": FIRST, "among": AMONG, "silent": SILENT, **JUDGED}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A log and its right answers."""

    name: str
    cause: str  # NONE = no finding is right; "" = only `wrong` is known
    also: frozenset[str] = frozenset()  # other right answers
    wrong: str = ""  # the cause that it only looks like
    log: bytes

    @cached_property
    def text(self) -> str | None:
        """The log as text; None where it is in a form of its own, which stays as it is."""
        wide = self.log.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        try:
            return self.log.decode("utf-16" if wide else "utf-8-sig")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the engine found in a log."""

    case: Case
    codes: tuple[str, ...]  # best first
    shown: tuple[str, ...] = ()  # the decisive line of each, for people

    @property
    def first(self) -> str:
        """The first cause that was found."""
        return self.codes[0] if self.codes else NONE

    @property
    def accepted(self) -> frozenset[str]:
        """All right answers."""
        return self.case.also | {self.case.cause}

    @property
    def right(self) -> bool:
        """Tell whether the answer is accepted."""
        if self.case.wrong:
            return self.case.wrong not in self.codes
        if self.case.cause == NONE:
            return self.case.also.issuperset(self.codes)
        return self.first in self.accepted


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many."""

    part: int
    of: int
    goal: float = 0

    @property
    def met(self) -> bool:
        """Tell whether the goal is reached; without cases there is nothing to reach."""
        return not self.of or self.part >= self.goal * self.of

    def __str__(self) -> str:
        if not self.of:
            return "-"
        return f"{self.part}/{self.of} {100 * self.part / self.of:.1f} %{'' if self.met else ' !'}"


def shares(answers: Sequence[Answer]) -> dict[str, Share]:
    """Return what a table shows of answers: figure -> its value."""
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
    """Return what was taken for what: (how often, right, found first, names), the most frequent first."""
    off = [each for each in answers if each.case.cause and each.first != each.case.cause]
    counts = Counter((each.case.cause, each.first) for each in off)
    return [
        (count, right, found, tuple(each.case.name for each in off if (each.case.cause, each.first) == pair))
        for pair, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        for right, found in (pair,)
    ]


# ---------------------------------------------------------------- corpora


def of_reports(path: Path) -> list[Case]:
    """Return the cases of a file with a JSON object a line; of each only `log` is for the engine."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_of_report(json.loads(line)) for line in lines if line.strip()]


def _of_report(row: dict[str, Any]) -> Case:
    return Case(
        name=row["id"],
        cause=row["cause"],
        also=frozenset(row.get("also") or ()) - {NONE},
        log=row["log"].encode("utf-8", "replace"),
    )


def of_folder(folder: Path) -> Iterator[Case]:
    """Yield the logs of CODE/known-*.log, and those of CODE/alike-*.log, which are not CODE's."""
    for path in sorted(folder.glob("*/*.log")):
        code, kind = path.parent.name, path.name.partition("-")[0]
        name = f"{code}/{path.stem}"
        if kind == "known":
            yield Case(name=name, cause=code, log=path.read_bytes())
        elif kind == "alike":
            yield Case(name=name, cause="", wrong=code, log=path.read_bytes())

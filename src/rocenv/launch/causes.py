"""Why an app ended badly, in the words of the rules, and what its profile says to try: each said once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rocenv.data.apps import Failure
    from rocenv.data.rows import Matrix
    from rocenv.launch.context import LaunchContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What an app's output is known to come from."""

    code: str
    title: str
    lines: tuple[str, ...] = ()  # that show it

    def shows(self, failure: Failure) -> bool:
        """Tell whether it is what a known failure comes from."""
        text = " ".join(failure.text.split())
        return self.code == failure.code or any(text in " ".join(line.split()) for line in self.lines)


def causes_of(view: LaunchContext, log: Path | None, tail: Sequence[str]) -> tuple[Cause, ...]:
    """Return what is found in an app's log, or in its last words where it has none."""
    from rocenv.diagnose import diagnose, diagnose_bytes
    from rocenv.diagnose.reading import read_path
    from rocenv.diagnose.report import facts_of, told

    try:
        if log is None:
            raise FileNotFoundError
        said = diagnose(read_path(log), view.matrix)
    except (RocenvError, FileNotFoundError):  # there is none, or it has been taken away
        said = diagnose_bytes("\n".join(tail).encode(), view.matrix)
    machine = facts_of(view.host, said.facts)
    return tuple(
        Cause(
            code=each.code,
            title=told(each, view.matrix, "en", machine).title,
            lines=tuple(evidence.text for evidence in each.evidence),
        )
        for each in said.findings
    )


def why(failures: Sequence[Failure], causes: Sequence[Cause], matrix: Matrix) -> tuple[list[str], list[str]]:
    """Return why it happened: what the failures that were printed come from, and what else is known.

    What is found in the whole output has the first word: it has seen what stands around a line.
    """
    printed: list[str] = []
    told: set[str] = set()
    for failure in failures:
        cause = next((each for each in causes if each.shows(failure)), None) or _of_rule(failure, matrix)
        named = f"{cause.title} [{cause.code}]" if cause and cause.code not in told else ""
        if words := ": ".join(filter(None, (named, failure.means))):
            printed.append(f"{words} (it printed `{failure.text}`)")
        if cause:
            told.add(cause.code)
    return printed, [f"{each.title} [{each.code}]" for each in causes if each.code not in told]


def codes_of(failures: Iterable[Failure], causes: Sequence[Cause]) -> set[str]:
    """Return the codes of everything that was found."""
    return {each.code for each in causes} | {each.code for each in failures if each.code}


def fallbacks(view: LaunchContext, codes: set[str]) -> Iterator[str]:
    """Yield what an app's profile says to try at some causes, in its order."""
    for row in view.start.launcher.fallbacks:
        if row.code in codes:
            words = f"{row.text.rstrip('.')}: {row.command}" if row.command else row.text
            yield view.filled(words)


def _of_rule(failure: Failure, matrix: Matrix) -> Cause | None:
    from rocenv.diagnose.telling import unfilled

    rule = next((row for row in matrix.rule if row.code == failure.code), None)
    return Cause(code=rule.code, title=unfilled(rule.title.en)) if rule else None

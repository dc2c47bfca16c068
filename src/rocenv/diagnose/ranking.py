"""Which of the causes that a log gives signs of are told, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.diagnose.signs import LEAST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.diagnose.signs import Candidate

_FAIR = 0.5  # confidence from which on a cause speaks for its consequences
_SECOND = 0.6  # confidence of a further finding
MOST = 3


def ranked(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that are findings: the best one, and others that are independent of it.

    A cause speaks for its consequences. What is left stands in the order of confidence; a further one must be
    sure, and must stand in lines of its own.
    """
    sure = [each for each in candidates if each.confidence >= LEAST]
    left = [each for each in sure if not any(_speaks_for(other, each) for other in sure)]
    left.sort(key=lambda each: (-each.confidence, each.first_line))
    told: list[Candidate] = []
    for each in left:
        if not told or (each.confidence >= _SECOND and not _shares(each, told)):
            told.append(each)
    return tuple(told[:MOST])


def _speaks_for(cause: Candidate, other: Candidate) -> bool:
    """Tell whether one is only a consequence of a cause; where both say so, of the surer one."""
    if cause.confidence < _FAIR or other.rule.code not in cause.rule.explains:
        return False
    mutual = cause.rule.code in other.rule.explains and other.confidence >= _FAIR
    return not mutual or (-cause.confidence, cause.rule.code) < (-other.confidence, other.rule.code)


def _shares(candidate: Candidate, others: Iterable[Candidate]) -> bool:
    return any(candidate.lines & other.lines for other in others)

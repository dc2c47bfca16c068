"""Where bytes come from: a module for each kind of source, all behind `Source`.

`apt` are package repositories, `wheels` are indices of Python wheels. A source says what a part of a set
consists of today, file by file; fetching is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.home import Home
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Component, Request
    from rocenv.net import Network
    from rocenv.resolve import Candidate

FRESH_S = 6 * 3600  # as long as this an index is used without asking for it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What planning works with."""

    matrix: Matrix
    home: Home
    network: Network
    tell: Callable[[str], None]  # takes a line for the user
    max_age_s: float = FRESH_S  # of package indices


class Source(Protocol):
    """A kind of source: a module with this function."""

    def component(
        self, candidate: Candidate, request: Request, work: Work
    ) -> tuple[Component, tuple[str, ...]]:
        """Return this source's part of a candidate as it is to be had now, and notes for the plan.

        Raises:
            FetchError: The source does not answer, or cannot be trusted.
            RocenvError: It has no such part.
        """
        ...

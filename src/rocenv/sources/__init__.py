"""Where bytes come from: a module for each kind of source, all behind `Source`.

`apt` are package repositories, `wheels` are indices of Python wheels. A source says what a part of a set
consists of today, file by file; fetching is the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Request
    from rocenv.resolve import Candidate


class Source(Protocol):
    """A kind of source: a module with this function."""

    def component(
        self, candidate: Candidate, request: Request, context: Context
    ) -> tuple[Component, tuple[str, ...]]:
        """Return this source's part of a candidate as it is to be had now, and notes for the plan.

        Raises:
            FetchError: The source does not answer, or cannot be trusted.
            RocenvError: It has no such part.
        """
        ...

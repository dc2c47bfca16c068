"""Where the files of a set come from: one module for each kind of source, all behind `Source`.

A row of the data names its source (`provided_by`). A source turns a chosen row into a component with every
file that it consists of; fetching those files is the same for all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Request
    from rocenv.resolve import Candidate, Choice

# Imported when they are needed: a set takes two or three of them.
SOURCES = {
    "apt": "rocenv.sources.apt",
    "rocm_wheels": "rocenv.sources.rocm_wheels",
    "wheels": "rocenv.sources.wheels",
    "windows": "rocenv.sources.windows",
}


class Source(Protocol):
    """A kind of source: a module with these functions."""

    def outline(self, choice: Choice, candidate: Candidate, request: Request, context: Context) -> Component:
        """Describe a part of a candidate as far as the data alone allows, without asking the network."""
        ...

    def component(
        self, choice: Choice, candidate: Candidate, request: Request, context: Context
    ) -> tuple[Component, tuple[str, ...]]:
        """List every file that a part of a candidate consists of now; add notes for the plan.

        Raises:
            FetchError: The source does not answer, or cannot be trusted.
            NotAvailable: The source does not have the part.
            RocenvError: It has no such part for this machine.
        """
        ...


def source_of(choice: Choice) -> Source:
    """Import the source that has the files of a chosen row."""
    source: Source = importlib.import_module(SOURCES[choice.row.provided_by])
    return source

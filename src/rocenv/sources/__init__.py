"""Sources of a set's files: one module per kind of source, each implementing `Source`.

A data row specifies its source (`provided_by`). A source turns a chosen row into a component with all its
files; downloading works the same for all sources.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Request
    from rocenv.resolve import Candidate, Choice

# Imported on demand, because each set uses only two or three.
SOURCES = {
    "apt": "rocenv.sources.apt",
    "rocm_wheels": "rocenv.sources.rocm_wheels",
    "wheels": "rocenv.sources.wheels",
    "windows": "rocenv.sources.windows",
}


class Source(Protocol):
    """The interface that every source module implements."""

    def outline(self, choice: Choice, candidate: Candidate, request: Request, context: Context) -> Component:
        """Describe a component from the data alone, without network access."""
        ...

    def component(
        self, choice: Choice, candidate: Candidate, request: Request, context: Context
    ) -> tuple[Component, tuple[str, ...]]:
        """List a component's current files, and add notes for the plan.

        Raises:
            FetchError: The source is unreachable or not trusted.
            NotAvailable: The source does not have the component.
            RocenvError: The component is not available for this machine.
        """
        ...


def source_of(choice: Choice) -> Source:
    """Import the source module of a chosen row."""
    source: Source = importlib.import_module(SOURCES[choice.row.provided_by])
    return source

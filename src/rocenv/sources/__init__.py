"""Where the files of a set come from: one module for each kind of source, all behind `Source`.

A row of the data names its source (`provided_by`). A source turns a chosen row into a component with every
file that it consists of; fetching those files is the same for all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Lock, Request
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
        """Return a part of a candidate as the data alone describes it, without asking the network."""
        ...

    def component(
        self, choice: Choice, candidate: Candidate, request: Request, context: Context
    ) -> tuple[Component, tuple[str, ...]]:
        """Return a part of a candidate with every file that it consists of now, and notes for the plan.

        Raises:
            FetchError: The source does not answer, or cannot be trusted.
            NotAvailable: The source does not have the part.
            RocenvError: It has no such part for this machine.
        """
        ...


def source_of(choice: Choice) -> Source:
    """Return the source that has the files of a chosen row."""
    source: Source = importlib.import_module(SOURCES[choice.row.provided_by])
    return source


def relocated(lock: Lock, context: Context) -> Lock:
    """Return a lock with the addresses that its packages have on this machine's mirrors.

    Only Debian's archives have mirrors that the machine itself names; `[mirrors]` applies to every download.
    """
    if not any(artifact.kind == "deb" for artifact in lock.artifacts):
        return lock
    from rocenv.sources import apt

    parts = []
    for part in lock.components:
        moved = (apt.relocated(each, context) if each.kind == "deb" else each for each in part.artifacts)
        parts.append(replace(part, artifacts=tuple(moved)))
    return replace(lock, components=tuple(parts))

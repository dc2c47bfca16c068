"""ROCm as Python wheels from AMD's index: planned from the data; rocenv cannot install them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Request
    from rocenv.resolve import Candidate, Choice


def outline(choice: Choice, _candidate: Candidate, _request: Request, _context: Context) -> Component:
    """See `Source`."""
    return choice.outline("ROCm wheels")


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """See `Source`."""
    return outline(choice, candidate, request, context), ()

"""ROCm as Python wheels from AMD's index: planned from the data; rocenv cannot install them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Component

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Request
    from rocenv.resolve import Candidate, Choice


def outline(choice: Choice, _candidate: Candidate, _request: Request, _context: Context) -> Component:
    """Return the release without its wheels; see `Source`."""
    return Component(
        kind=choice.kind,
        name="ROCm wheels",
        version=choice.version,
        channel=choice.channel,
        why=choice.why,
        python=choice.python,
    )


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """Return the same as `outline`."""
    return outline(choice, candidate, request, context), ()

"""What a check found, before it is put into words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Seen:
    """A trouble: the row of the table `advice` that tells it, and what that row cannot know."""

    tells: str  # name of the row
    values: Mapping[str, str] = field(default_factory=dict)  # fill the placeholders of its texts
    evidence: tuple[str, ...] = ()  # as the machine has it, a line each
    grave: bool = False  # an error, whatever the row calls it


Found: TypeAlias = "Seen | tuple[Seen, ...] | None"  # what a check may return


def all_of(found: Found) -> tuple[Seen, ...]:
    """Return what a check found, one by one."""
    if isinstance(found, Seen):
        return (found,)
    return found or ()

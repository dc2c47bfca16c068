"""What an answer consists of: statements with the rows of the matrix that they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.data.known import STATUS_RANK

if TYPE_CHECKING:
    from rocenv.data.known import Known, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Where a statement comes from, and how well it is known there."""

    source: str
    status: Status
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One statement."""

    text: str
    label: str = ""  # what it is about, where the lines of a section are about things of one kind
    rows: tuple[Known, ...] = ()  # what it rests on, the most telling first

    @property
    def basis(self) -> tuple[Basis, ...]:
        """Where it comes from, each source once."""
        found = [Basis(source=row.source, status=row.status, checked=row.checked) for row in self.rows]
        return tuple(dict.fromkeys(found))

    @property
    def status(self) -> Status | None:
        """How well it is known: as well as the least known row; None where it rests on none."""
        known = [row.status for row in self.rows]
        return max(known, key=lambda status: STATUS_RANK[status], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Statements about one side of a thing."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command to paste, and what it gives."""

    command: str
    gives: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known about a thing, the most useful first."""

    thing: str  # as it can be asked for
    kind: str  # a key of `KINDS`, or "choice" where several things are meant
    title: str
    answer: tuple[Line, ...] = ()
    sections: tuple[Section, ...] = ()
    steps: tuple[Step, ...] = ()
    steps_title: str = "To see more"

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every statement, in the order of reading."""
        return (*self.answer, *(line for section in self.sections for line in section.lines))


def sections(*pairs: tuple[str, list[Line]]) -> tuple[Section, ...]:
    """Return the sections that have something to say."""
    return tuple(Section(title=title, lines=tuple(lines)) for title, lines in pairs if lines)

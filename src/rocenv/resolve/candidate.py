"""A set that fits a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rocenv.core.model import Component

if TYPE_CHECKING:
    from rocenv.core.model import ComponentKind
    from rocenv.data.knowledge import Override
    from rocenv.data.known import Known
    from rocenv.data.releases import Asset

R = TypeVar("R", bound="Known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One part of a set: the row that was chosen, and why. The row names the source that has its files."""

    kind: ComponentKind
    row: Known
    version: str
    channel: str  # the channel, index, project or provider that it comes from
    why: str
    asset: Asset | None = None  # of a ZLUDA build
    python: str = ""  # version for the wheels, "3.11"; "" = the source chooses

    def outline(self, name: str) -> Component:
        """Describe the part without its files."""
        return Component(
            kind=self.kind,
            name=name,
            version=self.version,
            channel=self.channel,
            why=self.why,
            python=self.python,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A set that fits, with its parts in the order in which they are installed."""

    parts: tuple[Choice, ...]
    runs_as: str  # the target that its code is made for
    override: Override | None = None  # what makes the GPU pass for that target
    notes: tuple[str, ...] = ()

    @property
    def rocm(self) -> Choice:
        """The ROCm release, which every set has."""
        return next(each for each in self.parts if each.kind == "rocm")

    def part(self, kind: ComponentKind) -> Choice | None:
        """The part of a kind; None where the set has none."""
        return next((each for each in self.parts if each.kind == kind), None)

    def row(self, table: type[R]) -> R | None:
        """The chosen row of a table; None where no part is one."""
        return next((each.row for each in self.parts if isinstance(each.row, table)), None)

    @property
    def versions(self) -> tuple[tuple[ComponentKind, str], ...]:
        """Kind and version of each part."""
        return tuple((each.kind, each.version) for each in self.parts)

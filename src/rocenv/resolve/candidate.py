"""A set that satisfies a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rocenv.core.model import Component

if TYPE_CHECKING:
    from rocenv.core.model import ComponentKind
    from rocenv.data.knowledge import Override
    from rocenv.data.known import Known
    from rocenv.data.windows import Asset

R = TypeVar("R", bound="Known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The row chosen for one component, and the reason. The row determines where the files come from."""

    kind: ComponentKind
    row: Known
    version: str
    channel: str  # its channel, index, project or provider
    why: str
    asset: Asset | None = None  # a ZLUDA build's archive
    python: str = ""  # Python version of the wheels, "3.11"; "" if the source decides

    def outline(self, name: str) -> Component:
        """Describe the component without its files."""
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
    """A set that satisfies a request, with its components in installation order."""

    parts: tuple[Choice, ...]
    runs_as: str  # target that the set's code is built for
    override: Override | None = None  # makes the GPU report that target
    warnings: tuple[str, ...] = ()  # what the GPU cannot do with this set
    notes: tuple[str, ...] = ()
    local_notes: tuple[str, ...] = ()  # notes for this machine only

    @property
    def rocm(self) -> Choice:
        """The ROCm release; every set has one."""
        return next(each for each in self.parts if each.kind == "rocm")

    def part(self, kind: ComponentKind) -> Choice | None:
        """Return the choice for this kind, or None if there is none."""
        return next((each for each in self.parts if each.kind == kind), None)

    def row(self, table: type[R]) -> R | None:
        """Return the chosen row from a table, or None if no component uses one."""
        return next((each.row for each in self.parts if isinstance(each.row, table)), None)

    @property
    def versions(self) -> tuple[tuple[ComponentKind, str], ...]:
        """Each component's kind and version."""
        return tuple((each.kind, each.version) for each in self.parts)

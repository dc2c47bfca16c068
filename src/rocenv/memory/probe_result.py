"""What a probe of a GPU's memory found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocenv.memory.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.limits import Bound
    from rocenv.probe.wire import Opened

Became = Literal["had", "refused", "wrong", "failed", "crashed", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One amount that was asked for in one piece."""

    asked_bytes: int
    became: Became
    answer: str = ""  # the runtime's name for an error
    detail: str = ""
    elapsed_s: float = 0.0

    @property
    def is_trouble(self) -> bool:
        """Whether it is bad news about the runtime or the card, and not only want of memory."""
        return self.became not in ("had", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """How much was had at once in pieces, and what went wrong, if anything did."""

    total_bytes: int = 0
    count: int = 0
    smallest_bytes: int = 0
    refused_bytes: int = 0  # the smallest piece that was refused, 0 = none was
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What came of a request that nobody could grant."""

    asked_bytes: int
    became: Literal["refused", "granted", "failed", "crashed", "timeout"]
    answer: str = ""
    info: str = ""  # what is wrong with hipMemGetInfo afterwards, "" = nothing
    trouble: str = ""  # what is broken afterwards, or came of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What was found out."""

    env: str
    opened: Opened
    memory: GpuMemory  # as it is told
    display: bool | None  # whether the GPU drives one; None = not known
    bound: Bound
    resolution_bytes: int
    steps: tuple[Step, ...]
    largest_bytes: int
    pieces: Pieces | None  # None = it did not come to that
    refusal: Refusal | None
    elapsed_s: float

    @property
    def reached_bound(self) -> bool:
        """More could perhaps be had in one piece, but was not asked for."""
        return self.largest_bytes == self.bound.size_bytes

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is broken, in words."""
        found = [*_of_steps([step for step in self.steps if step.is_trouble], self.largest_bytes)]
        if self.pieces is not None and self.pieces.trouble:
            found.append(f"in pieces: {self.pieces.trouble}")
        if self.refusal is not None and self.refusal.trouble:
            found.append(f"more than there is, {amount(self.refusal.asked_bytes)}: {self.refusal.trouble}")
        return tuple(found)


def more_than(size_bytes: int, worked_bytes: int) -> str:
    """Return an amount beside a smaller one that worked, of which people must be able to tell it."""
    same = worked_bytes and amount(size_bytes) == amount(worked_bytes)
    return f"a little more than {amount(worked_bytes)}" if same else amount(size_bytes)


def _of_steps(bad: Sequence[Step], worked_bytes: int) -> Iterator[str]:
    """Yield what is broken, once for each way in which it is."""
    for became in dict.fromkeys(step.became for step in bad):
        alike = sorted((step for step in bad if step.became == became), key=lambda step: step.asked_bytes)
        more = f", and {len(alike) - 1} times with more" if len(alike) > 1 else ""
        yield f"{more_than(alike[0].asked_bytes, worked_bytes)} in one piece: {alike[0].detail}{more}"

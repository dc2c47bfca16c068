"""What `mem --probe` and its child say to each other: one JSON object a line, asked and answered.

Nothing but the standard library, since the child imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What became of memory that was asked for. `refused`: the runtime said that there is none. `wrong`: it did
# not hold what was written. `failed`: another call answered with an error, or this one with another error.
Outcome = Literal["had", "refused", "wrong", "failed"]
# `told` comes any number of times before the others, as long as something moves.
Kind = Literal["told", "done", "failed", "no-device"]
KINDS = ("told", "done", "failed", "no-device")
SMALLEST_BYTES = 1 << 20  # of what is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A GPU as HIP sees it."""

    ordinal: int
    name: str
    target: str
    address: str  # "0000:03:00.0", "" = not known
    free_bytes: int  # as hipMemGetInfo has it, sense or nonsense
    total_bytes: int
    alike: int = 1  # of HIP's GPUs, how many are at that address …
    before: int = 0  # … and how many of those come before this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The GPU that memory is asked of, after a first small block of it worked."""

    gpu: Seen
    runtime_path: str
    standin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one block."""

    outcome: Outcome
    answer: str = ""  # the runtime's name for the error
    detail: str = ""  # in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How much was had at once in pieces."""

    outcome: Outcome
    total_bytes: int
    pieces: int
    smallest_bytes: int  # of the pieces, 0 = there are none
    refused_bytes: int = 0  # the smallest piece that was refused, 0 = none was
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What the runtime answered to a request for more than there is, and what it was good for afterwards."""

    granted: bool
    answer: str = ""  # the runtime's name for the error
    info_answer: str = ""  # "" = hipMemGetInfo answered afterwards …
    free_bytes: int = 0  # … with these
    total_bytes: int = 0
    small: Tried | None = None  # what became of a small block afterwards

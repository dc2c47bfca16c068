"""Messages between a parent and its child: the child of a rung (`Task`, `Answer`), or that of `mem probe`.

Each is a JSON object. Uses only the standard library, because the child imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Runtime = Literal["hip", "cuda"]
AnswerStatus = Literal["passed", "failed", "skipped"]
NO_GPU = "no GPU here"
STANDIN = "STAND-IN, not a GPU runtime"
# A child writes this before each call into a vendor library, so the last one names a call that never
# returned.
CALLING = "rocenv: calling "
# On Windows, a child writes this when a fault happens: the code, and the library that contains it.
FAULT = "rocenv: fault "


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The input for the child of a rung."""

    target: str  # target that the set was resolved for: "gfx1100"
    prefix: str  # absolute; every library must be below it
    # role -> absolute path. hip: `hip`, `hiprtc`, `rocblas`; hiprtc may be hip's file. cuda: `nvcuda`,
    # `cublas`, and the `hip` that they use; without it they are NVIDIA's, and no target is compared
    libraries: dict[str, str]
    work_dir: str  # existing folder for the GEMM source, the code objects and the logs
    expected: dict[str, str]  # role -> version prefix that the library must report: "5.7"
    runtime: Runtime = "hip"  # the API that programs use
    preload: tuple[str, ...] = ()  # absolute paths of libraries to load before all others, in order
    search: tuple[str, ...] = ()  # absolute folders that Windows searches for libraries
    known: tuple[str, ...] = ()  # names of the prefix's libraries, which must not be mapped from elsewhere
    allowed_outside: tuple[str, ...] = ()  # patterns of libraries that come from the system: "libc.so.6"
    system_dirs: tuple[str, ...] = ()  # absolute folders with system libraries: r"C:\Windows"
    seed: int = 1  # of the random input
    # If ROCm is wheels: the command line that queries the env's `rocm_sdk`, its required version ("" = any),
    # and the command that restores the locked packages.
    lookup: tuple[str, ...] = ()
    release: str = ""
    repair: str = ""

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> Task:
        """Decode the task that the parent sent as JSON; it is trusted."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        return cls(**values)


def valid_text(text: str) -> str:
    """Escape invalid UTF-8, such as bytes of a path."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a rung, as its child saw it."""

    status: AnswerStatus
    detail: str
    no_device: bool = False


# What became of a block. `refused`: the runtime said that there is no memory. `wrong`: the block did not hold
# what was written. `failed`: another call failed, or this one for another reason.
Outcome = Literal["had", "refused", "wrong", "failed"]
Kind = Literal["progress", "done", "failed", "no-device"]
SMALLEST_BYTES = 1 << 20  # block that is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One line of the child of `mem probe`; any number of `progress` come before one of the others."""

    kind: Kind
    what: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HipGpu:
    """A GPU as HIP lists it."""

    ordinal: int
    name: str
    target: str
    address: str  # "0000:03:00.0", "" = unknown
    free_bytes: int  # as hipMemGetInfo says, plausible or not
    total_bytes: int
    alike: int = 1  # how many GPUs HIP lists at that address …
    before: int = 0  # … and how many of them come before this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The GPU that the test allocates on; a first small block of its memory worked."""

    gpu: HipGpu
    runtime_path: str
    standin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockResult:
    """What became of one block."""

    outcome: Outcome
    answer: str = ""  # the runtime's name of the error
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillResult:
    """How much memory the test had at once in pieces."""

    outcome: Outcome
    total_bytes: int
    pieces: int
    smallest_bytes: int  # of the pieces, 0 = there are none
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessResult:
    """What the runtime answered to a request for more than there is, and whether it works afterwards."""

    granted: bool
    answer: str = ""  # the runtime's name of the error
    info_answer: str = ""  # hipMemGetInfo's error afterwards; "" = it answered with …
    free_bytes: int = 0
    total_bytes: int = 0
    small: BlockResult | None = None  # what became of a small block afterwards

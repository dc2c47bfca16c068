"""Messages between a parent and its child: the child of a rung (`Task`, `Answer`), or that of `mem probe`.

One JSON object each. Imports only the standard library, since the child imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Runtime = Literal["hip", "cuda"]
AnswerStatus = Literal["passed", "failed", "skipped"]
NO_GPU = "no GPU here"
STANDIN = "STAND-IN, not a GPU runtime"
# A child writes this before each call into a vendor library: the last one names the call that never returned.
CALLING = "rocenv: calling "
# And this, on Windows, where a fault happened: the code, and the library whose code it was.
FAULT = "rocenv: fault "


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that the child of a rung gets to know."""

    target: str  # what the set was resolved for, "gfx1100"
    prefix: str  # absolute; every library has to come from below it
    # role -> absolute path. hip: `hip`, `hiprtc`, `rocblas`; hiprtc may be hip's file. cuda: `nvcuda`,
    # `cublas`, and `hip`, which is behind them: without it they are NVIDIA's, and no target is compared
    libraries: dict[str, str]
    work_dir: str  # existing folder for the GEMM source, the code objects and the logs
    expected: dict[str, str]  # role -> version prefix that the library must report, "5.7"
    runtime: Runtime = "hip"  # the API that programs use
    preload: tuple[str, ...] = ()  # absolute paths of what is loaded before any other library, in this order
    search: tuple[str, ...] = ()  # absolute folders in which Windows is to look for libraries
    known: tuple[str, ...] = ()  # names of the prefix's libraries: mapped from anywhere else is a leak
    allowed_outside: tuple[str, ...] = ()  # name patterns of libraries that are the machine's, "libc.so.6"
    system_dirs: tuple[str, ...] = ()  # absolute folders whose libraries are the machine's, r"C:\Windows"
    seed: int = 1  # of the random input
    # Where ROCm is wheels: the command line that asks the env's `rocm_sdk`, the version that it has to have
    # ("" = any), and the command that puts the locked packages back.
    lookup: tuple[str, ...] = ()
    release: str = ""
    repair: str = ""

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> Task:
        """The task that the parent sent as JSON; it is trusted."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        return cls(**values)


def valid_text(text: str) -> str:
    """Escape what is not valid UTF-8, such as the bytes of a path."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a rung found, as its child saw it."""

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

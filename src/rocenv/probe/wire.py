"""Messages between a parent and its child, for a rung (`Task`, `Answer`) and for `mem probe`.

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


# The fate of an allocation. `refused`: the runtime is out of memory. `wrong`: the memory did not keep its
# content. `failed`: another error occurred.
Outcome = Literal["had", "refused", "wrong", "failed"]
Kind = Literal["progress", "done", "failed", "no-device"]
SMALLEST_BYTES = 1 << 20  # of an allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One line of a child that answers several requests.

    Any number of `progress` messages may come first, as long as there is progress.
    """

    kind: Kind
    what: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A GPU as HIP sees it."""

    ordinal: int
    name: str
    target: str
    address: str  # "0000:03:00.0", "" = unknown
    free_bytes: int  # reported by hipMemGetInfo, possibly wrong
    total_bytes: int
    alike: int = 1  # how many of HIP's GPUs are at that address …
    before: int = 0  # … and how many of them come before this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The GPU whose memory is tested, after a first small block worked."""

    gpu: Seen
    runtime_path: str
    standin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result for one block."""

    outcome: Outcome
    answer: str = ""  # the runtime's name for the error
    detail: str = ""  # as a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How much was allocated at once in pieces."""

    outcome: Outcome
    total_bytes: int
    pieces: int
    smallest_bytes: int  # of the pieces, 0 = there are none
    refused_bytes: int = 0  # the smallest piece that was refused, 0 = none
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The runtime's answer to an excessive request, and its state afterwards."""

    granted: bool
    answer: str = ""  # the runtime's name for the error
    info_answer: str = ""  # "" = hipMemGetInfo worked afterwards …
    free_bytes: int = 0  # … with these
    total_bytes: int = 0
    small: Tried | None = None  # the result of a small block afterwards

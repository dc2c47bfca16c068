"""Messages between a parent and its child, which runs a rung (`Task`, `Answer`) or serves `mem probe`.

Each is a JSON object. Uses only the standard library, because the child imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Runtime = Literal["hip", "cuda"]
AnswerStatus = Literal["passed", "failed", "skipped"]
NO_GPU = "no GPU here"
STANDIN = "STAND-IN, not a GPU runtime"
# A child writes this before each call into a vendor library, so if a call never returns, the last line
# names it.
CALLING = "rocenv: calling "
# On Windows, a crashing child writes this with the exception code and the library in which it faulted.
FAULT = "rocenv: fault "


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The input for a rung's child."""

    target: str  # target that the set was resolved for: "gfx1100"
    prefix: str  # absolute; every library must be below it
    # Role -> absolute path. For HIP: `hip`, `hiprtc`, `rocblas`; hiprtc may be the same file as hip. For
    # CUDA: `nvcuda`, `cublas`, and the `hip` that they use; without `hip`, they are NVIDIA's, and the target
    # is not compared.
    libraries: dict[str, str]
    work_dir: str  # existing folder for the GEMM source, the code objects and the logs
    expected: dict[str, str]  # role -> expected version prefix: "5.7"
    runtime: Runtime = "hip"  # the API that programs use
    preload: tuple[str, ...] = ()  # absolute paths of libraries to load first, in order
    search: tuple[str, ...] = ()  # absolute folders that Windows searches for libraries
    known: tuple[str, ...] = ()  # names of the prefix's libraries, which must not be mapped from elsewhere
    allowed_outside: tuple[str, ...] = ()  # patterns of libraries that come from the system: "libc.so.6"
    system_dirs: tuple[str, ...] = ()  # absolute folders with system libraries: r"C:\Windows"
    seed: int = 1  # seed of the random input
    # If ROCm comes as wheels: the command line that queries the env's `rocm_sdk`, its required version (""
    # for any), and the command that restores the locked packages.
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
    """Escape lone surrogates, which stand for undecodable bytes in a path."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a rung, as reported by its child."""

    status: AnswerStatus
    detail: str
    no_device: bool = False


# Result of testing a block. `had`: it works. `refused`: the runtime was out of memory. `wrong`: the
# data read back differs from what was written. `failed`: any other error.
Outcome = Literal["had", "refused", "wrong", "failed"]
Kind = Literal["progress", "done", "failed", "no-device"]
SMALLEST_BYTES = 1 << 20  # size of the smallest test block


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A line from `mem probe`'s child; a request gets `progress` lines, if any, then a result."""

    kind: Kind
    what: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HipGpu:
    """A GPU as HIP lists it."""

    ordinal: int
    name: str
    target: str
    address: str  # "0000:03:00.0", "" if unknown
    free_bytes: int  # as hipMemGetInfo reports it, not checked
    total_bytes: int
    alike: int = 1  # number of GPUs that HIP lists at this address
    before: int = 0  # number of GPUs listed before this one at the same address


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The GPU to test; a test of a small block on it has already passed."""

    gpu: HipGpu
    runtime_path: str
    standin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockResult:
    """The result of testing one block."""

    outcome: Outcome
    answer: str = ""  # the runtime's name for the error
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillResult:
    """The total amount of memory that could be allocated at once, in pieces."""

    outcome: Outcome
    total_bytes: int
    pieces: int
    smallest_bytes: int  # size of the smallest piece; 0 if there are no pieces
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessResult:
    """The result of requesting more memory than exists, and the state of the runtime afterward."""

    granted: bool
    answer: str = ""  # the runtime's name for the error
    info_answer: str = ""  # hipMemGetInfo's error afterward; "" if it works
    free_bytes: int = 0
    total_bytes: int = 0
    small: BlockResult | None = None  # result of testing a small block afterward

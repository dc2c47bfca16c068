"""Running a program for what it says: bounded in time, and in how much it may print."""

from __future__ import annotations

import contextlib
import errno
import re
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS
from rocenv.system.exit_codes import describe_exit
from rocenv.system.processes import group_options, kill_group, start_child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

_LIMIT_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_AFTERWARDS_S = 5.0  # for what is still in the pipe
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERSTRUCK = re.compile(r"[^\n]\x08")  # bold and underlined, as manual pages have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program printed, and how it ended."""

    text: str = ""
    code: int | None = None  # None = it was ended, or not started
    problem: str = ""  # why there is no answer; "" = there is one
    is_late: bool = False  # it was ended since its time was over

    @property
    def lines(self) -> list[str]:
        """The lines, without those that are empty."""
        return [line for line in self.text.splitlines() if line.strip()]


def run_bounded(argv: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> Answer:
    """Run a program without input and return what it prints, up to a limit."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        child = _started(argv, environ, {**options, **group_options()})
    except OSError as error:
        return Answer(problem=f"it cannot be started: {error.strerror or error}")
    kept = bytearray()
    reader = threading.Thread(target=_read, args=(child.stdout, kept, child), daemon=True)
    reader.start()
    problem, is_late = "", False
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        problem, is_late = f"it did not end within {timeout_s:.0f} s", True
    finally:
        if not WINDOWS or child.poll() is None:
            kill_group(child)  # what it left behind too, which would keep the pipe open
    reader.join(_AFTERWARDS_S)
    if len(kept) > _LIMIT_BYTES:
        problem, is_late = "it prints without end", False
    return Answer(
        text=_plain(bytes(kept[:_LIMIT_BYTES])),
        code=None if problem else child.returncode,
        problem=problem,
        is_late=is_late,
    )


def ended(answer: Answer) -> str:
    """Return in words how a program that gave no good answer ended."""
    if answer.problem:
        return answer.problem
    return f"it ended with {describe_exit(answer.code or 0)}"


def _started(
    argv: Sequence[str], environ: Mapping[str, str], options: Mapping[str, object]
) -> subprocess.Popen[bytes]:
    try:
        return start_child(argv, environ, **options)
    except OSError as error:
        if WINDOWS or error.errno != errno.ENOEXEC:
            raise
        # A script without `#!` is run by sh, as every shell does. Source: execvp(3)
        return start_child(["/bin/sh", *argv], environ, **options)


def _read(stream: IO[bytes], kept: bytearray, child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
            kept += data
            if len(kept) > _LIMIT_BYTES:
                child.kill()
                return


def _plain(data: bytes) -> str:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return _CONTROL.sub("", _OVERSTRUCK.sub("", text))

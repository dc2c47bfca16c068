"""A simulated user, who types lines into a pseudo-terminal and reads its output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROMPT = "#> "  # the end of every prompt
# How long a waiting shell must stay silent after its prompt.
_QUIET_S = 0.05
_LIMIT_S = 20.0
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)
# Queries from line editors and a terminal's replies: the cursor position and the terminal type.
_QUESTIONS = ((b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[0c", b"\x1b[?62;c"))


class Terminal:
    """A shell in a 2000-column terminal, so that no line wraps; it ends with the `with` block."""

    def __init__(self, argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            try:
                os.chdir(folder)
                os.execve(argv[0], list(argv), dict(environ))
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 2000, 0, 0))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        until = time.monotonic() + 0.5
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                # A traced process outlives strace, so kill both.
                for pid in (*_children(self._pid), self._pid):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                return
            time.sleep(0.01)

    def type(self, line: str) -> str:
        """Type a line; return the output up to the next prompt, without escape sequences."""
        os.write(self._fd, os.fsencode(line) + b"\r")
        return self.settle(marker=PROMPT, after=line.partition("\t")[0][-6:])

    def settle(self, marker: str = "", after: str = "") -> str:
        """Read output until it ends in `marker` (if any) and the shell waits for input; return it.

        The prompt must follow `after`, the end of the echoed line, so that a late redraw of the previous
        prompt is ignored.
        """
        shown, until = b"", time.monotonic() + _LIMIT_S
        while time.monotonic() < until:
            if not select.select([self._fd], [], [], _QUIET_S)[0]:
                text = plain(shown)
                done = text and after in text and text.rstrip(" ").endswith(marker.rstrip(" "))
                if done and not self._is_busy():
                    return text
                continue
            try:
                piece = os.read(self._fd, 65536)
            except OSError:  # the shell closed its end
                piece = b""
            if not piece:
                return plain(shown)
            for question, answer in _QUESTIONS:
                for _ in range(piece.count(question)):
                    os.write(self._fd, answer)
            shown += piece
        raise AssertionError(f"the shell went quiet after {plain(shown)!r}")

    def _is_busy(self) -> bool:
        """Whether any thread of the shell or its children is runnable.

        On a busy machine, a silent shell may just be waiting for a CPU.
        """
        processes = [self._pid]
        for pid in processes:
            processes += _children(pid)
        return any(state not in "SZ" for pid in processes for state in _states(pid))


def plain(shown: bytes) -> str:
    """Remove escape sequences from output."""
    return _ESCAPES.sub("", os.fsdecode(shown))


def _children(pid: int) -> list[int]:
    return [int(each) for text in _read_threads(pid, "children") for each in text.split()]


def _states(pid: int) -> list[str]:
    return [text.rpartition(")")[2].split()[0] for text in _read_threads(pid, "stat")]


def _read_threads(pid: int, name: str) -> list[str]:
    """Return the contents of the /proc file `name` for each thread that still exists."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found.append((thread / name).read_text())
    return found

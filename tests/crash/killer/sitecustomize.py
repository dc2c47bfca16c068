"""Kill a real `rocenv` at one of its changes to the disk. PYTHONPATH makes Python load this file.

KILL_AT=N kills the process, as `kill -9` does, just before its N-th change below KILL_BELOW, or halfway
through that change if it writes a chunk of an unpacked file. KILL_LOG=FILE logs one change per line. Child
processes do not inherit these variables.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import Any

below = os.environ.pop("KILL_BELOW", "")
at = int(os.environ.pop("KILL_AT", "0"))
log = os.environ.pop("KILL_LOG", "")
del os.environ["PYTHONPATH"]

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = (
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.chmod",
)
numbers = itertools.count(1)
log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else -1


def changes(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "subprocess.Popen":
        return True
    if event == "open":
        path, _mode, flags = arguments
        return isinstance(flags, int) and bool(flags & WRITING) and str(path).startswith(below)
    # `shutil.rmtree` passes names relative to folder descriptors.
    return event in CHANGES and (str(arguments[0]).startswith(below) or not str(arguments[0]).startswith("/"))


def reached(what: str) -> bool:
    number = next(numbers)
    if log_file >= 0:
        os.write(log_file, f"{number} {what}\n".encode())
    return number == at


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    if changes(event, arguments) and reached(f"{event} {arguments}"):
        os.kill(os.getpid(), signal.SIGKILL)


if below:
    write = os.pwritev

    def half_written(descriptor: int, buffers: Any, *more: int) -> int:
        if reached(f"write {len(buffers[0])}"):
            write(descriptor, [buffers[0][: len(buffers[0]) // 2]], *more)
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, buffers, *more)

    os.pwritev = half_written
    sys.addaudithook(hook)

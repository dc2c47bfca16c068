"""What the kernel has written since it started, as far as this user may read it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.core.foreign import open_regular
from rocenv.system.machine import examined_elsewhere, machine_path, program_output, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Pattern

    from rocenv.doctor.scene import Scene

_TIMEOUT_S = 5
_MOST_BYTES = 8 << 20
_LONGEST = 1000  # characters of a line; the kernel's own are shorter
_COPY = "/var/log/dmesg"
_FILE = "/var/log/kern.log"
_DEVICE = "/dev/kmsg"  # in a copy of a machine a plain file; the device itself never ends
# The journal is for those whom `kernel.dmesg_restrict` keeps from the first.
_PROGRAMS = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "--lines=50000"))
# As syslog, `dmesg` and the kernel's own device write it.
_BEFORE = re.compile(r"^(?:\S.*? kernel: )?(?:<\d+>)?(?:\[ *[0-9.]+\] ?|\d+,\d+,\d+,[^;]*;)?")
_START = re.compile(r"\bLinux version \d")

# Of the scene that was looked at last: programs are asked once for all checks of a run.
_read: tuple[Scene, tuple[str, ...] | None] | None = None


def kernel_log(scene: Scene) -> tuple[str, ...] | None:
    """Return the lines since the last start, oldest first; None where none can be read."""
    global _read
    if _read is None or _read[0] is not scene:
        _read = scene, _log()
    return _read[1]


def matching(log: Iterable[str], pattern: Pattern[str], *words_: str, most: int = 4) -> tuple[str, ...]:
    """Return the last lines of a log in which a pattern is found, each text once; the times are left out.

    Args:
        log: Its lines.
        pattern: What is looked for.
        words_: One of them stands in the line; () = any line is looked at.
        most: How many lines at most.
    """
    able = (line for line in log if not words_ or any(word in line for word in words_))
    found = dict.fromkeys(_untimed(line) for line in able if pattern.search(line))
    return tuple(found)[-most:]


def _log() -> tuple[str, ...] | None:
    text = program_output(_COPY, _asked, _MOST_BYTES) or _of_file()
    if not text and examined_elsewhere():
        text = read_attribute(_DEVICE, _MOST_BYTES)[0]
    if not text:
        return None
    lines = tuple(line[:_LONGEST] for line in text.splitlines())
    starts = [number for number, line in enumerate(lines) if "Linux version" in line and _START.search(line)]
    return lines[starts[-1] :] if starts else lines


def _of_file() -> str:
    """Return the file in which syslog keeps what the kernel said, the end of it if it is long."""
    kept = program_output(_FILE, _end_of_file, _MOST_BYTES) or ""
    # The head of a long file is of an earlier start.
    return kept if len(kept.encode()) < _MOST_BYTES else _end_of_file() or kept


def _end_of_file() -> str | None:
    try:
        with open_regular(machine_path(_FILE)) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _untimed(line: str) -> str:
    """Return a line without its time and the machine's name, which nobody needs to see."""
    return _BEFORE.sub("", line).strip()


def _asked() -> str | None:
    said = (_said(command) for command in _PROGRAMS)
    return next(filter(None, said), None)


def _said(command: tuple[str, ...]) -> str | None:
    from rocenv.system.process import run

    done = run(command, timeout_s=_TIMEOUT_S, limit_bytes=8 * _MOST_BYTES)
    return done.stdout.decode("utf-8", "replace") if done.ok else None

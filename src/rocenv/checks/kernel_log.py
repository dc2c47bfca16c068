"""The kernel's log since the last start, as far as this user is allowed to read it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.core.foreign import open_regular
from rocenv.system.machine import examined_elsewhere, machine_path, program_output, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Pattern

    from rocenv.checks.context import CheckContext

_TIMEOUT_S = 5
_MOST_BYTES = 8 << 20
_LONGEST_LINE = 1000  # characters; the kernel's own lines are shorter
_COPY = "/var/log/dmesg"
_FILE = "/var/log/kern.log"
_DEVICE = "/dev/kmsg"  # read only in a snapshot of a machine, because the device itself never ends
# journalctl works for users whom `kernel.dmesg_restrict` locks out of dmesg.
_PROGRAMS = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "--lines=50000"))
# Line prefixes of syslog, dmesg and /dev/kmsg.
_PREFIX = re.compile(r"^(?:\S.*? kernel: )?(?:<\d+>)?(?:\[ *[0-9.]+\] ?|\d+,\d+,\d+,[^;]*;)?")
_START = re.compile(r"\bLinux version \d")

# The log for the last context, cached so that a run starts the programs only once.
_read: tuple[CheckContext, tuple[str, ...] | None] | None = None


def kernel_log(context: CheckContext) -> tuple[str, ...] | None:
    """The lines since the last start, oldest first; None if no log is readable."""
    global _read
    if _read is None or _read[0] is not context:
        _read = context, _log()
    return _read[1]


def matching(log: Iterable[str], pattern: Pattern[str], *words: str, most: int = 4) -> tuple[str, ...]:
    """The last `most` lines that match a pattern and contain one of `words`, without times and duplicates."""
    candidates = (line for line in log if not words or any(word in line for word in words))
    found = dict.fromkeys(without_prefix(line) for line in candidates if pattern.search(line))
    return tuple(found)[-most:]


def _log() -> tuple[str, ...] | None:
    text = program_output(_COPY, _ask_programs, _MOST_BYTES) or _of_file()
    if not text and examined_elsewhere():
        text = read_attribute(_DEVICE, _MOST_BYTES)[0]
    if not text:
        return None
    lines = tuple(line[:_LONGEST_LINE] for line in text.splitlines())
    starts = [number for number, line in enumerate(lines) if "Linux version" in line and _START.search(line)]
    return lines[starts[-1] :] if starts else lines


def _of_file() -> str:
    """The end of syslog's file of kernel messages."""
    kept = program_output(_FILE, _end_of_file, _MOST_BYTES) or ""
    # If the file is long, its beginning is from an earlier start.
    return kept if len(kept.encode()) < _MOST_BYTES else _end_of_file() or kept


def _end_of_file() -> str | None:
    try:
        with open_regular(machine_path(_FILE)) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def without_prefix(line: str) -> str:
    """Remove the time and the host name from a line."""
    return _PREFIX.sub("", line).strip()


def _ask_programs() -> str | None:
    outputs = (_output(command) for command in _PROGRAMS)
    return next(filter(None, outputs), None)


def _output(command: tuple[str, ...]) -> str | None:
    from rocenv.system.process import run

    done = run(command, timeout_s=_TIMEOUT_S, limit_bytes=8 * _MOST_BYTES)
    return done.stdout.decode("utf-8", "replace") if done.ok else None

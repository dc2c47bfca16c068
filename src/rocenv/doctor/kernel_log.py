"""What the kernel has written since it started, as far as this user may read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.system.machine import examined_elsewhere, read_attribute, words

if TYPE_CHECKING:
    from re import Pattern

_TIMEOUT_S = 10
_MOST_BYTES = 32 << 20
_COPY = "/var/log/dmesg"
_FILE = "/var/log/kern.log"
_DEVICE = "/dev/kmsg"  # in a copy of a machine a plain file; the device itself never ends
# As syslog, `dmesg` and the kernel's own device write it.
_BEFORE = re.compile(r"^(?:\S.*? kernel: )?(?:<\d+>)?(?:\[ *[0-9.]+\] ?|\d+,\d+,\d+,[^;]*;)?")
_START = re.compile(r"\bLinux version \d")


def kernel_log() -> list[str] | None:
    """Return the lines since the last start, oldest first; None where none can be read."""
    text = words(_COPY, _asked, _MOST_BYTES) or read_attribute(_FILE, _MOST_BYTES)[0]
    if not text and examined_elsewhere():
        text = read_attribute(_DEVICE, _MOST_BYTES)[0]
    if not text:
        return None
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if _START.search(line)]
    return lines[starts[-1] :] if starts else lines


def matching(log: list[str], pattern: Pattern[str], most: int = 4) -> tuple[str, ...]:
    """Return the last lines of a log in which a pattern is found, each text once; the times are left out."""
    found = dict.fromkeys(_untimed(line) for line in log if pattern.search(line))
    return tuple(found)[-most:]


def _untimed(line: str) -> str:
    """Return a line without its time and the machine's name, which nobody needs to see."""
    return _BEFORE.sub("", line).strip()


def _asked() -> str | None:
    import subprocess

    try:
        done = subprocess.run(
            ["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")

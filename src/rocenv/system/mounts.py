"""The mounts that the kernel lists in `/proc/self/mountinfo`.

Source: proc_pid_mountinfo(5)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str
    device: str


def mounts(text: str) -> Iterator[Mount]:
    """Yield what `/proc/self/mountinfo` lists; a later mount at the same point hides an earlier one."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) >= 5 and len(tail) >= 2:
            yield Mount(point=_unescaped(fields[4]), kind=tail[0], device=tail[1])


def holder(listed: Iterable[Mount], path: PurePath) -> Mount | None:
    """Return which of some mounts holds an absolute path without links in it."""
    best: Mount | None = None
    for mount in listed:
        inside = path == type(path)(mount.point) or type(path)(mount.point) in path.parents
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _unescaped(text: str) -> str:
    """Return a path of the kernel's: it writes space, tab, newline and backslash in octal, no more."""
    path = re.sub(
        rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 0xFF]), text.encode(errors="replace")
    )
    return path.decode("utf-8", "replace")

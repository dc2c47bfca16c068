"""Whether a folder lies on a disk of another machine, found out without asking that machine: it may be gone.

Whoever looks at a file of a dead NFS mount waits for ever.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.system.machine import (
    NETWORK_FILESYSTEMS,
    examined_elsewhere,
    holder,
    mount_of,
    mounts,
    read_text,
    tried,
)

if TYPE_CHECKING:
    from rocenv.system.machine import Mount

_LINKS = 40  # more than the kernel follows


def network_kind(folder: Path) -> str:
    """Return the file system of another machine that holds a folder, "" for a local one."""
    listed = tuple(mounts(read_text("/proc/self/mountinfo") or ""))
    found = tried("share", str(folder), partial(_by_links, listed, folder), "")
    if not found and examined_elsewhere():
        found = _kind(listed, folder)
    mount = None if found else mount_of(folder)  # nothing on the way to it is on a share
    return mount.kind if mount is not None and mount.kind in NETWORK_FILESYSTEMS else found


def _kind(listed: tuple[Mount, ...], path: Path) -> str:
    mount = holder(listed, path)
    return mount.kind if mount is not None and mount.kind in NETWORK_FILESYSTEMS else ""


def _by_links(listed: tuple[Mount, ...], folder: Path) -> str:
    """Follow links part by part, and stop before the first part on a share is touched."""
    path, rest, links = Path(folder.anchor), list(reversed(folder.parts[1:])), 0
    if kind := _kind(listed, folder):
        return kind
    while rest and links <= _LINKS:
        part = rest.pop()
        path = path.parent if part == ".." else path / part
        if kind := _kind(listed, path):
            return kind
        try:
            target = Path(os.readlink(path))
        except OSError:
            continue  # no link, or nothing is there
        links += 1
        path = Path(target.anchor) if target.is_absolute() else path.parent
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return ""

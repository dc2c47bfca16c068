"""Linux: check the folders in which programs cache compiled kernels.

On a filesystem without working locks, kernels and MIOpen's databases cause memory faults (ROCm#3951).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.findings import Observation
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
    from collections.abc import Mapping

    from rocenv.checks.context import CheckContext
    from rocenv.system.machine import Mount

_BELOW_PREFIX = "{prefix}/cache"  # an env's own caches start with this
_MOST_LINKS = 40  # the kernel's limit


def cache_on_network(context: CheckContext) -> Observation | None:
    """A cache is on a network filesystem."""
    kinds = ((name, folder, network_kind(folder)) for name, folder in _caches(context).items())
    found = [(name, folder, kind) for name, folder, kind in kinds if kind]
    if not found:
        return None
    name, folder, kind = found[0]
    evidence = tuple(f"{name}: {folder} ({kind})" for name, folder, kind in found)
    return Observation("cache_on_network", _values(name, folder) | {"kind": kind}, evidence)


def cache_read_only(context: CheckContext) -> Observation | None:
    """A cache is not writable, or the user cannot enter one of its parent folders."""
    found = [(name, folder) for name, folder in _local_caches(context).items() if not _is_writable(folder)]
    if not found:
        return None
    name, folder = found[0]
    evidence = tuple(f"{name}: {folder}" for name, folder in found)
    closed = tried("closed", str(folder), partial(_closed_folder, folder), "")
    values = _values(name, folder) | {"closed": closed}
    if closed and not values["variable"]:
        values["usual"] = _from_home(Path(closed), context)
    return Observation("cache_closed" if closed else "cache_read_only", values, evidence)


def cache_without_locks(context: CheckContext) -> Observation | None:
    """A cache is on a filesystem without file locking, according to an attempt to lock a file."""
    for name, folder in _local_caches(context).items():
        if error := tried("lock", str(folder), partial(_lock_error, folder), ""):
            values = _values(name, folder) | {"error": error}
            return Observation("cache_without_locks", values, (f"{folder}: {error}",))
    return None


def _caches(context: CheckContext) -> Mapping[str, Path]:
    """The cache folders, by variable or default path.

    The variables are the ones that an env sets for its own caches.
    """
    found: dict[str, Path] = {}
    for row in context.matrix.environment:
        change = row.change
        if row.platform == "linux" and change.value and change.value.startswith(_BELOW_PREFIX):
            value = context.environ.get(change.name, "")
            if os.path.isabs(value):
                found[change.name] = Path(value)
    home = context.environ.get("HOME", "")
    if os.path.isabs(home):
        if "XDG_CACHE_HOME" not in found:
            found["~/.cache"] = Path(home) / ".cache"
        if "MIOPEN_USER_DB_PATH" not in found:
            found["~/.config/miopen"] = Path(home) / ".config/miopen"
    return found


def _local_caches(context: CheckContext) -> Mapping[str, Path]:
    """The caches on local disks; testing one on an unresponsive server would block forever."""
    return {name: folder for name, folder in _caches(context).items() if not network_kind(folder)}


def _closed_folder(folder: Path) -> str:
    """The folder or its closest existing parent if this user cannot enter it, else ""."""
    existing = _existing(folder)
    try:
        os.listdir(existing)
        os.lstat(existing / "x")
    except PermissionError:
        return str(existing)
    except OSError:
        pass
    return ""


def _from_home(folder: Path, context: CheckContext) -> str:
    home = Path(context.environ.get("HOME", ""))
    return f"~/{folder.relative_to(home)}" if home in folder.parents else ""


def _values(name: str, folder: Path) -> dict[str, str]:
    is_variable = not name.startswith("~")
    return {
        "folder": str(folder),
        "variable": name if is_variable else "",
        "usual": "" if is_variable else name,
    }


def _existing(folder: Path) -> Path:
    """The folder, or its closest existing parent."""
    while not os.path.isdir(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _is_writable(folder: Path) -> bool:
    """Whether a file can be created in a folder; the mode does not show that a mount is read-only."""
    return tried("write", str(folder), lambda: _can_write(folder), True)


def _can_write(folder: Path) -> bool:
    if os.path.exists(folder) and not os.path.isdir(folder):
        return False
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return True
    except OSError:
        return False


def _lock_error(folder: Path) -> str:
    """Lock a file in a folder in both ways that databases do; return the error, "" if both work."""
    import fcntl

    if not _can_write(folder):
        return ""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(
                tempfile.NamedTemporaryFile(dir=_existing(folder), prefix=".rocenv-lock-")
            )
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_UN)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.strerror or type(error).__name__
    return ""


def network_kind(folder: Path) -> str:
    """The network filesystem that a folder is on; "" if it is local.

    Never touches the server, because accessing a dead NFS mount would block forever.
    """
    listed = tuple(mounts(read_text("/proc/self/mountinfo") or ""))
    found = tried("share", str(folder), partial(_kind_along_links, listed, folder), "")
    if not found and examined_elsewhere():
        found = _kind(listed, folder)
    mount = None if found else mount_of(folder)  # safe: no component of the path is on a network filesystem
    return mount.kind if mount is not None and mount.kind in NETWORK_FILESYSTEMS else found


def _kind(listed: tuple[Mount, ...], path: Path) -> str:
    mount = holder(listed, path)
    return mount.kind if mount is not None and mount.kind in NETWORK_FILESYSTEMS else ""


def _kind_along_links(listed: tuple[Mount, ...], folder: Path) -> str:
    """Resolve links one component at a time, and stop before touching a network filesystem."""
    path, rest, links = Path(folder.anchor), list(reversed(folder.parts[1:])), 0
    if kind := _kind(listed, folder):
        return kind
    while rest and links <= _MOST_LINKS:
        part = rest.pop()
        path = path.parent if part == ".." else path / part
        if kind := _kind(listed, path):
            return kind
        try:
            target = Path(os.readlink(path))
        except OSError:
            continue  # not a link, or missing
        links += 1
        path = Path(target.anchor) if target.is_absolute() else path.parent
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return ""

"""Linux: check the folders in which programs cache compiled kernels, and the MIOpen databases in them.

On a filesystem without working locks, cached kernels and MIOpen databases cause memory faults (ROCm#3951).
A crash can also damage a database.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
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
    from collections.abc import Iterator, Mapping

    from rocenv.checks.context import CheckContext
    from rocenv.system.machine import Mount


_BELOW_PREFIX = "{prefix}/cache"  # paths of an env's own caches start with this
_MAX_LINKS = 40  # the kernel's limit
# Folders and extensions of MIOpen's databases. Source: ROCm/MIOpen:src/binary_cache.cpp
_VARIABLES = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
_USUAL = (".config/miopen", ".cache/miopen")
_ENDINGS = (".ukdb", ".udb", ".db")
_BESIDE = ("-journal", "-wal", "-shm")  # files that SQLite keeps beside a database in use
_MAX_FILES = 1000
_SHOWN = 10
_HEADER = b"SQLite format 3\0"


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
    """A cache is not writable, or the user cannot access one of its parent folders."""
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
    """A cache is on a filesystem that does not support file locking."""
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
    """The folder (or its closest existing parent) if this user cannot access it, otherwise ""."""
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
    """Whether a file can be created in a folder; the mode alone does not reveal a read-only mount."""
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
    """Lock a file in a folder with both calls that databases use; return the error, or "" if both work."""
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
    """The type of a folder's network filesystem, or "" if the folder is local.

    Do not access the server, because accessing a dead NFS mount blocks forever.
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
    while rest and links <= _MAX_LINKS:
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


def miopen_database_damaged(context: CheckContext) -> Observation | None:
    """A database of compiled kernels is corrupt."""
    found = () if context.elsewhere else damaged_databases(context.environ)
    if not found:
        return None
    values = {"database": found[0].name, "folder": str(found[0].parent)}
    return Observation("miopen_database_damaged", values, tuple(map(str, found[:_SHOWN])))


def damaged_databases(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find databases that are corrupt or no longer SQLite files, except those in use."""
    found = tuple(_databases(environ))
    open_ = _in_use() if found else frozenset()
    return tuple(path for path in found if os.path.realpath(path) not in open_ and _is_damaged(path))


def set_aside(path: Path) -> Path:
    """Rename a database and its journals so that MIOpen creates a new one; return the new path."""
    number, aside = 1, path.with_name(f"{path.name}.broken")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.broken{number}")
    os.rename(path, aside)
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():  # SQLite would apply a leftover journal to the new database
            os.replace(beside, aside.with_name(aside.name + ending))
    return aside


def _databases(environ: Mapping[str, str]) -> Iterator[Path]:
    named = [Path(environ[name]) for name in _VARIABLES if os.path.isabs(environ.get(name, ""))]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    usual = [Path(home, name) for name in _USUAL] if os.path.isabs(home) else []
    count = 0
    for folder in dict.fromkeys((*named, *usual)):
        if network_kind(folder):
            continue  # the server may never respond
        for parent, _folders, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if name.endswith(_ENDINGS) and os.path.isfile(path) and not os.path.islink(path):
                    yield Path(path)
                count += 1
                if count > _MAX_FILES:
                    return


def _is_damaged(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
        if not head:
            return False  # SQLite treats an empty file as an empty database
        if head != _HEADER:
            return path.suffix == ".ukdb"  # files with the other extensions may be text
        before = path.stat()
        # Do not lock the file: programs that use it would have to wait. `immutable` ignores the journals.
        how = "mode=ro" if any(os.path.exists(f"{path}{ending}") for ending in _BESIDE) else "immutable=1"
        database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=1)
        try:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            database.close()
    except sqlite3.OperationalError:
        return False  # a disk error, not a corrupt database
    except sqlite3.DatabaseError:
        return _is_unchanged(path, before)
    except OSError:
        return False
    return answer is not None and answer[0] != "ok" and _is_unchanged(path, before)


def _in_use() -> frozenset[str]:
    """The files that this user's programs have open; a database in use may look corrupt."""
    found = set()
    for process in glob.iglob("/proc/[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"{process}/{name}"))
    return frozenset(found)


def _is_unchanged(path: Path, before: os.stat_result) -> bool:
    """Whether the database stayed the same while it was read."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_mtime_ns, now.st_size) == (before.st_mtime_ns, before.st_size)

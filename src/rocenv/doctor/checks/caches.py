"""Checks of Linux: the folders in which programs keep compiled kernels, and what those need of a disk.

Kernels and MIOpen's databases on a disk without working locks end as memory faults (ROCm#3951).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.doctor.seen import Seen
from rocenv.doctor.shares import network_kind
from rocenv.system.machine import tried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.doctor.scene import Scene

_BELOW_PREFIX = "{prefix}/cache"  # what an env's own caches begin with


def cache_on_network(scene: Scene) -> Seen | None:
    """A cache lies on a disk of another machine."""
    kinds = ((name, folder, network_kind(folder)) for name, folder in caches(scene).items())
    found = [(name, folder, kind) for name, folder, kind in kinds if kind]
    if not found:
        return None
    name, folder, kind = found[0]
    evidence = tuple(f"{name}: {folder} ({kind})" for name, folder, kind in found)
    return Seen("cache_on_network", _told(name, folder) | {"kind": kind}, evidence)


def cache_read_only(scene: Scene) -> Seen | None:
    """A cache cannot be written, or a folder on the way to it cannot be looked into."""
    found = [(name, folder) for name, folder in _local(scene).items() if not _is_writable(folder)]
    if not found:
        return None
    name, folder = found[0]
    evidence = tuple(f"{name}: {folder}" for name, folder in found)
    closed = tried("closed", str(folder), partial(_closed, folder), "")
    values = _told(name, folder) | {"closed": closed}
    if closed and not values["variable"]:
        values["usual"] = _from_home(Path(closed), scene)
    return Seen("cache_closed" if closed else "cache_read_only", values, evidence)


def cache_without_locks(scene: Scene) -> Seen | None:
    """A cache lies where files cannot be locked; it is tried."""
    for name, folder in _local(scene).items():
        error = tried("lock", str(folder), partial(_lock_error, folder), "")
        if error:
            return Seen(
                "cache_without_locks", _told(name, folder) | {"error": error}, (f"{folder}: {error}",)
            )
    return None


def caches(scene: Scene) -> Mapping[str, Path]:
    """Return the folders by the variable that names them, or by the place where they are without one.

    The variables are those that an env sets for its own caches.
    """
    found: dict[str, Path] = {}
    for row in scene.matrix.environment:
        change = row.change
        if row.platform == "linux" and change.value and change.value.startswith(_BELOW_PREFIX):
            value = scene.environ.get(change.name, "")
            if os.path.isabs(value):
                found[change.name] = Path(value)
    home = scene.environ.get("HOME", "")
    if os.path.isabs(home):
        if "XDG_CACHE_HOME" not in found:
            found["~/.cache"] = Path(home) / ".cache"
        if "MIOPEN_USER_DB_PATH" not in found:
            found["~/.config/miopen"] = Path(home) / ".config/miopen"
    return found


def _local(scene: Scene) -> Mapping[str, Path]:
    """Return the caches that can be tried: a share that does not answer would be waited for without end."""
    return {name: folder for name, folder in caches(scene).items() if not network_kind(folder)}


def _closed(folder: Path) -> str:
    """Return what on the way to a folder, or itself, this user may not look into; "" = nothing."""
    there = _existing(folder)
    try:
        os.listdir(there)
        os.lstat(there / "x")
    except PermissionError:
        return str(there)
    except OSError:
        pass
    return ""


def _from_home(folder: Path, scene: Scene) -> str:
    home = Path(scene.environ.get("HOME", ""))
    return f"~/{folder.relative_to(home)}" if home in folder.parents else ""


def _told(name: str, folder: Path) -> dict[str, str]:
    is_variable = not name.startswith("~")
    return {
        "folder": str(folder),
        "variable": name if is_variable else "",
        "usual": "" if is_variable else name,
    }


def _existing(folder: Path) -> Path:
    """Return the folder, or what is there of the way to it."""
    while not os.path.isdir(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _is_writable(folder: Path) -> bool:
    """Tell whether a file can be made there, or the folder can; the mode alone does not say it of a mount."""
    return tried("write", str(folder), lambda: _written(folder), True)


def _written(folder: Path) -> bool:
    if os.path.exists(folder) and not os.path.isdir(folder):
        return False
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return True
    except OSError:
        return False


def _lock_error(folder: Path) -> str:
    """Return what keeps a file there from being locked, in both ways that databases lock; "" = nothing."""
    import fcntl

    if not _written(folder):
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

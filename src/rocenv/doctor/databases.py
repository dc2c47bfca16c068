"""MIOpen's own databases of a user, and which of them SQLite cannot use any more."""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.doctor.shares import network_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Where MIOpen keeps them, and what it calls them. Source: ROCm/MIOpen:src/binary_cache.cpp
_VARIABLES = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
_USUAL = (".config/miopen", ".cache/miopen")
_ENDINGS = (".ukdb", ".udb", ".db")
_BESIDE = ("-journal", "-wal", "-shm")  # what SQLite puts beside a database while it is used
_MOST = 1000
_HEADER = b"SQLite format 3\0"


def damaged_databases(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the databases that are no SQLite file any more, or are malformed; one in use is left alone.

    Args:
        environ: Variables of this machine's environment.
    """
    found = tuple(_databases(environ))
    open_ = _in_use() if found else frozenset()
    return tuple(path for path in found if os.path.realpath(path) not in open_ and _is_damaged(path))


def set_aside(path: Path) -> Path:
    """Rename a database and what belongs to it, so that a new one is made; return its new name."""
    number, aside = 1, path.with_name(f"{path.name}.broken")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.broken{number}")
    os.rename(path, aside)
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():  # it would be taken for the new one's
            os.replace(beside, aside.with_name(aside.name + ending))
    return aside


def _databases(environ: Mapping[str, str]) -> Iterator[Path]:
    named = [Path(environ[name]) for name in _VARIABLES if os.path.isabs(environ.get(name, ""))]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    usual = [Path(home, name) for name in _USUAL] if os.path.isabs(home) else []
    count = 0
    for folder in dict.fromkeys((*named, *usual)):
        if network_kind(folder):
            continue  # it may never answer
        for parent, _folders, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if name.endswith(_ENDINGS) and os.path.isfile(path) and not os.path.islink(path):
                    yield Path(path)
                count += 1
                if count > _MOST:
                    return


def _is_damaged(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
        if not head:
            return False  # SQLite makes an empty file its own
        if head != _HEADER:
            return path.suffix == ".ukdb"  # others may be text
        before = path.stat()
        # No lock is taken, so that no program has to wait. What is beside it would not be read so.
        how = "mode=ro" if any(os.path.exists(f"{path}{ending}") for ending in _BESIDE) else "immutable=1"
        database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=1)
        try:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            database.close()
    except sqlite3.OperationalError:
        return False  # its disk answers with errors: another trouble
    except sqlite3.DatabaseError:
        return _is_as_before(path, before)
    except OSError:
        return False
    return answer is not None and answer[0] != "ok" and _is_as_before(path, before)


def _in_use() -> frozenset[str]:
    """Return the files that programs of this user have open: what is half written looks malformed."""
    found = set()
    for process in glob.iglob("/proc/[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"{process}/{name}"))
    return frozenset(found)


def _is_as_before(path: Path, before: os.stat_result) -> bool:
    """Tell whether nobody wrote a database while it was read."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_mtime_ns, now.st_size) == (before.st_mtime_ns, before.st_size)

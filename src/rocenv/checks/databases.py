"""Check MIOpen's databases, which a crash or a filesystem without locks can corrupt."""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.checks.caches import network_kind
from rocenv.findings import Observation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.checks.context import CheckContext

# Folders and file name extensions of MIOpen's databases. Source: ROCm/MIOpen:src/binary_cache.cpp
_VARIABLES = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
_USUAL = (".config/miopen", ".cache/miopen")
_ENDINGS = (".ukdb", ".udb", ".db")
_BESIDE = ("-journal", "-wal", "-shm")  # SQLite's files beside a database in use
_MOST_FILES = 1000
_SHOWN = 10
_HEADER = b"SQLite format 3\0"


def miopen_database_damaged(context: CheckContext) -> Observation | None:
    """SQLite cannot read a database of compiled kernels."""
    found = () if context.elsewhere else damaged_databases(context.environ)
    if not found:
        return None
    values = {"database": found[0].name, "folder": str(found[0].parent)}
    return Observation("miopen_database_damaged", values, tuple(map(str, found[:_SHOWN])))


def damaged_databases(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find databases that are malformed or no longer SQLite files, except those in use."""
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
        if beside.exists():  # SQLite would apply it to the new database
            os.replace(beside, aside.with_name(aside.name + ending))
    return aside


def _databases(environ: Mapping[str, str]) -> Iterator[Path]:
    named = [Path(environ[name]) for name in _VARIABLES if os.path.isabs(environ.get(name, ""))]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    usual = [Path(home, name) for name in _USUAL] if os.path.isabs(home) else []
    count = 0
    for folder in dict.fromkeys((*named, *usual)):
        if network_kind(folder):
            continue  # the server may never answer
        for parent, _folders, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if name.endswith(_ENDINGS) and os.path.isfile(path) and not os.path.islink(path):
                    yield Path(path)
                count += 1
                if count > _MOST_FILES:
                    return


def _is_damaged(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
        if not head:
            return False  # for SQLite, an empty file is an empty database
        if head != _HEADER:
            return path.suffix == ".ukdb"  # files with the other extensions may be text
        before = path.stat()
        # Take no lock, so that no program has to wait. `immutable` ignores the journals.
        how = "mode=ro" if any(os.path.exists(f"{path}{ending}") for ending in _BESIDE) else "immutable=1"
        database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=1)
        try:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            database.close()
    except sqlite3.OperationalError:
        return False  # a disk error, not a damaged database
    except sqlite3.DatabaseError:
        return _is_unchanged(path, before)
    except OSError:
        return False
    return answer is not None and answer[0] != "ok" and _is_unchanged(path, before)


def _in_use() -> frozenset[str]:
    """The files that this user's programs have open; a half-written database looks malformed."""
    found = set()
    for process in glob.iglob("/proc/[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"{process}/{name}"))
    return frozenset(found)


def _is_unchanged(path: Path, before: os.stat_result) -> bool:
    """Whether the database did not change while it was read."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_mtime_ns, now.st_size) == (before.st_mtime_ns, before.st_size)

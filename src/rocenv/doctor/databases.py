"""MIOpen's own databases of a user, and which of them SQLite cannot use any more."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Where MIOpen keeps them, and what it calls them. Source: ROCm/MIOpen:src/binary_cache.cpp
_VARIABLES = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
_USUAL = (".config/miopen", ".cache/miopen")
_ENDINGS = (".ukdb", ".udb", ".db")
_MOST = 1000
_HEADER = b"SQLite format 3\0"


def damaged_databases(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the databases that are no SQLite file any more, or are malformed; one in use is left alone.

    Args:
        environ: Variables of this machine's environment.
    """
    return tuple(path for path in _databases(environ) if _is_damaged(path))


def set_aside(path: Path) -> Path:
    """Rename a database and what belongs to it, so that a new one is made; return its new name."""
    number, aside = 1, path.with_name(f"{path.name}.broken")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.broken{number}")
    os.rename(path, aside)
    for ending in ("-journal", "-wal", "-shm"):
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
        for parent, _folders, names in os.walk(folder):
            for name in sorted(names):
                path = Path(parent, name)
                if name.endswith(_ENDINGS) and path.is_file() and not path.is_symlink():
                    yield path
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
        # Opened to write nothing: it takes no lock that keeps a program out.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        try:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            database.close()
    except sqlite3.OperationalError:
        return False  # locked, or its disk answers with errors: another trouble
    except sqlite3.DatabaseError:
        return True
    except OSError:
        return False
    return answer is not None and answer[0] != "ok"

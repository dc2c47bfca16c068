"""Renames, and who is in their way: Windows renames nothing that somebody has open, not even for a moment."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS
from rocenv.system.in_use import users_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PATIENCE_S = 5.0  # a virus scanner looks at what was just written, and lets go of it soon
_PAUSE_S = 0.05
_ASIDE = re.compile(r"\.(.+)\.[0-9]+\.removing", re.S)


def move(source: Path, destination: Path) -> None:
    """Rename a file, also to the name of another one, or a folder to where none is.

    On Windows it is tried for some seconds, since a scanner may hold what was just written.
    """
    # The spelling of a folder's name alone can be changed by `rename`, which replaces nothing on Windows.
    rename = os.rename if os.path.isdir(source) else os.replace
    end = time.monotonic() + (_PATIENCE_S if WINDOWS else 0.0)
    while True:
        try:
            rename(source, destination)
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def move_unused(folder: Path, destination: Path) -> None:
    """Rename a folder; raise PrefixError where, on Windows, a running program has a file below it open."""
    try:
        move(folder, destination)
    except PermissionError as error:
        if not WINDOWS:
            raise
        raise in_use(folder, folder.rglob("*")) from error


def in_use(folder: Path, files: Iterable[Path]) -> PrefixError:
    """Return the error of a folder in which a program has one of these files open, by its name if known."""
    programs = (str(path) for path in files if path.suffix.lower() in (".dll", ".exe", ".pyd"))
    users = next((found for path in programs if (found := users_of(path))), ())
    return PrefixError(
        f"a file in `{folder}` is in use by {' and '.join(users) or 'another program'}",
        hints=("close that program, then run the same command again",),
        code="in-use",
    )


def require_unused(folder: Path) -> None:
    """Raise PrefixError where, on Windows, a running program has a file open below a folder to be removed.

    The folder is renamed and back again. What is left under the other name, if this is interrupted in
    between, is known by `set_aside`.
    """
    if not WINDOWS:
        return
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.removing")
    move_unused(folder, aside)
    move_unused(aside, folder)


def set_aside(name: str) -> str:
    """Return the name of the folder whose removal left one of this name behind, "" for any other."""
    found = _ASIDE.fullmatch(name)
    return found[1] if found else ""

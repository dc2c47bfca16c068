"""Locate the results of `verify`: in the env, or in the user's own folder if the env is not writable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.codec import verification_file, verification_from_plain
from rocenv.core.errors import DataError
from rocenv.core.foreign import load_json
from rocenv.home import user_folder
from rocenv.system.files import write_atomic
from rocenv.system.private import make_private

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.core.model import Verification

_FILE = "verified.json"


def read(own: Path) -> Verification | None:
    """Return the last readable result for an env; `own` is its folder for rocenv's own files."""
    found = filter(None, map(_read, (own / _FILE, _of_user(own))))
    return max(found, key=lambda each: each.when, default=None)


def write(own: Path, verification: Verification) -> None:
    """Save a result; raises OSError."""
    try:
        write_atomic(own / _FILE, verification_file(verification))
    except OSError:
        file = _of_user(own)
        if file is None:
            raise
        make_private(file.parent)
        write_atomic(file, verification_file(verification))


def _of_user(own: Path) -> Path | None:
    """Return the file in the user's folder; its name depends on the env's files."""
    folder = user_folder("XDG_STATE_HOME", ".local/state")
    lists = sorted(own.glob("files-*.json"))
    return folder / "verified" / lists[-1].name if folder and lists else None


def _read(path: Path | None) -> Verification | None:
    try:
        return verification_from_plain(load_json(path), str(path)) if path else None
    except (OSError, DataError, ValueError, KeyError, TypeError):
        return None

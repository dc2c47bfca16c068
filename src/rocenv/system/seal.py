"""Sealed files, which are valid only in the home that wrote them; invalid ones are rebuilt.

The first line is a keyed hash of the rest. Only users who can write to the home can read the key.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import stat
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError
from rocenv.core.foreign import MAX_BYTES, read_file
from rocenv.system import WINDOWS
from rocenv.system.files import remove_path, write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from pathlib import Path

_KEY_BYTES = 32


def write_sealed(path: Path, content: bytes, key_file: Path) -> None:
    """Write a file atomically so that `read_sealed` accepts it at this path.

    Create the key if it does not exist.
    """
    try:
        key = _key(key_file)
    except (OSError, DataError):
        key = _new_key(key_file)
    write_atomic(path, _seal(path, content, key) + b"\n" + content)


def read_sealed(path: Path, key_file: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file that `write_sealed` wrote to this path with this key.

    For a user who can read the home but not its key, a file is valid if only the home's owner could have
    written it.

    Raises:
        DataError: The seal is invalid.
        OSError: The file cannot be read.
    """
    seal, _, content = read_file(path, max_bytes).partition(b"\n")
    try:
        is_own = hmac.compare_digest(seal, _seal(path, content, _key(key_file)))
    except PermissionError:
        info, home = path.stat(), key_file.parent.stat()
        is_own = info.st_uid == home.st_uid and not (info.st_mode | path.parent.stat().st_mode) & 0o022
    except OSError:
        is_own = False
    if not is_own:
        raise DataError(f"`{path}` was not written by rocenv in this home")
    return content


def _key(path: Path) -> bytes:
    """Read the key; raise DataError if another user could have read or written it."""
    key = read_file(path, _KEY_BYTES)
    info = path.lstat()
    if WINDOWS:
        is_own = True
    else:
        # A group-writable home is shared deliberately; rocenv rejects other exposed homes.
        is_shared = bool(path.parent.stat().st_mode & stat.S_IWGRP)
        owners = {0, os.geteuid(), path.parent.stat().st_uid}
        is_own = (is_shared or info.st_uid in owners) and not info.st_mode & (0o007 if is_shared else 0o077)
    if len(key) != _KEY_BYTES or not is_own:
        raise DataError(f"`{path}` is not this rocenv home's key")
    return key


def _new_key(path: Path) -> bytes:
    with locked(path.parent / "locks" / "key.lock"):
        with contextlib.suppress(OSError, DataError):
            return _key(path)  # another process created it first
        remove_path(path)
        key = os.urandom(_KEY_BYTES)
        write_atomic(path, key, 0o600)
        if not WINDOWS and path.parent.stat().st_mode & stat.S_IWGRP:
            path.chmod(0o640)  # a home that is deliberately shared with a group
        return key


def _seal(path: Path, content: bytes, key: bytes) -> bytes:
    # Include the names of the file and its folder, so that one sealed file cannot replace another.
    name = os.fsencode(f"{path.parent.name}/{path.name}") + b"\n"
    return hmac.digest(key, name + content, "sha256").hex().encode()

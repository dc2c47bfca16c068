"""Files that count only where this home wrote them: a cache that came from elsewhere is made anew.

Each begins with a line, a keyed hash of the rest. Only those can read the key who may write to the home.
"""

from __future__ import annotations

import hmac
import os
import stat
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError
from rocenv.core.foreign import MOST_BYTES, read_file
from rocenv.system import WINDOWS
from rocenv.system.files import write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from pathlib import Path

_KEY_BYTES = 32


def write_sealed(path: Path, content: bytes, key_file: Path) -> None:
    """Write a file that `read_sealed` accepts for this path, atomically; make the key where there is none."""
    with locked(key_file.with_name(f"{key_file.name}.lock")):
        if not key_file.exists():
            write_atomic(key_file, os.urandom(_KEY_BYTES), 0o600)
            if not WINDOWS and key_file.parent.stat().st_mode & stat.S_IWGRP:
                key_file.chmod(0o640)  # a home that a group shares on purpose
    write_atomic(path, _seal(path, content, key_file) + b"\n" + content)


def read_sealed(path: Path, key_file: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a file that `write_sealed` wrote to this path with this key.

    Raises:
        DataError: It is another file.
        OSError: It cannot be read.
    """
    seal, _, content = read_file(path, most_bytes).partition(b"\n")
    try:
        expected = _seal(path, content, key_file)
    except OSError:
        expected = b""
    if not expected or not hmac.compare_digest(seal, expected):
        raise DataError(f"`{path}` is not as this rocenv home wrote it")
    return content


def _seal(path: Path, content: bytes, key_file: Path) -> bytes:
    # With the name of the file and its folder, so that one sealed file cannot stand in for another.
    name = os.fsencode(f"{path.parent.name}/{path.name}") + b"\n"
    return hmac.digest(read_file(key_file, _KEY_BYTES), name + content, "sha256").hex().encode()

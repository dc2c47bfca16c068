"""The source of an app's kernels: what it is hashed to, by us and by the app."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LARGEST = 64 << 20  # of a file; sources are small, and what is not was not meant
_MOST_FILES = 20_000


def content_hash(source: Path) -> str:
    """Return a hash of what the files of a folder say, wherever it lies."""
    whole = hashlib.sha256()
    for name, path in _files(source, ""):
        content = _content(path)
        whole.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        whole.update(content)
    return whole.hexdigest()


def name_hash(source: Path, flags: str) -> str:
    """Return the hash that stands in the name of a kernel that the app compiled itself.

    MD5 in upper case over another one, of the path and the content of each file, and over the flags. So it is
    another one wherever else the same app lies. Source: blender/cycles:src/util/path.cpp, path_files_md5_hash
    """
    # Machines that allow no MD5 for security allow it for names.
    inner = hashlib.md5(usedforsecurity=False)
    for name, path in _files(source, ""):
        inner.update(os.fsencode(f"{source}/{name}"))
        inner.update(_content(path))
    text = inner.hexdigest().upper() + flags
    return hashlib.md5(os.fsencode(text), usedforsecurity=False).hexdigest().upper()


def _files(folder: Path, below: str) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder by name, each folder where its name stands among the others."""
    count = 0
    stack = [(below, folder)]
    while stack:
        name, path = stack.pop()
        if path.is_dir():
            prefix = f"{name}/" if name else ""
            names = sorted(os.listdir(path), key=os.fsencode, reverse=True)
            stack.extend((prefix + each, path / each) for each in names)
            continue
        count += 1
        if count > _MOST_FILES:
            raise _refused(folder, f"it holds more than {_MOST_FILES} files")
        yield name, path


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise _refused(path, "it is no file")
        if path.stat().st_size > _LARGEST:
            raise _refused(path, "it is too large")
        return path.read_bytes()
    except OSError as error:
        raise _refused(path, error.strerror or "it cannot be read") from error


def _refused(path: Path, why: str) -> RocenvError:
    return RocenvError(
        f"`{path}` cannot be read as source of kernels: {why}",
        hints=("get it again, whole",),
        code="kernels-bad-source",
    )

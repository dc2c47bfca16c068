"""Compare an env's files with its record by presence, size and type, without reading them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rocenv.core.model import FileEntry, Record
    from rocenv.prefix import Prefix


def damaged(root: Path, files: Mapping[str, FileEntry]) -> dict[str, str]:
    """Compare the files below `root` with a list: path -> what is wrong with it, sorted.

    10,000 files take about 0.1 s.
    """
    folder = os.path.join(root, "")
    found = {path: what for path, entry in files.items() if (what := _difference(folder + path, entry))}
    return dict(sorted(found.items()))


def lost_files(prefix: Prefix, record: Record) -> dict[str, str]:
    """Compare all files as `damaged` does if a main part of the env is missing; else return {}.

    Meant for commands that start a program: it takes less than a millisecond if nothing is missing.

    Raises:
        DataError: The file list was modified.
    """
    if all(_is_there(prefix.path, alternatives) for alternatives in _main_parts(record)):
        return {}
    return damaged(prefix.path, prefix.files(record))


def _main_parts(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield the possible locations of each folder and file that programs need in order to start."""
    for part in record.lock.components:
        yield (part.into,)
        if part.layout is not None:
            yield (part.layout.python,)
            yield (part.layout.site_packages,)
            for name in part.layout.libraries.values() if record.lock.platform == "linux" else ():
                yield tuple(f"{folder}/{name}" for folder in part.layout.library_dirs)
    yield (record.loader,)


def _is_there(root: Path, alternatives: tuple[str, ...]) -> bool:
    return not any(alternatives) or any(os.path.lexists(root / path) for path in alternatives)


def _difference(path: str, entry: FileEntry) -> str:
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return "" if os.readlink(path) == entry.link else "changed"
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else str(error.strerror)
    is_same = stat.S_ISREG(info.st_mode) and not entry.link and info.st_size == entry.size_bytes
    return "" if is_same else "changed"

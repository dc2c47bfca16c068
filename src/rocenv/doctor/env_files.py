"""The files of an env as they can be seen to be, without reading them all."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.preload import preload, shims_of, zluda_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rocenv.core.model import FileEntry, Lock
    from rocenv.doctor.scene import Env


def files_of(env: Env) -> dict[str, FileEntry]:
    """Return the env's list of files, {} where it is damaged: that is told by another check."""
    try:
        return env.prefix.files(env.record)
    except (RocenvError, ValueError):
        return {}


def shims(env: Env, files: Mapping[str, FileEntry]) -> frozenset[str]:
    """Return the files that ZLUDA is loaded from, of which not all need be there."""
    lock, in_torch = env.record.lock, env.record.shims_in_torch
    found = {shim.path for shim in shims_of(lock, in_torch=in_torch)} | set(_driver_files(lock))
    return frozenset(found | set(preload(lock, files, in_torch=in_torch)))


def _driver_files(lock: Lock) -> Iterable[str]:
    build = zluda_of(lock)
    return (f"{build.into}/{name}" for name in build.shims.driver) if build and build.shims else ()


def damaged(root: Path, files: Mapping[str, FileEntry]) -> dict[str, str]:
    """Return the files that can be seen to be wrong without reading them: path -> what is wrong."""
    found = {path: what for path, entry in files.items() if (what := _wrong(root / path, entry))}
    return dict(sorted(found.items()))


def _wrong(path: Path, entry: FileEntry) -> str:
    try:
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            return "" if os.readlink(path) == entry.link else "changed"
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else str(error.strerror)
    is_same = stat.S_ISREG(info.st_mode) and not entry.link and info.st_size == entry.size_bytes
    return "" if is_same else "changed"

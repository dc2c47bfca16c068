"""Compare an env's files with its record."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from rocenv.core.model import FileEntry
from rocenv.core.versions import version_of
from rocenv.system import WINDOWS
from rocenv.system.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from rocenv.core.model import Artifact, Component, Lock
    from rocenv.core.progress import Progress


def differences(
    root: Path, files: Mapping[str, FileEntry], progress: Progress | None = None
) -> dict[str, str]:
    """Compare the files below `root` with a list: path -> `missing`, `changed` or `unreadable: ...`, sorted.

    Unlisted files are ignored. A file whose folder is now a link counts as missing, even if the link's
    target contains the file. `progress` reports hashing progress.
    """
    if progress is None:
        return _differences(root, files, lambda _size: None)
    with progress.stage("Checking files", sum(entry.size_bytes for entry in files.values())) as stage:
        return _differences(root, files, stage.advance)


def _differences(
    root: Path, files: Mapping[str, FileEntry], advance: Callable[[int], None]
) -> dict[str, str]:
    real = _real_folders(root, files)

    def check(item: tuple[str, FileEntry]) -> str:
        path, expected = item
        if path.rpartition("/")[0] not in real:
            return "missing"
        try:
            found = file_entry(root / path)
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            return f"unreadable: {error.strerror}"
        advance(found.size_bytes)
        return "" if _same(found, expected) else "changed"

    listed = sorted(files.items())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {path: what for (path, _), what in zip(listed, pool.map(check, listed), strict=True) if what}


def _same(found: FileEntry, expected: FileEntry) -> bool:
    if (found.sha256, found.size_bytes, found.link) != (expected.sha256, expected.size_bytes, expected.link):
        return False
    # Compare only the executable bit; the other bits depend on the umask.
    return bool(expected.link) or found.executable == expected.executable


def _real_folders(root: Path, files: Iterable[str]) -> frozenset[str]:
    """List the folders of `files` that are reached from `root` without following a link; `""` is `root`."""
    real = {""}
    wanted = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    for folder in sorted(wanted - {"."}):  # parents come before their subfolders
        with contextlib.suppress(OSError):
            if folder.rpartition("/")[0] in real and stat.S_ISDIR((root / folder).lstat().st_mode):
                real.add(folder)
    return frozenset(real)


def file_entry(path: Path) -> FileEntry:
    """Describe the file at `path` without following a link.

    Raises:
        FileNotFoundError: The path does not exist.
        OSError: It cannot be read, or is neither a file nor a link.
    """
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return FileEntry(link=os.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))
    # Windows has no such bit, so Python derives it from the file name.
    executable = bool(info.st_mode & stat.S_IXUSR) and not WINDOWS
    return FileEntry(sha256=sha256_of(path), size_bytes=info.st_size, executable=executable)


class Replaced(NamedTuple):
    """A locked package that is missing from the venv, or whose installed version differs."""

    name: str
    locked: str
    found: str  # installed version, "" if none
    part: Component


def replaced_packages(prefix: Path, lock: Lock) -> list[Replaced]:
    """List locked packages whose installed version differs, for example after a `pip install` in the venv.

    ROCm and PyTorch packages come first, because others depend on them.
    """
    found = []
    for part in lock.components:
        if part.is_wheels and part.layout is not None:
            there = installed_packages(prefix / part.layout.site_packages)
            found += [
                Replaced(each.name, each.version, other, part)
                for each in part.artifacts
                if (other := _other_version(each, there)) is not None
            ]
    return sorted(found, key=lambda each: "rocm" not in each.locked and each.part.kind != "rocm")


def installed_packages(site: Path) -> dict[str, list[str]]:
    """Read a venv's packages from its folder names: project -> versions."""
    found: dict[str, list[str]] = {}
    for folder in site.glob("*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def _other_version(artifact: Artifact, there: Mapping[str, list[str]]) -> str | None:
    """Return the installed version if it differs from the locked one, or "" if none is installed."""
    versions = there.get(canonicalize_name(artifact.name), [])
    others = [each for each in versions if not _is_same(each, artifact.version)]
    if others:
        return others[0]
    return None if versions else ""


def _is_same(found: str, locked: str) -> bool:
    """Compare versions; an invalid one, such as after an interrupted `pip install`, equals only itself."""
    try:
        return version_of(found) == version_of(locked)
    except InvalidVersion:
        return found == locked

"""Copy a folder on this machine, such as an installed HIP SDK, into the store."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.core.model import Artifact, FileEntry
from rocenv.install.tree import Tree
from rocenv.system.files import file_chunks, is_link, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def folder_artifact(folder: Path, *, name: str, version: str, url: str = "") -> Artifact:
    """Describe a folder as an artifact, whose hash covers the names and contents of all files.

    Raises:
        PrefixError: The folder is empty or missing, a file is unreadable, a name is not allowed in the store,
          or a link points to a folder or to a path outside `folder`.
    """
    folder = Path(os.path.abspath(folder))
    files = {}
    names = Tree(folder, lambda _size: None, for_windows=True)
    for relative, path, size_bytes in _files(folder):
        try:
            names.claim(relative)
            files[relative] = FileEntry(sha256=sha256_of(path), size_bytes=size_bytes)
        except ArchiveError as error:
            raise _cannot_copy(folder, error) from error
        except OSError as error:
            raise _unreadable(path, error) from error
    if not files:
        raise PrefixError(f"`{folder}` contains no files", code="adopt-failed")
    size_bytes = sum(entry.size_bytes for entry in files.values())
    return Artifact(
        kind="folder",
        name=name,
        version=version,
        url=url,
        sha256=_hash_of(files),
        size_bytes=size_bytes,
        installed_bytes=size_bytes,
        path=str(folder),
    )


def copy_folder(artifact: Artifact, tree: Tree) -> None:
    """Copy a folder's files; raise PrefixError unless they match the artifact."""
    folder = Path(artifact.path)
    files = {}
    left = artifact.size_bytes
    try:
        for relative, path, size_bytes in _files(folder) if folder.is_dir() else ():
            left -= size_bytes
            if left < 0:  # a lock can specify any folder, and the hash is only verified at the end
                break
            claimed = tree.claim(relative)
            tree.write(claimed, size_bytes, _chunks(path))
            files[relative] = tree.files[claimed]
    except ArchiveError as error:
        raise _cannot_copy(folder, error) from error
    if _hash_of(files) != artifact.sha256:
        raise PrefixError(
            f"cannot copy {artifact.name} {artifact.version}: `{folder}` is missing or has changed",
            hints=("recreate the env: `rocenv create` copies the version that is installed now",),
            code="adopted-gone",
        )


def _files(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield every file below a folder, sorted: relative path with `/`, full path, and size."""
    root = Path(os.path.realpath(folder))

    def unreadable(error: OSError) -> None:
        raise _unreadable(error.filename, error)

    for here, subfolders, names in os.walk(root, onerror=unreadable):
        subfolders.sort()
        for name in subfolders:
            path = Path(here, name)
            if is_link(path.lstat()):
                raise PrefixError(f"`{path}` is a link to a folder", code="adopt-failed")
        for name in sorted(names):
            path = Path(here, name)
            yield path.relative_to(root).as_posix(), path, _size_of(path, root)


def _size_of(path: Path, root: Path) -> int:
    """Return a file's size; raise PrefixError unless it is a file, or a link to a file in `root`."""
    info = path.lstat()
    if is_link(info):
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise PrefixError(f"`{path}` is a link that points outside the folder", code="adopt-failed")
        try:
            info = path.stat()
        except OSError as error:
            raise _unreadable(path, error) from error
    if not stat.S_ISREG(info.st_mode):
        raise PrefixError(f"`{path}` is not a file", code="adopt-failed")
    return info.st_size


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes; read errors name this file, unlike write errors in the store."""
    chunks = file_chunks(path)
    while True:
        try:
            data = next(chunks, b"")
        except OSError as error:
            raise _unreadable(path, error) from error
        if not data:
            return
        yield data


def _cannot_copy(folder: Path, error: ArchiveError) -> PrefixError:
    return PrefixError(f"cannot copy `{folder}`: {error.message}", code="adopt-failed")


def _unreadable(path: str | Path, error: OSError) -> PrefixError:
    return PrefixError(
        f"cannot read `{path}`: {error.strerror}",
        hints=("close any programs that are using it, and check its permissions",),
        code="adopt-failed",
    )


def _hash_of(files: Mapping[str, FileEntry]) -> str:
    lines = [f"{entry.sha256} {entry.size_bytes} {name}\n" for name, entry in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

"""Import a folder of the machine, such as an installed HIP SDK: copied into the store, never linked to."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.core.model import Artifact, FileEntry
from rocenv.install import store
from rocenv.install.tree import is_link
from rocenv.system.files import file_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.home import Home
    from rocenv.install.tree import Tree


def import_folder(
    home: Home, folder: Path, *, name: str, version: str, advance: Callable[[int], None]
) -> Artifact:
    """Copy a folder's files into the store; return the artifact they are there.

    The folder is never changed, and nothing is linked to it. If the store already has the same contents, this
    costs reading the folder, and no second copy.

    Args:
        home: Whose store.
        folder: What to copy; every file in it.
        name: What messages call it.
        version: The same.
        advance: Called with the number of bytes copied; with 0 while reading.

    Raises:
        PrefixError: The folder is empty or gone, a file in it cannot be read or changes meanwhile, or a link
            in it is to a folder or leads out; or there is no room.
    """
    folder = Path(os.path.abspath(folder))
    files = _listed(folder, advance)
    if not files:
        raise PrefixError(f"`{folder}` holds no files to import", code="adopt-failed")
    size_bytes = sum(entry.size_bytes for entry in files.values())
    artifact = Artifact(
        kind="folder",
        name=name,
        version=version,
        url="",
        sha256=_sha256_of_list(files),
        size_bytes=size_bytes,
        installed_bytes=size_bytes,
        path=str(folder),
    )

    def copy(tree: Tree, _work: Path) -> None:
        try:
            _copy(folder, files, tree)
        except ArchiveError as error:
            raise PrefixError(
                f"`{folder}` cannot be imported: {error.message}", code="adopt-failed"
            ) from error

    store.fill(home, artifact, copy, advance)
    return artifact


def list_hash(folder: Path) -> str:
    """The hash that the store would know a folder by; raises as `import_folder` does."""
    return _sha256_of_list(_listed(folder, lambda _size: None))


def import_again(home: Home, artifact: Artifact) -> bool:
    """Put an imported folder back into the store; False where it is gone or has changed since."""
    folder = Path(artifact.path)
    try:
        if not folder.is_dir() or list_hash(folder) != artifact.sha256:
            return False
        store.discard(home, artifact)
        import_folder(home, folder, name=artifact.name, version=artifact.version, advance=lambda _size: None)
    except PrefixError as error:
        if error.code != "adopt-failed":
            raise
        return False
    return True


def _listed(folder: Path, advance: Callable[[int], None]) -> dict[str, FileEntry]:
    """Hash every file below a folder: relative path with `/` -> entry."""
    files = {}
    for relative, path in _files(folder):
        digest, size_bytes = hashlib.sha256(), 0
        for data in _chunks(path):
            digest.update(data)
            size_bytes += len(data)
            advance(0)
        files[relative] = FileEntry(sha256=digest.hexdigest(), size_bytes=size_bytes)
    return files


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file below a folder in order: relative path with `/`, and where it is."""
    root = Path(os.path.realpath(folder))

    def unreadable(error: OSError) -> None:
        raise _failed(error.filename, error)

    for here, subfolders, names in os.walk(root, onerror=unreadable):
        subfolders.sort()
        for name in subfolders:
            path = Path(here, name)
            if is_link(path.lstat()):
                raise PrefixError(f"`{path}` is a link to a folder", code="adopt-failed")
        for name in sorted(names):
            path = Path(here, name)
            _require_file_inside(path, root)
            yield path.relative_to(root).as_posix(), path


def _require_file_inside(path: Path, root: Path) -> None:
    info = path.lstat()
    if is_link(info):
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise PrefixError(f"`{path}` is a link that leads out of the folder", code="adopt-failed")
        try:
            info = path.stat()
        except OSError as error:
            raise _failed(path, error) from error
    if not stat.S_ISREG(info.st_mode):
        raise PrefixError(f"`{path}` is not a file", code="adopt-failed")


def _copy(folder: Path, files: dict[str, FileEntry], tree: Tree) -> None:
    for relative, entry in files.items():
        claimed = tree.claim(relative)
        tree.write(claimed, entry.size_bytes, _chunks(folder / relative))
        if tree.files[claimed] != entry:
            raise ArchiveError(f"`{relative}` has changed while it was copied")


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes; an error of reading names the file, unlike one of the store's disk."""
    chunks = file_chunks(path)
    while True:
        try:
            data = next(chunks, b"")
        except OSError as error:
            raise _failed(path, error) from error
        if not data:
            return
        yield data


def _failed(path: str | Path, error: OSError) -> PrefixError:
    return PrefixError(
        f"`{path}` cannot be read: {error.strerror}",
        hints=("close the programs that use it, and check that you may read it",),
        code="adopt-failed",
    )


def _sha256_of_list(files: dict[str, FileEntry]) -> str:
    lines = [f"{entry.sha256} {entry.size_bytes} {name}\n" for name, entry in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

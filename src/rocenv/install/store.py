"""The store: every artifact, unpacked once, identified by its hash, and shared by all envs.

`store/SHA256/` contains `tree/`, whose files are read-only, and `manifest.json`. An entry is created in a
temporary folder and renamed when complete, so every existing entry is complete. If a process is killed, `gc`
or the next process that needs the artifact removes the leftovers.

Only verified bytes are unpacked: a `.deb` is hashed while being unpacked; other packages are first copied to
a private folder and hashed while being copied. The manifest is sealed for its folder, so an attacker who
changes both the files of an entry and its manifest invalidates the entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import ArchiveError, DataError, FetchError
from rocenv.core.foreign import open_regular, parse_json
from rocenv.core.model import FileEntry
from rocenv.install.tree import Tree
from rocenv.integrity import differences
from rocenv.system.files import CHUNK_BYTES, beside, move, remove_tree, sha256_of, storage_errors
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor
    from io import BufferedReader
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.home import Home

STAGING = ".staging"
_MANIFEST = "manifest.json"
_SHORT = 12  # hash digits in temporary names; few, because some programs handle long paths badly
BLOCKS_AHEAD = 3  # usually 24 MiB each; enough for two cores, and far below the memory limit


class Section(NamedTuple):
    """A file inside a larger file, such as a member of a bundle; rocenv reads it in place."""

    path: Path
    start: int
    size_bytes: int


class DamagedPackage(FetchError):
    """Raised if a cached file no longer matches its hash; the file has been removed."""


def bundle_error(path: Path, why: str) -> DataError:
    """Return the error for a bundle that has changed since `rocenv bundle` wrote it."""
    return DataError(
        f"the bundle `{path}` is damaged: {why}",
        hints=(
            f"compare `{shell_join('sha256sum', str(path))}` with the checksum that `rocenv bundle` printed",
            "copy the bundle again, or ask its author for a new one",
        ),
        code="bundle-damaged",
    )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors that occur while reading a bundle to DataError."""
    try:
        yield
    except OSError as error:
        hint = "check the file and its disk, or copy the bundle again"
        raise DataError(f"cannot read the bundle `{path}`: {error.strerror}", hints=(hint,)) from error


def tree_of(home: Home, artifact: Artifact) -> Path:
    """Return the folder that contains an unpacked artifact's files."""
    return home.store / artifact.sha256 / "tree"


def holds(home: Home, artifact: Artifact, expected: Mapping[str, FileEntry] = MappingProxyType({})) -> bool:
    """Whether the store contains an artifact, and the `expected` files in it are undamaged."""
    try:
        _read_manifest(home, home.store / artifact.sha256)
    except (OSError, DataError):
        return False
    return not differences(tree_of(home, artifact), expected)


def manifest_of(home: Home, artifact: Artifact) -> dict[str, FileEntry]:
    """Return the files of an artifact in the store: path in its tree -> entry.

    Raises:
        DataError: The artifact is not in the store, or this home did not write its manifest.
    """
    folder = home.store / artifact.sha256
    path = folder / _MANIFEST
    try:
        plain = parse_json(_read_manifest(home, folder), str(path))
        return {name: from_plain(FileEntry, entry, str(path)) for name, entry in plain["files"].items()}
    except (OSError, DataError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{artifact.name} {artifact.version} is damaged in the store: cannot read `{path}`",
            hints=(f"remove `{path.parent}`, then run the same command again",),
        ) from error


def _read_manifest(home: Home, folder: Path) -> bytes:
    """Read a manifest; raise DataError unless this home wrote it for this folder."""
    return read_sealed(folder / _MANIFEST, home.key)


def add(
    home: Home,
    artifact: Artifact,
    package: Path | Section,
    pool: Executor,
    advance: Callable[[int], None],
    expected: Mapping[str, FileEntry] = MappingProxyType({}),
) -> None:
    """Add an artifact unless the store `holds` it; a damaged one stays until its replacement is complete.

    Args:
        home: The home that contains the store.
        artifact: The artifact that `package` must contain.
        package: The downloaded or bundled file; its hash is verified again, because it may have been cached
          for months.
        pool: Threads that decode packages, shared by all artifacts of a set.
        advance: Called with the number of bytes written.
        expected: See `holds`.

    Raises:
        ArchiveError: The package is damaged or unsafe; the message identifies it.
        DamagedPackage: The file does not match its hash, and has been removed so that it can be downloaded
          again.
        InstallerClosed: The package is an installer that cannot be unpacked.
        PrefixError: The disk is full, the store is not writable, or a folder to copy has changed.
    """
    final = home.store / artifact.sha256
    with locked(home.lock("store", artifact.sha256)), storage_errors(home.path):
        if holds(home, artifact, expected):
            return
        staging = home.store / STAGING / artifact.sha256
        work = home.store / STAGING / artifact.sha256[:_SHORT]
        remove_tree(staging)
        remove_tree(work)
        try:
            (staging / "tree").mkdir(parents=True)
            tree = Tree(staging / "tree", advance, for_windows=artifact.kind != "deb")
            _unpack(artifact, package, tree, work, pool)
            manifest = {"schema": 1, "name": artifact.name, "version": artifact.version}
            text = json.dumps({**manifest, "files": to_plain(tree.files)})
            write_sealed(staging / _MANIFEST, text.encode(), home.key)
            if final.exists():  # damaged, or without a valid manifest
                _take_out(home, final)
            move(staging, final)
        finally:
            remove_tree(work)
            remove_tree(staging)


def unpacks(artifact: Artifact) -> bool:
    """Whether the store keeps this kind of artifact; uv installs wheels from its own cache."""
    return artifact.kind not in ("wheel", "sdist")


def copies(artifact: Artifact) -> bool:
    """Whether unpacking an artifact requires temporary space for a copy of its package."""
    return unpacks(artifact) and artifact.kind not in ("deb", "folder")


def _unpack(artifact: Artifact, package: Path | Section, tree: Tree, work: Path, pool: Executor) -> None:
    """Unpack a package into a tree. `work` is created for temporary files."""
    # The readers are imported late, because most artifacts are already in the store.
    if artifact.kind == "folder":
        from rocenv.install.folder import copy_folder

        copy_folder(artifact, tree)
        return
    try:
        if artifact.kind == "deb":
            _unpack_deb(artifact, package, tree, pool)
            return
        work.mkdir(mode=0o700)
        own = work / "a"
        _copy(artifact, package, own, tree.advance)
        if artifact.kind == "installer":
            from rocenv.install.installer import unpack_installer

            unpack_installer(own, tree, work / "w")
        else:
            from rocenv.install.archive import unpack_archive

            unpack_archive(own, tree, work / "w")
    except ArchiveError as error:
        hint = f"the package came from {artifact.url}; report this to its publisher"
        message = f"{artifact.name} {artifact.version}: {error.message}"
        raise ArchiveError(message, hints=error.hints or (hint,)) from error


def _unpack_deb(artifact: Artifact, package: Path | Section, tree: Tree, pool: Executor) -> None:
    """Unpack and hash a package in one pass; if the hash is wrong, the caller discards the tree."""
    from rocenv.install.deb import data_chunks, limited, unpack_tar

    failure = None
    with _opened(artifact, package) as file:
        stream = _Hashing(file, package)
        try:
            chunks = data_chunks(stream, pool, BLOCKS_AHEAD)
            unpack_tar(limited(chunks, artifact.installed_bytes, stream.size_bytes), tree)
        except ArchiveError as error:
            failure = error
        while stream.read(CHUNK_BYTES):
            pass
    require_hash(artifact, package, stream.digest.hexdigest())
    if failure is not None:
        raise failure


def take(artifact: Artifact, section: Section, folder: Path, advance: Callable[[int], None]) -> Path:
    """Copy a file from a bundle into the download folder, unless it is already there, and return its path.

    Raises:
        DataError: The file does not match its hash.
    """
    final = folder / artifact.sha256
    if final.is_file() and final.stat().st_size == artifact.size_bytes:
        return final
    with storage_errors(folder), locked(folder / f"{artifact.sha256}.lock"):
        fresh = beside(final, "new")
        try:
            _copy(artifact, section, fresh, advance)
            move(fresh, final)
        finally:
            fresh.unlink(missing_ok=True)
    return final


def _copy(artifact: Artifact, package: Path | Section, own: Path, advance: Callable[[int], None]) -> None:
    """Copy a package that needs random access; raise DamagedPackage unless the copy matches its hash."""
    with _opened(artifact, package) as file, own.open("xb") as out:
        stream = _Hashing(file, package)
        while data := stream.read(CHUNK_BYTES):
            out.write(data)
            advance(len(data) if isinstance(package, Section) else 0)
    require_hash(artifact, package, stream.digest.hexdigest())


def _opened(artifact: Artifact, package: Path | Section) -> BufferedReader:
    """Open a package at its first byte; raise FetchError if a downloaded file is missing."""
    if isinstance(package, Section):
        with reading(package.path):
            file = open_regular(package.path)
            file.seek(package.start)
        return file
    path = package
    what = f"the downloaded file for {artifact.name} {artifact.version}"
    try:
        file = open_regular(path)
    except FileNotFoundError as error:
        raise FetchError(
            f"{what} is missing: `{path}`", hints=("run the same command again to download it",)
        ) from error
    except OSError as error:
        raise FetchError(
            f"cannot read {what}, `{path}`: {error.strerror}",
            hints=("remove it, then run the same command again to download it",),
        ) from error
    return file


class _Hashing:
    """A file that is hashed while being read sequentially; bytes appended after opening are ignored."""

    def __init__(self, file: BufferedReader, package: Path | Section) -> None:
        self.digest = hashlib.sha256()
        size = package.size_bytes if isinstance(package, Section) else os.fstat(file.fileno()).st_size
        self.size_bytes = size
        self._file = file
        self._left = self.size_bytes

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        self.digest.update(data)
        return data


def sweep(home: Home, keep: frozenset[str], *, dry_run: bool) -> list[tuple[str, int]]:
    """Remove leftovers and artifacts that no env uses; the caller must hold `home.in_use` exclusively.

    Returns:
        The removed items, or with `dry_run` the items that it would remove: (name and version, bytes).
    """
    freed = []
    for folder in sorted(home.store.glob("*")) if home.store.exists() else []:
        if folder.name in keep:
            continue
        freed.append((_title(home, folder), tree_bytes(folder)))
        if not dry_run:
            _take_out(home, folder)
    return [(title, size) for title, size in freed if size]


def _take_out(home: Home, folder: Path) -> None:
    """Remove a store folder, but rename it first, so that a partly removed one never looks complete."""
    if folder.name == STAGING:
        remove_tree(folder)
        return
    doomed = home.store / STAGING / f"{folder.name}.gone"
    doomed.parent.mkdir(exist_ok=True)
    remove_tree(doomed)
    move(folder, doomed)
    remove_tree(doomed)


def tree_bytes(folder: Path) -> int:
    """Return the total size of the files below a folder, without following links."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _title(home: Home, folder: Path) -> str:
    if folder.name == STAGING:
        return "leftovers from interrupted work"
    try:
        manifest = parse_json(_read_manifest(home, folder), str(folder))
        return f"{manifest['name']} {manifest['version']}"
    except (OSError, DataError, KeyError):
        return folder.name


def require_hash(artifact: Artifact, package: Path | Section, sha256: str = "") -> None:
    """Remove a package with the wrong hash and raise DamagedPackage, or DataError for a file in a bundle.

    `sha256` is the hash of the package, if the caller has already computed it.
    """
    if not isinstance(package, Section):
        sha256 = sha256 or sha256_of(package)
    if sha256 == artifact.sha256:
        return
    if isinstance(package, Section):
        raise bundle_error(package.path, f"`{artifact.name} {artifact.version}` in it has changed")
    package.unlink(missing_ok=True)
    raise DamagedPackage(
        f"the downloaded file for {artifact.name} {artifact.version} was damaged in the cache: its sha256 is "
        f"{sha256}, not {artifact.sha256}",
        hints=("it was removed; run the command again to download it",),
        code="hash-mismatch",
    )

"""The store: every artifact unpacked once, known by its hash, shared by all envs.

`store/SHA256/` holds `tree/`, whose files are read-only, and `manifest.json`. It is filled beside its final
place and renamed when complete, so what is there is whole. The next process that wants the same artifact, or
`gc`, removes what a killed one left.

Only bytes that were hashed are unpacked: a `.deb` is hashed while it is unpacked, every other package is
copied to where only its owner can write, and hashed on the way. The manifest is sealed for its folder, so an
entry whose files and manifest were changed together counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import ArchiveError, DataError, FetchError
from rocenv.core.foreign import open_regular, parse_json
from rocenv.core.model import FileEntry
from rocenv.install.tree import Tree
from rocenv.integrity import differences
from rocenv.system.files import CHUNK_BYTES, move, remove_tree, sha256_of, storage_errors
from rocenv.system.locks import locked
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from io import BufferedReader
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.home import Home

STAGING = ".staging"
_MANIFEST = "manifest.json"
_SHORT = 12  # of a hash, in names of folders below which other programs write: they handle long paths badly
BLOCKS_AHEAD = 3  # of usually 24 MiB each: enough for two cores, and far below the memory limit


class DamagedPackage(FetchError):
    """A fetched file is not what it was when it was fetched; it is gone now."""


def tree_of(home: Home, artifact: Artifact) -> Path:
    """The folder of an unpacked artifact's files."""
    return home.store / artifact.sha256 / "tree"


def holds(home: Home, artifact: Artifact, expected: Mapping[str, FileEntry] = MappingProxyType({})) -> bool:
    """Whether this home has put an artifact into the store, and these of its files are undamaged."""
    try:
        _read_manifest(home, home.store / artifact.sha256)
    except (OSError, DataError):
        return False
    return not differences(tree_of(home, artifact), expected)


def manifest_of(home: Home, artifact: Artifact) -> dict[str, FileEntry]:
    """List the files of an artifact in the store: path in its tree -> entry.

    Raises:
        DataError: It is not in the store, or its manifest is not as this home wrote it.
    """
    folder = home.store / artifact.sha256
    path = folder / _MANIFEST
    try:
        plain = parse_json(_read_manifest(home, folder), str(path))
        return {name: from_plain(FileEntry, entry, str(path)) for name, entry in plain["files"].items()}
    except (OSError, DataError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{artifact.name} {artifact.version} is damaged in the store: cannot read `{path}`",
            hints=(f"remove `{path.parent}` and run the same command again",),
        ) from error


def _read_manifest(home: Home, folder: Path) -> bytes:
    """Read a manifest; raise DataError unless this home wrote it for a folder of this name, a hash."""
    return read_sealed(folder / _MANIFEST, home.key)


def add(
    home: Home,
    artifact: Artifact,
    package: Path,
    pool: Executor,
    advance: Callable[[int], None],
    expected: Mapping[str, FileEntry] = MappingProxyType({}),
) -> None:
    """Put an artifact into the store, unless `holds`. A damaged one stays until the new one is complete.

    Args:
        home: The home with the store.
        artifact: What `package` must be.
        package: The downloaded file; its hash is checked again, since it may have been cached for months.
        pool: Decodes; shared by all artifacts of a set.
        advance: Called with the number of bytes written, as they are written.
        expected: See `holds`.

    Raises:
        ArchiveError: The package is damaged or unsafe; names the package.
        DamagedPackage: The file is not the one that was promised; it is removed, so that it is fetched again.
        InstallerClosed: It is an installer that can only be run.
        PrefixError: There is no room for it, the store cannot be written, or a folder has changed.
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
            if final.exists():  # damaged, or without a manifest of this home and so no artifact
                _take_out(home, final)
            move(staging, final)
        finally:
            remove_tree(work)
            remove_tree(staging)


def unpacks(artifact: Artifact) -> bool:
    """Whether the store takes artifacts of this kind; uv installs wheels from its own cache."""
    return artifact.kind not in ("wheel", "sdist")


def copies(artifact: Artifact) -> bool:
    """Whether unpacking an artifact takes the room of a copy of its package, for a while."""
    return unpacks(artifact) and artifact.kind not in ("deb", "folder")


def _unpack(artifact: Artifact, package: Path, tree: Tree, work: Path, pool: Executor) -> None:
    """Fill a tree from a package. `work`, which does not exist yet, is made for temporary files."""
    # The readers are imported late: most envs are made of what is in the store already.
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
        hint = f"the package came from {artifact.url}; report this to whoever builds it"
        message = f"{artifact.name} {artifact.version}: {error.message}"
        raise ArchiveError(message, hints=error.hints or (hint,)) from error


def _unpack_deb(artifact: Artifact, package: Path, tree: Tree, pool: Executor) -> None:
    """Unpack a package and hash it in the same pass; its tree counts for nothing unless the hash is right."""
    from rocenv.install.deb import data_chunks, limited, unpack_tar

    failure = None
    with _opened(artifact, package) as file:
        stream = _Hashing(file)
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


def _copy(artifact: Artifact, package: Path, own: Path, advance: Callable[[int], None]) -> None:
    """Copy a package whose reader goes back and forth; raise DamagedPackage unless the copy is promised."""
    with _opened(artifact, package) as file, own.open("xb") as out:
        stream = _Hashing(file)
        while data := stream.read(CHUNK_BYTES):
            out.write(data)
            advance(0)
    require_hash(artifact, package, stream.digest.hexdigest())


def _opened(artifact: Artifact, package: Path) -> BufferedReader:
    """Open a downloaded file; raise FetchError where there is none."""
    what = f"the downloaded file of {artifact.name} {artifact.version}"
    try:
        return open_regular(package)
    except FileNotFoundError as error:
        raise FetchError(
            f"{what} is gone: `{package}`", hints=("run the same command again to download it",)
        ) from error
    except OSError as error:
        raise FetchError(
            f"{what}, `{package}`, cannot be read: {error.strerror}",
            hints=("remove it, then run the same command again to download it",),
        ) from error


class _Hashing:
    """A file that is read once, forwards, and hashed on the way; what is added meanwhile is not read."""

    def __init__(self, file: BufferedReader) -> None:
        self.digest = hashlib.sha256()
        self.size_bytes = os.fstat(file.fileno()).st_size
        self._file = file
        self._left = self.size_bytes

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        self.digest.update(data)
        return data


def sweep(home: Home, keep: frozenset[str], *, dry_run: bool) -> list[tuple[str, int]]:
    """Remove the artifacts that no env needs, and leftovers; the caller holds `home.in_use` exclusively.

    Returns:
        What was removed, or with `dry_run` would be: (name and version, bytes).
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
    """Remove a folder of the store; out of its place first, so that half of it never looks whole."""
    if folder.name == STAGING:
        remove_tree(folder)
        return
    doomed = home.store / STAGING / f"{folder.name}.gone"
    doomed.parent.mkdir(exist_ok=True)
    remove_tree(doomed)
    move(folder, doomed)
    remove_tree(doomed)


def tree_bytes(folder: Path) -> int:
    """Add up the sizes of the files below a folder, links not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _title(home: Home, folder: Path) -> str:
    if folder.name == STAGING:
        return "leftovers of interrupted work"
    try:
        manifest = parse_json(_read_manifest(home, folder), str(folder))
        return f"{manifest['name']} {manifest['version']}"
    except (OSError, DataError, KeyError):
        return folder.name


def require_hash(artifact: Artifact, package: Path, sha256: str = "") -> None:
    """Remove a package whose hash is not the promised one, and raise DamagedPackage.

    `sha256` is the hash of the package, where the caller knows it already.
    """
    sha256 = sha256 or sha256_of(package)
    if sha256 == artifact.sha256:
        return
    package.unlink(missing_ok=True)
    raise DamagedPackage(
        f"the downloaded file of {artifact.name} {artifact.version} was damaged in the cache: its sha256 is "
        f"{sha256}, not {artifact.sha256}",
        hints=("it was removed; run the same command again to download it again",),
        code="hash-mismatch",
    )

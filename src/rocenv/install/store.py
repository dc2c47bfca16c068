"""The store: every artifact unpacked once, known by its hash, shared by all envs.

`store/SHA256/` holds `tree/`, whose files are read-only, and `manifest.json`. It is filled beside its final
place and renamed when complete, so what is there is whole. The next process that wants the same artifact, or
`gc`, removes what a killed one left.
"""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import ArchiveError, DataError, FetchError
from rocenv.core.foreign import load_json
from rocenv.core.model import FileEntry
from rocenv.install.tree import Tree
from rocenv.integrity import differences
from rocenv.system.files import CHUNK_BYTES, move, remove_tree, sha256_of, storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import IO

    from rocenv.core.model import Artifact
    from rocenv.home import Home

STAGING = ".staging"
_SHORT = 12  # of a hash, in names of folders below which other programs write: they handle long paths badly
BLOCKS_AHEAD = 3  # of usually 24 MiB each: enough for two cores, and far below the memory limit


class DamagedPackage(FetchError):
    """A fetched file is not what it was when it was fetched; it is gone now."""


def tree_of(home: Home, artifact: Artifact) -> Path:
    """The folder of an unpacked artifact's files."""
    return home.store / artifact.sha256 / "tree"


def holds(home: Home, artifact: Artifact, expected: Mapping[str, FileEntry] = MappingProxyType({})) -> bool:
    """Whether an artifact is in the store, and these of its files are undamaged."""
    is_there = (home.store / artifact.sha256 / "manifest.json").exists()
    return is_there and not differences(tree_of(home, artifact), expected)


def manifest_of(home: Home, artifact: Artifact) -> dict[str, FileEntry]:
    """List the files of an artifact in the store: path in its tree -> entry.

    Raises:
        DataError: It is not in the store, or its manifest is damaged.
    """
    path = home.store / artifact.sha256 / "manifest.json"
    try:
        plain = load_json(path)
        return {name: from_plain(FileEntry, entry, str(path)) for name, entry in plain["files"].items()}
    except (OSError, DataError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{artifact.name} {artifact.version} is damaged in the store: cannot read `{path}`",
            hints=(f"remove `{path.parent}` and run the same command again",),
        ) from error


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
            (staging / "manifest.json").write_text(text, encoding="utf-8")
            if final.exists():  # damaged, or without a manifest and so no artifact
                _take_out(home, final)
            move(staging, final)
        finally:
            remove_tree(work)
            remove_tree(staging)


def unpacks(artifact: Artifact) -> bool:
    """Whether the store takes artifacts of this kind; uv installs wheels from its own cache."""
    return artifact.kind not in ("wheel", "sdist")


def _unpack(artifact: Artifact, package: Path, tree: Tree, work: Path, pool: Executor) -> None:
    """Fill a tree from a package. `work` does not exist yet; unpackers may create it for temporary files."""
    # The readers are imported late: most envs are made of what is in the store already.
    if artifact.kind == "folder":
        from rocenv.install.folder import copy_folder

        copy_folder(artifact, tree)
        return
    if not package.exists():
        raise FetchError(
            f"the downloaded file of {artifact.name} {artifact.version} is gone: `{package}`",
            hints=("run the same command again to download it",),
        )
    try:
        if artifact.kind == "deb":
            _unpack_deb(artifact, package, tree, pool)
            return
        require_hash(artifact, package)
        if artifact.kind == "installer":
            from rocenv.install.installer import unpack_installer

            unpack_installer(package, tree, work)
        else:
            from rocenv.install.archive import unpack_archive

            unpack_archive(package, tree, work)
    except ArchiveError as error:
        hint = f"the package came from {artifact.url}; report this to whoever builds it"
        message = f"{artifact.name} {artifact.version}: {error.message}"
        raise ArchiveError(message, hints=error.hints or (hint,)) from error


def _unpack_deb(artifact: Artifact, package: Path, tree: Tree, pool: Executor) -> None:
    """Unpack a package and hash it in the same pass; its tree counts for nothing unless the hash is right."""
    from rocenv.install.deb import data_chunks, unpack_tar

    failure = None
    with package.open("rb") as file:
        stream = _Hashing(file)
        try:
            unpack_tar(data_chunks(stream, pool, BLOCKS_AHEAD), tree)
        except ArchiveError as error:
            failure = error
        while stream.read(CHUNK_BYTES):
            pass
    require_hash(artifact, package, stream.digest.hexdigest())
    if failure is not None:
        raise failure


class _Hashing:
    """A file that is read once, forwards, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
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
        freed.append((_title(folder), tree_bytes(folder)))
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


def _title(folder: Path) -> str:
    if folder.name == STAGING:
        return "leftovers of interrupted work"
    try:
        manifest = load_json(folder / "manifest.json")
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
    package.unlink()
    raise DamagedPackage(
        f"the downloaded file of {artifact.name} {artifact.version} was damaged in the cache: its sha256 is "
        f"{sha256}, not {artifact.sha256}",
        hints=("it was removed; run the same command again to download it again",),
        code="hash-mismatch",
    )

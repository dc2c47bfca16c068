"""Ensure that the disk has space for a lock, and that its files are downloaded, verified, and unpacked."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.errors import ArchiveError, NoSpace
from rocenv.core.progress import size_text
from rocenv.install import store
from rocenv.install.pin import note_pins, record_pin, with_pins
from rocenv.install.python_package import require_package
from rocenv.system.files import storage_errors
from rocenv.system.machine import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from rocenv.context import Context
    from rocenv.core.model import Artifact, FileEntry, Lock
    from rocenv.home import Home

# Extra space for records, indexes, and filesystem overhead.
_MARGIN_BYTES = 64 << 20
_TRIES = 3  # a cached file may be damaged, but repeated damage suggests a failing disk


def require_room(lock: Lock, home: Home, bundled: Container[str] = ()) -> None:
    """Raise NoSpace before any download unless the disk has enough space; see `bytes_to_come`."""
    needed = sum(bytes_to_come(lock, home, bundled))
    free = free_bytes(home.path)
    if needed and free < needed + _MARGIN_BYTES:
        raise NoSpace(
            f"the set needs {size_text(needed)} of disk space in `{home.path}`, "
            f"but only {size_text(free)} is free",
            str(home.path),
            needed_bytes=needed + _MARGIN_BYTES,
            free_bytes=free,
            keep=frozenset(artifact.sha256 for artifact in lock.artifacts),
        )


@contextlib.contextmanager
def _full_disk_explained(lock: Lock, context: Context) -> Iterator[None]:
    """If the disk fills up, raise an error that reports how much space the rest of the lock needs."""
    try:
        with storage_errors(context.home.path):
            yield
    except NoSpace:
        # Compare without the margin, because the disk may have enough space but no free inodes.
        if free_bytes(context.home.path) < sum(bytes_to_come(lock, context.home, context.bundled)):
            require_room(lock, context.home, context.bundled)
        raise


def bytes_to_come(lock: Lock, home: Home, bundled: Container[str] = ()) -> tuple[int, int]:
    """Return how many of a lock's bytes still have to be downloaded, and how many have to be unpacked.

    `bundled` contains the hashes of the files in a bundle.
    """
    download = unpacked = 0
    for artifact in lock.artifacts:
        if store.holds(home, artifact):
            continue
        cached = artifact.sha256 and (home.artifacts / artifact.sha256).exists()
        here = artifact.kind == "folder" or cached or artifact.sha256 in bundled
        download += 0 if here else artifact.size_bytes
        # The installed size of a wheel is unknown; three times its file size is a high estimate.
        known = artifact.installed_bytes if store.unpacks(artifact) else 0
        is_taken = artifact.sha256 in bundled and not (cached or store.unpacks(artifact))
        copy = artifact.size_bytes if store.copies(artifact) or is_taken else 0
        unpacked += copy + (known or 3 * artifact.size_bytes)
    return download, unpacked


def ensure_available(
    lock: Lock, context: Context, expected: Mapping[str, Mapping[str, FileEntry]] = MappingProxyType({})
) -> tuple[Lock, dict[str, Path]]:
    """Ensure that all of a lock's packages are in the store, and all its wheels are in the cache.

    Files in the context's bundle are not downloaded. Damaged cached packages are downloaded again. `expected`
    maps the hash of a package to files that must be undamaged in the store; if one is damaged, the package is
    unpacked again.

    Returns:
        The lock with the hash of every file, and the wheels: sha256 -> file.

    Raises:
        FetchError: A file cannot be downloaded, or does not match its hash.
        ArchiveError: A package is damaged or unsafe.
        InstallerClosed: An installer can only be run, not unpacked.
        PrefixError: There is not enough space, or a folder to copy is missing or has changed.
    """
    for attempt in count(1):
        lock = with_pins(lock, context)
        unpinned = [part for part in lock.artifacts if not part.sha256]
        with context.progress.wait("Checking the store"):
            missing = [
                part
                for part in lock.artifacts
                if not store.holds(context.home, part, expected.get(part.sha256, {}))
            ]
        try:
            with _full_disk_explained(lock, context):
                wheels = _download_and_unpack(missing, context, expected) if missing else {}
            break
        except store.DamagedPackage as error:
            if attempt == _TRIES:
                raise
            context.note(f"{error.message}; downloading it again")
    note_pins(unpinned, context)
    return with_pins(lock, context), wheels


def _download_and_unpack(
    artifacts: Sequence[Artifact], context: Context, expected: Mapping[str, Mapping[str, FileEntry]]
) -> dict[str, Path]:
    """Unpack packages into the store while others are being downloaded, and return the wheels."""
    # Largest first, because the largest package determines the total time.
    files = sorted((each for each in artifacts if each.kind != "folder"), key=lambda each: -each.size_bytes)
    bundled = [each for each in files if each.sha256 in context.bundled]
    remote = [each for each in files if each.sha256 not in context.bundled]
    folders: list[tuple[Artifact, Path | store.Section]]
    folders = [(each, Path(each.path)) for each in artifacts if each.kind == "folder"]
    wheels: dict[str, Path] = {}
    unpacked_bytes = sum(each.installed_bytes for each in artifacts if store.unpacks(each))
    cores = os.cpu_count() or 1
    stop = threading.Event()

    def advance(size_bytes: int) -> None:
        if stop.is_set():
            raise _Stopped
        stage.advance(size_bytes)

    with (
        ThreadPoolExecutor(min(cores, store.BLOCKS_AHEAD), thread_name_prefix="decode") as decoders,
        ThreadPoolExecutor(min(cores, 2), thread_name_prefix="unpack") as unpackers,
        context.progress.stage("Unpacking", unpacked_bytes) as stage,
    ):
        waiting: list[Future[None]] = []
        fetched = download(remote, context)
        try:
            for artifact, path in chain(folders, _taken(bundled, context), fetched):
                for future in waiting:
                    if future.done():
                        future.result()  # raises if unpacking failed, which stops the downloads
                if isinstance(path, Path) and not store.unpacks(artifact):
                    wheels[path.name] = path
                wanted = expected.get(artifact.sha256, {})
                waiting.append(unpackers.submit(_keep, artifact, path, context, decoders, advance, wanted))
            for future in as_completed(waiting):
                future.result()
        finally:
            stop.set()
            fetched.close()
            for future in waiting:
                future.cancel()
    return wheels


def _taken(
    artifacts: Sequence[Artifact], context: Context
) -> Iterator[tuple[Artifact, Path | store.Section]]:
    """Yield a bundle's files: packages in place, and copies of wheels, because uv needs files."""
    wheels = [each for each in artifacts if not store.unpacks(each)]
    for each in artifacts:
        if store.unpacks(each):
            yield each, context.bundled[each.sha256]
    with context.progress.stage("Reading the bundle", sum(each.size_bytes for each in wheels)) as stage:
        with storage_errors(context.home.artifacts):
            context.home.artifacts.mkdir(parents=True, exist_ok=True)
        for each in wheels:
            yield each, store.take(each, context.bundled[each.sha256], context.home.artifacts, stage.advance)


def _keep(
    artifact: Artifact,
    path: Path | store.Section,
    context: Context,
    decoders: Executor,
    advance: Callable[[int], None],
    expected: Mapping[str, FileEntry],
) -> None:
    """Unpack a package, and record its hash if its publisher does not provide one."""
    if isinstance(path, store.Section):
        store.add(context.home, artifact, path, decoders, advance, expected)
        return
    found = artifact if artifact.sha256 else structs.replace(artifact, sha256=path.name)
    try:
        if store.unpacks(found):
            store.add(context.home, found, path, decoders, advance, expected)
        elif not artifact.sha256:
            require_package(artifact, path)
    except ArchiveError:
        if not artifact.sha256:
            path.unlink(missing_ok=True)  # the server may have sent an error page instead
        raise
    if not artifact.sha256:
        record_pin(found, context)


def download(artifacts: Sequence[Artifact], context: Context) -> Generator[tuple[Artifact, Path], None, None]:
    """Download artifacts, and yield each with its file in the cache; see `fetch_all`."""
    from rocenv.net.download import fetch_all  # imported late: most envs use packages already in the store
    from rocenv.sources.credentials import with_logins

    # Use the same proxy as for the index, because the network may be reachable only through apt's proxy.
    network = with_logins(context.network)
    network = replace(network, proxy=network.proxy or _apt_proxy(artifacts))
    return fetch_all(artifacts, context.home.artifacts, network, context.progress)


def _apt_proxy(artifacts: Sequence[Artifact]) -> str:
    from rocenv.sources.apt.mirrors import apt_settings

    return apt_settings().http_proxy if any(each.kind == "deb" for each in artifacts) else ""


class _Stopped(Exception):
    """Raised to stop unpacking when the caller no longer needs the result."""

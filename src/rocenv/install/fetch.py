"""Ensure disk space, packages and wheels for a lock: fetched, checked, and unpacked into the store."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.core.progress import size_text
from rocenv.install import store
from rocenv.system.machine import free_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock
    from rocenv.home import Home

# Room for records, indices and the file system's own needs, beside the files themselves.
_MARGIN_BYTES = 64 << 20
_TRIES = 3  # with a cache that holds damaged files; more than a few mean a failing disk


def require_room(lock: Lock, home: Home) -> None:
    """Raise PrefixError unless the disk has room for what is missing, before anything is fetched."""
    # Some of a plan have no hash yet.
    artifacts = {each.sha256 or each.url: each for part in lock.components for each in part.artifacts}
    needed = sum(_bytes_to_come(artifact, home) for artifact in artifacts.values())
    free = free_bytes(home.path)
    if needed and free < needed + _MARGIN_BYTES:
        raise PrefixError(
            f"the set needs {size_text(needed)} of disk below `{home.path}`, and {size_text(free)} are free",
            hints=("`rocenv gc` shows what no env needs", "or set ROCENV_HOME to a folder on a larger disk"),
            code="no-space",
        )


def _bytes_to_come(artifact: Artifact, home: Home) -> int:
    if store.holds(home, artifact):
        return 0
    here = bool(artifact.sha256) and (home.artifacts / artifact.sha256).exists()
    download = 0 if here else artifact.size_bytes
    # A wheel's installed size is not known before it is unpacked; three times its own is a high guess.
    known = artifact.installed_bytes if store.unpacks(artifact) else 0
    return download + (known or 3 * artifact.size_bytes)


def ensure_available(lock: Lock, context: Context) -> dict[str, Path]:
    """Ensure that every package of a lock is in the store and every wheel in the cache.

    A package that was damaged in the cache is fetched again.

    Returns:
        The wheels: sha256 -> file.
    """
    for attempt in range(_TRIES):
        missing = [part for part in lock.artifacts if not store.holds(context.home, part)]
        for part in [part for part in missing if part.kind == "folder"]:
            restore_folder(part, context.home)
            missing.remove(part)
        if not missing:
            break
        try:
            return download_and_unpack(missing, context)
        except store.DamagedPackage as error:
            if attempt + 1 == _TRIES:
                raise
            context.progress.note(f"{error.message}; downloading it again")
    return {}


def restore_folder(artifact: Artifact, home: Home) -> None:
    """Import a folder again; raise PrefixError where it is gone or has changed since."""
    from rocenv.install.import_folder import import_again  # late: hardly ever needed

    if not import_again(home, artifact):
        raise PrefixError(
            f"the store has lost the files of {artifact.name} {artifact.version}, which were imported from "
            f"`{artifact.path}`",
            hints=("make the env again; `rocenv create` imports the installed one, if it is still there",),
            code="adopted-gone",
        )


def download_and_unpack(artifacts: list[Artifact], context: Context) -> dict[str, Path]:
    """Fetch artifacts, and unpack packages into the store while others are still being fetched.

    Returns:
        The wheels: sha256 -> file.

    Raises:
        DamagedPackage: One was damaged in the cache; it was removed from there.
        FetchError: One cannot be fetched, or is not the one that was promised.
        ArchiveError: A package is damaged or unsafe.
        PrefixError: There is no room.
    """
    from rocenv.net.download import fetch_all  # late: most envs are made of what is in the store already

    wheels: dict[str, Path] = {}
    unpacked_bytes = sum(part.installed_bytes for part in artifacts if store.unpacks(part))
    # The largest first: it decides when the work ends.
    artifacts.sort(key=lambda part: -part.size_bytes)
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
        # As the index came: apt's settings alone may know the way out.
        network = replace(context.network, proxy=context.network.proxy or _apt_proxy(artifacts))
        fetched = fetch_all(artifacts, context.home.artifacts, network, context.progress)
        try:
            for artifact, path in fetched:
                for future in waiting:
                    if future.done():
                        future.result()  # nothing more is fetched once one cannot be unpacked
                if store.unpacks(artifact):
                    waiting.append(
                        unpackers.submit(store.add, context.home, artifact, path, decoders, advance)
                    )
                else:
                    wheels[artifact.sha256] = path
            for future in as_completed(waiting):
                future.result()
        finally:
            stop.set()
            fetched.close()
            for future in waiting:
                future.cancel()
    return wheels


def _apt_proxy(artifacts: list[Artifact]) -> str:
    from rocenv.sources.apt.mirrors import apt_settings

    return apt_settings().http_proxy if any(each.kind == "deb" for each in artifacts) else ""


class _Stopped(Exception):
    """The caller is not interested any more."""

"""Fetch what a lock names and unpack it, both at once; a module of its own since most envs need neither."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.install import store
from rocenv.net.download import fetch_all
from rocenv.sources.apt.mirrors import apt_settings

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Artifact


def gather(artifacts: list[Artifact], context: Context) -> dict[str, Path]:
    """Fetch the artifacts, unpack packages into the store as they arrive, and return the wheels by hash.

    Raises:
        DamagedPackage: One was damaged in the cache; it was removed from there.
        FetchError: One cannot be had, or is not the one that was promised.
        ArchiveError: A package is damaged or unsafe.
        PrefixError: There is no room.
    """
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
    return apt_settings().http_proxy if any(each.kind == "deb" for each in artifacts) else ""


class _Stopped(Exception):
    """The caller is not interested any more."""

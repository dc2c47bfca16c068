"""From a plan to a lock: give every artifact a hash and a size before anything of a prefix is touched.

Nobody publishes hashes of most files of a Windows set. The first fetch of such a file on this machine records
its hash, by address, in `pins.json`; every later fetch has to match. An installed HIP SDK replaces AMD's
installer: its files are imported into the store.
"""

from __future__ import annotations

import datetime
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from rocenv.core.errors import ArchiveError, FetchError, PrefixError, RocenvError
from rocenv.install import store
from rocenv.install.fetch import require_room
from rocenv.install.import_folder import import_folder
from rocenv.net.download import fetch_all
from rocenv.net.errors import shown
from rocenv.system.files import write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Component, Lock
    from rocenv.home import Home
    from rocenv.host.hip_sdk import InstalledSdk


_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


def pinned(
    lock: Lock, context: Context, installed: Sequence[InstalledSdk] = (), *, closed: bool = False
) -> Lock:
    """Give every artifact of a plan a hash; the notes of the returned lock say what was done for it.

    A hash is recorded only after unpacking, so never that of an error page in place of an archive. The caller
    holds `home.in_use`.

    Args:
        lock: A plan, or a lock of another machine.
        context: Fetches.
        installed: HIP SDKs of this machine. One replaces an installer that no lock has named by its hash.
        closed: The installer cannot be unpacked, so an installed SDK replaces it in any case.

    Raises:
        FetchError: A file cannot be fetched, or is not what it was when it was first fetched.
        ArchiveError: A file is not what it should be.
        InstallerClosed: An installer can only be run.
        PrefixError: There is no room.
    """
    notes: list[str] = []
    parts = []
    for part in lock.components:
        if part.artifacts and part.artifacts[0].kind in ("installer", "folder"):
            part = _with_sdk(part, context, installed, notes, closed=closed)
        parts.append(replace(part, artifacts=tuple(_sized(each, context) for each in part.artifacts)))
    sized = replace(lock, components=tuple(parts))
    require_room(sized, context.home)
    parts = [
        replace(part, artifacts=tuple(_hashed(each, context, notes) for each in part.artifacts))
        for part in sized.components
    ]
    return replace(lock, components=tuple(parts), notes=(*lock.notes, *notes))


def _with_sdk(
    part: Component, context: Context, installed: Sequence[InstalledSdk], notes: list[str], *, closed: bool
) -> Component:
    """Replace the installer by an installed SDK, where one fits."""
    artifact = part.artifacts[0]
    if store.holds(context.home, artifact) or (
        artifact.kind == "installer" and artifact.sha256 and not closed
    ):
        return part
    for each in installed:
        taken = _imported(each, part, context, notes)
        if taken is None:
            continue
        if artifact.sha256 and taken.sha256 != artifact.sha256:
            notes.append(
                f"the HIP SDK at `{each.folder}` is not the one that the lock was made with, file by file"
            )
            if not closed:
                continue
        return replace(part, artifacts=(replace(taken, url=artifact.url),))
    if artifact.kind == "folder":
        # Imported on another machine: here it comes from AMD.
        name = artifact.url.rpartition("/")[2]
        own = replace(
            artifact, kind="installer", name=name, sha256="", size_bytes=0, path="", installed_bytes=0
        )
        return replace(part, artifacts=(own,))
    return part


def _imported(each: InstalledSdk, part: Component, context: Context, notes: list[str]) -> Artifact | None:
    """Import an installed SDK; None where it is another release or cannot be read."""
    if each.row is not None and each.row.version != part.version:
        return None
    if each.row is None or each.why_not:
        notes.append(f"the HIP SDK at `{each.folder}` is not used: {each.why_not}")
        return None
    try:
        with context.progress.stage("Copying the HIP SDK", 0) as stage:
            taken = import_folder(
                context.home, each.folder, name="HIP-SDK", version=part.version, advance=stage.advance
            )
    except PrefixError as error:
        if error.code != "adopt-failed":
            raise
        notes.append(f"the HIP SDK at `{each.folder}` is not used: {error.message}")
        return None
    notes.append(
        f"the HIP SDK at `{each.folder}` ({each.found_by}) was copied into the store, and is taken for "
        f"{part.version} by the names of its files; nothing there is changed"
    )
    return taken


def _sized(artifact: Artifact, context: Context) -> Artifact:
    """Find out an artifact's size, and its hash where a first fetch has recorded one."""
    if artifact.sha256 and (artifact.size_bytes or store.holds(context.home, artifact)):
        return artifact
    pin = read_pins(context.home).get(artifact.url)
    if pin and artifact.sha256 in ("", pin["sha256"]):
        return replace(artifact, sha256=pin["sha256"], size_bytes=pin["size_bytes"])
    if not artifact.sha256:
        _require_trusted_way(artifact, context)
    return replace(artifact, size_bytes=context.network.size_of(artifact.url))


def _require_trusted_way(artifact: Artifact, context: Context) -> None:
    """Refuse to fetch a file without a known hash unencrypted: anybody on the way could change it."""
    for url in context.network.require_candidates(artifact.url):
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _THIS_MACHINE:
            raise FetchError(
                f"nobody publishes a hash of {artifact.name}, so it is not fetched from `{shown(url)}`, "
                "which is not encrypted",
                hints=("set a mirror that begins with https://, or none for this address",),
                code="forbidden",
            )


def _hashed(artifact: Artifact, context: Context, notes: list[str]) -> Artifact:
    """Fetch, unpack and record an artifact whose hash is unknown."""
    if artifact.sha256:
        return artifact
    [(_, path)] = fetch_all([artifact], context.home.artifacts, context.network, context.progress)
    found = replace(artifact, sha256=path.name)
    try:
        with (
            ThreadPoolExecutor(store.BLOCKS_AHEAD) as pool,
            context.progress.stage("Unpacking", 0) as stage,
        ):
            store.add(context.home, found, path, pool, stage.advance)
    except ArchiveError:
        path.unlink(missing_ok=True)
        raise
    _record(found, context.home)
    mirrored = " (by way of your mirrors)" if len(context.network.candidates(artifact.url)) > 1 else ""
    notes.append(
        f"nobody publishes a hash of {artifact.name}; that of this first fetch{mirrored} is recorded, and "
        f"every later one has to match: sha256 {found.sha256}"
    )
    return found


def read_pins(home: Home) -> dict[str, Any]:
    """The record of first fetches: address -> sha256, size_bytes, when.

    Raises:
        RocenvError: The file is damaged; to ignore a pin would defeat it.
    """
    try:
        pins: dict[str, Any] = json.loads(home.pins.read_bytes())["pins"]
        for url, pin in pins.items():
            if not re.fullmatch("[0-9a-f]{64}", pin["sha256"]) or int(pin["size_bytes"]) < 1:
                raise ValueError(f"the one of `{url}` is no hash and size")
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RocenvError(
            f"`{home.pins}`, the hashes of first fetches, is damaged: {error}",
            hints=("repair it, or remove the damaged entries: the next download records them again",),
            code="data-invalid",
        ) from error
    return pins


def why_pinned(artifact: Artifact, home: Home) -> str:
    """Explain what to do where a file differs from its first fetch; "" where none is recorded."""
    pin = read_pins(home).get(artifact.url)
    if not pin or pin["sha256"] != artifact.sha256:
        return ""
    return (
        f"it was first fetched on {str(pin.get('when', ''))[:10]}; if its makers have replaced it since, and "
        f"you trust that, remove its address from `{home.pins}`"
    )


def _record(artifact: Artifact, home: Home) -> None:
    """Record the hash of a first fetch, unless another process was first."""
    with locked(home.lock("pins", "all")):
        pins = read_pins(home)
        earlier = pins.get(artifact.url)
        if earlier and earlier["sha256"] != artifact.sha256:
            raise FetchError(
                f"`{artifact.url}` gave another file a moment ago, with sha256 {earlier['sha256']}",
                hints=("a proxy or mirror may have changed it: use another one, or examine the file",),
                code="hash-mismatch",
            )
        when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        pins[artifact.url] = {"sha256": artifact.sha256, "size_bytes": artifact.size_bytes, "when": when}
        write_atomic(home.pins, json.dumps({"schema": 1, "pins": pins}, indent=1).encode())

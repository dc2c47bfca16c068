"""Complete a plan: add hashes that are not published, and use an installed HIP SDK instead of the installer.

The first download of a file without a published hash records its hash in `pins.json`, keyed by URL; later
downloads must match it.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import DataError, FetchError, PrefixError, RocenvError
from rocenv.core.foreign import load_json
from rocenv.core.logins import shown
from rocenv.core.versions import joined
from rocenv.install import store
from rocenv.install.folder import folder_artifact
from rocenv.sources.encryption import require_encrypted
from rocenv.system.files import write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock
    from rocenv.home import Home
    from rocenv.host.hip_sdk import InstalledSdk


def with_pins(lock: Lock, context: Context) -> Lock:
    """Add recorded hashes and missing sizes to a lock.

    Raises:
        FetchError: A server does not report the size of a file, or a first download would not be encrypted.
    """
    pins = read_pins(context.home)
    for each in lock.artifacts:
        _require_pinned(each, pins, context.home)
    if all(_is_known(each, context.home) for each in lock.artifacts):
        return lock
    parts = [
        replace(part, artifacts=tuple(_pinned(each, pins, context) for each in part.artifacts))
        for part in lock.components
    ]
    return replace(lock, components=tuple(parts))


def _require_pinned(artifact: Artifact, pins: dict[str, Any], home: Home) -> None:
    """Reject a wheel whose hash in the index has changed since the first download."""
    pin = pins.get(artifact.url) if artifact.kind in ("wheel", "sdist") else None
    if pin and artifact.sha256 not in ("", pin["sha256"]):
        raise FetchError(
            f"`{shown(artifact.url)}` now has the sha256 {artifact.sha256} in its index, but its first "
            f"download had {pin['sha256']}",
            hints=(
                "the file was replaced, possibly maliciously: try again later, or ask its publisher",
                f"if you trust the new file, remove its entry from `{home.pins}`",
            ),
            code="hash-mismatch",
        )


def _is_known(artifact: Artifact, home: Home) -> bool:
    return bool(artifact.sha256) and (artifact.size_bytes > 0 or store.holds(home, artifact))


def _pinned(artifact: Artifact, pins: dict[str, Any], context: Context) -> Artifact:
    if _is_known(artifact, context.home):
        return artifact
    pin = pins.get(artifact.url)
    if pin and artifact.sha256 in ("", pin["sha256"]):
        return replace(artifact, sha256=pin["sha256"], size_bytes=pin["size_bytes"])
    if not artifact.sha256:
        _require_trusted_way(artifact, context)
    return replace(artifact, size_bytes=artifact.size_bytes or _size(artifact, context))


def _size(artifact: Artifact, context: Context) -> int:
    downloaded = context.home.artifacts / artifact.sha256
    if artifact.sha256 and downloaded.is_file():
        return downloaded.stat().st_size
    return context.network.size_of(artifact.url)


def _require_trusted_way(artifact: Artifact, context: Context) -> None:
    """Reject an unencrypted download of a file with an unknown hash, because others could change it."""
    urls = context.network.require_candidates(artifact.url)
    require_encrypted(urls, os.environ, f"`{artifact.name}` (no hash is known)")


def record_pin(artifact: Artifact, context: Context) -> None:
    """Record the hash of a first download, unless another process has already recorded it.

    Raises:
        FetchError: The other process downloaded a different file.
    """
    home = context.home
    with locked(home.lock("pins", "all")):
        pins = read_pins(home)
        earlier = pins.get(artifact.url)
        if earlier and earlier["sha256"] != artifact.sha256:
            raise FetchError(
                f"`{artifact.url}` served a different file moments ago, with the sha256 {earlier['sha256']}",
                hints=("a proxy or mirror may have changed it: use a different one, or inspect the file",),
                code="hash-mismatch",
            )
        when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        pins[artifact.url] = {"sha256": artifact.sha256, "size_bytes": artifact.size_bytes, "when": when}
        write_atomic(home.pins, json.dumps({"schema": 1, "pins": pins}, indent=1).encode())


def note_pins(artifacts: Sequence[Artifact], context: Context) -> None:
    """Print the files whose hashes were recorded at the first download."""
    if artifacts:
        mirrored = any(len(context.network.candidates(each.url)) > 1 for each in artifacts)
        context.note(
            f"recorded the sha256 of the first download of {joined([each.name for each in artifacts], 3)}"
            f"{' (through your mirrors)' if mirrored else ''}; later downloads must match it"
        )


def read_pins(home: Home) -> dict[str, Any]:
    """Read the record of first downloads: URL -> sha256, size_bytes, when.

    Raises:
        RocenvError: The file is damaged; ignoring a pin would defeat its purpose.
    """
    try:
        pins: dict[str, Any] = load_json(home.pins)["pins"]
        for url, pin in pins.items():
            if not re.fullmatch("[0-9a-f]{64}", pin["sha256"]) or int(pin["size_bytes"]) < 1:
                raise ValueError(f"the entry for `{url}` has no valid hash and size")
    except FileNotFoundError:
        return {}
    except (OSError, DataError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RocenvError(
            f"`{home.pins}`, the record of first downloads, is damaged: {error}",
            hints=("fix it, or remove the damaged entries; the next download records them again",),
            code="data-invalid",
        ) from error
    return pins


def why_pinned(artifact: Artifact, home: Home) -> str:
    """Return advice about a file that differs from its first download, or "" if none is recorded."""
    pin = read_pins(home).get(artifact.url)
    if not pin or artifact.sha256 not in ("", pin["sha256"]):
        return ""
    return (
        f"it was first downloaded on {str(pin.get('when', ''))[:10]}; if its publisher has replaced it, "
        f"and you trust the new file, remove its entry from `{home.pins}`"
    )


# ---------------------------------------------------------------- an installed HIP SDK


def with_installed_sdk(
    lock: Lock, context: Context, installed: Sequence[InstalledSdk], *, closed: bool = False
) -> Lock:
    """Use a HIP SDK that is installed on this machine instead of AMD's installer, and report it.

    Args:
        lock: A plan, or a lock from another machine. If its SDK is a copy of an installed SDK that this
          machine lacks, the SDK is downloaded from AMD.
        context: The store, and the progress display that reports the change.
        installed: HIP SDKs on this machine. One of them replaces an installer whose hash is not in the lock.
        closed: Whether an installed SDK always replaces the installer, because rocenv cannot unpack the
            installer.
    """
    parts = []
    for part in lock.components:
        if part.artifacts and part.artifacts[0].kind in ("installer", "folder"):
            sdk = _sdk(part.artifacts[0], part.version, context, installed, closed=closed)
            part = replace(part, artifacts=(sdk,))
        parts.append(part)
    return replace(lock, components=tuple(parts))


def _sdk(
    wanted: Artifact, version: str, context: Context, installed: Sequence[InstalledSdk], *, closed: bool
) -> Artifact:
    is_named = wanted.kind == "installer" and wanted.sha256 and not closed
    if is_named or store.holds(context.home, wanted):
        return wanted
    for each in installed:
        found = _described(each, wanted.url, version, context)
        if found is None:
            continue
        if wanted.sha256 not in ("", found.sha256):
            context.note(f"the HIP SDK at `{each.folder}` differs from the one in the lock")
            if not closed:
                continue
        context.note(
            f"copying the HIP SDK at `{each.folder}` ({each.found_by}) into the store; its file names "
            f"identify it as {version}. The original stays unchanged"
        )
        return found
    if wanted.kind == "installer":
        return wanted
    name = wanted.url.rpartition("/")[2]
    return replace(wanted, kind="installer", name=name, sha256="", size_bytes=0, path="", installed_bytes=0)


def _described(each: InstalledSdk, url: str, version: str, context: Context) -> Artifact | None:
    """Describe an installed SDK, or return None if it is a different release, incomplete, or unreadable."""
    if each.row is not None and each.row.version != version:
        return None
    why_not = each.why_not
    if each.row is not None and not why_not:
        try:
            with context.progress.stage("Reading the installed HIP SDK"):
                return folder_artifact(each.folder, name="HIP-SDK", version=version, url=url)
        except PrefixError as error:
            why_not = error.message
    context.note(f"not using the HIP SDK at `{each.folder}`: {why_not}")
    return None

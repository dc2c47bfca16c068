"""From a plan to a lock: every artifact with a hash and a size, before anything of a prefix is touched.

Of most that a Windows set consists of nobody publishes a hash. The first fetch of such a file on this machine
records it, by its address, in `pins.json`; every later one has to match, and so has every fetch that a lock
with it leads to. An installed HIP SDK stands for AMD's installer: its files are copied into the store.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.errors import FetchError, RocenvError
from rocenv.install import store
from rocenv.install.adopt import adopt
from rocenv.install.fetch import fetch_all
from rocenv.system.files import write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rocenv.home import Home
    from rocenv.host.hip_sdk import InstalledSdk
    from rocenv.install.provide import Workshop
    from rocenv.model import Artifact, Component, Lock


def pinned(lock: Lock, work: Workshop, installed: Sequence[InstalledSdk] = ()) -> Lock:
    """Return a lock whose every artifact can be told by its hash; what was done for it is added to its notes.

    Args:
        lock: A plan, or a lock of another machine: an SDK that was taken over there is looked for here.
        work: Fetches.
        installed: HIP SDKs of this machine.

    Raises:
        FetchError: A file cannot be had, or is not what it was when it was first fetched.
        PrefixError: A file of an installed SDK cannot be read, or there is no room.
    """
    notes: list[str] = []
    parts = []
    for part in lock.components:
        if part.kind == "rocm" and any(each.kind in ("installer", "folder") for each in part.artifacts):
            part = _with_sdk(part, work, installed, notes)
        artifacts = tuple(_pinned(each, work, notes) for each in part.artifacts)
        parts.append(replace(part, artifacts=artifacts))
    return replace(lock, components=tuple(parts), notes=(*lock.notes, *notes))


def _with_sdk(
    part: Component, work: Workshop, installed: Sequence[InstalledSdk], notes: list[str]
) -> Component:
    artifact = part.artifacts[0]
    if artifact.kind == "folder" and store.holds(work.home, artifact):
        return part
    for each in installed:
        if each.row is None or each.row.version != part.version:
            continue
        if each.why_not:
            notes.append(f"the HIP SDK at `{each.folder}` is not used: {each.why_not}")
            continue
        with work.progress.stage("Copying the HIP SDK", 0) as stage:
            taken = adopt(work.home, each.folder, name="HIP-SDK", version=part.version, advance=stage.advance)
        notes.append(
            f"the HIP SDK {part.version} at `{each.folder}` ({each.found_by}) was copied into the store; "
            "nothing there is changed"
        )
        return replace(part, artifacts=(replace(taken, url=artifact.url),))
    if artifact.kind == "folder":
        # Taken over on another machine: here it comes from AMD.
        name = artifact.url.rpartition("/")[2]
        own = replace(
            artifact, kind="installer", name=name, sha256="", size_bytes=0, path="", installed_bytes=0
        )
        return replace(part, artifacts=(own,))
    return part


def _pinned(artifact: Artifact, work: Workshop, notes: list[str]) -> Artifact:
    if artifact.sha256 and artifact.size_bytes:
        return artifact
    pins = read_pins(work.home)
    known = pins.get(artifact.url)
    sha256 = artifact.sha256 or (known or {}).get("sha256", "")
    if known and sha256 == known["sha256"]:
        return replace(artifact, sha256=sha256, size_bytes=known["size_bytes"])
    sized = replace(artifact, sha256=sha256, size_bytes=work.network.size_of(artifact.url))
    if sha256:
        return sized
    [(_, path)] = fetch_all([sized], work.home.artifacts, work.network, work.progress)
    found = replace(sized, sha256=path.name)
    _record(found, work.home)
    notes.append(
        f"nobody publishes a hash of {artifact.name}; that of this first fetch is recorded, and every later "
        f"one has to match: sha256 {found.sha256}"
    )
    return found


def read_pins(home: Home) -> dict[str, Any]:
    """Return what was recorded of first fetches: address -> sha256, size_bytes, when."""
    try:
        plain = json.loads(home.pins.read_bytes())
        return {
            url: pin
            for url, pin in plain["pins"].items()
            if len(pin["sha256"]) == 64 and pin["size_bytes"] > 0
        }
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RocenvError(
            f"`{home.pins}`, the hashes of first fetches, is damaged: {error}",
            hints=(f"remove it: what is fetched next is recorded anew: `{home.pins}`",),
            code="data-invalid",
        ) from error


def _record(artifact: Artifact, home: Home) -> None:
    """Keep the hash of a first fetch, unless another process was first."""
    with locked(home.lock("pins", "all")):
        pins = read_pins(home)
        earlier = pins.get(artifact.url)
        if earlier and earlier["sha256"] != artifact.sha256:
            raise FetchError(
                f"`{artifact.url}` gave another file a moment ago, with sha256 {earlier['sha256']}",
                hints=("a proxy or mirror may be at fault: fetch it from elsewhere, or look into the file",),
                code="hash-mismatch",
            )
        when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        pins[artifact.url] = {"sha256": artifact.sha256, "size_bytes": artifact.size_bytes, "when": when}
        write_atomic(home.pins, json.dumps({"schema": 1, "pins": pins}, indent=1).encode())

"""Whether a library pack fits the SDK that it is laid over: what its files say, not what it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError
from rocenv.core.versions import series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.model import Component, Lock
    from rocenv.home import Home
    from rocenv.install.origins import Origin


def require_fitting_packs(lock: Lock, origins: Mapping[str, Origin], home: Home) -> tuple[str, ...]:
    """Return notes on what could not be checked of the library packs of a set.

    Raises:
        ArchiveError: A pack has a library of another release than the SDK's own, or no kernels for the set's
            target.
    """
    notes: list[str] = []
    for pack in lock.components:
        if not pack.places:
            continue
        own = {path: each for path, each in origins.items() if each.artifact in pack.artifacts}
        _require_kernels(pack, own, lock.code_target)
        notes += _require_release(pack, own, lock, home)
    return tuple(notes)


def _require_kernels(pack: Component, own: Mapping[str, Origin], target: str) -> None:
    kernels = [path for path in own if "/library/" in path]
    if kernels and not any(target in path.rpartition("/")[2] for path in kernels):
        raise ArchiveError(
            f"the library pack of {pack.channel} has no kernels for {target}, among {len(kernels)} files",
            hints=(f"see which packs are known: `rocenv matrix --target {target} --platform windows`",),
        )


def _require_release(pack: Component, own: Mapping[str, Origin], lock: Lock, home: Home) -> list[str]:
    """Compare each library of a pack with the SDK's own of that name."""
    from rocenv.install import store
    from rocenv.system import pe

    sdk = lock.part("rocm")
    if sdk is None:
        raise ArchiveError("the set has a library pack, and no HIP SDK that it could be laid over")
    notes = []
    for path, origin in own.items():
        if not path.lower().endswith(".dll"):
            continue
        inner = path.removeprefix(f"{sdk.into}/").lower()
        theirs = next(
            (
                store.tree_of(home, each) / held
                for each in sdk.artifacts
                for held in store.manifest_of(home, each)
                if held.lower() == inner
            ),
            None,
        )
        name = path.rpartition("/")[2]
        said = series(pe.read(origin.path(home)).file_version)
        expected = series(pe.read(theirs).file_version) if theirs else ""
        if said and expected and said != expected:
            raise ArchiveError(
                f"the library pack of {pack.channel} is for another release: its `{name}` is "
                f"{said}, that of HIP SDK {sdk.version} is {expected}",
                hints=("`rocenv explain " + lock.target + "` shows which releases have a pack",),
            )
        if not (said and expected):
            notes.append(
                f"`{name}` of the library pack does not say its release; that it fits HIP SDK "
                f"{sdk.version} is known from the pack's name alone"
            )
    return notes

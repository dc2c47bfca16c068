"""Map the files in unpacked artifacts to their locations in a prefix.

Installing a set and restoring individual files both use this. A component goes into its own folder
(`Component.into`); unrelated files in its archives are left out. A library pack replaces files in its SDK
if the
contents of the pack match the SDK; no other component is allowed to replace files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.core.versions import series
from rocenv.install import store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from rocenv.core.model import Artifact, Component, FileEntry, Lock
    from rocenv.home import Home


@dataclass(frozen=True, slots=True)
class Origin:
    """The file in the store that a file in a prefix comes from."""

    artifact: Artifact
    inner: str  # path in the artifact's tree
    entry: FileEntry

    def path(self, home: Home) -> Path:
        """The file in the store."""
        return store.tree_of(home, self.artifact) / self.inner


def tree_files(lock: Lock, home: Home) -> dict[str, Origin]:
    """Map every file of a set that comes from the store: relative path -> origin.

    Raises:
        PrefixError: Two packages have different files at the same path, or one has a file where the other
            has a folder.
        ArchiveError: An archive lacks a file that its component requires.
    """
    placed: dict[str, Origin] = {}
    for component in lock.components:
        own: dict[str, Origin] = {}
        for artifact in component.artifacts if not component.is_wheels else ():
            manifest = store.manifest_of(home, artifact)
            for inner, place in _places(component, artifact, manifest):
                path, origin = f"{component.into}/{place}", Origin(artifact, inner, manifest[inner])
                _require_same(path, own.setdefault(path, origin), origin)
        if component.places:
            # A pack also replaces files whose names differ only in case, because Windows ignores case.
            replaced = {path.lower() for path in own}
            placed = {path: origin for path, origin in placed.items() if path.lower() not in replaced}
        for path in own.keys() & placed.keys():
            _require_same(path, placed[path], own[path])
        placed |= own
    _require_folders(placed)
    return placed


def _places(component: Component, artifact: Artifact, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the files that a component uses from an artifact, and their locations in its folder."""
    if component.places:
        yield from _picked(component, artifact, names)
        return
    root = _root(component.anchor, names)
    if root is None:
        raise ArchiveError(
            f"`{artifact.name}` is not a {component.name} archive: `{component.anchor}` is missing",
            hints=(f"it came from {artifact.url}; report this to its publisher",),
        )
    yield from ((name, name.removeprefix(root)) for name in names if name.startswith(root))


def _root(anchor: str, names: Collection[str]) -> str | None:
    """Find the topmost folder that contains the anchor, ending in `/`; "" is the root, None means not found.

    Archives may wrap their files in a folder, and may contain more copies of the same files in subfolders.
    """
    if not anchor:
        return ""
    found = [name for name in names if PurePosixPath(name).name.lower() == anchor.lower()]
    if not found:
        return None
    best = min(found, key=lambda name: (name.count("/"), name))
    return best.removesuffix(best.rpartition("/")[2])


def _picked(component: Component, artifact: Artifact, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield a pack's members that belong in the SDK, and their locations; raise ArchiveError if none do."""
    some = False
    for name in sorted(names):
        for member, place in component.places.items():
            inner = f"/{name.lower()}"
            at = inner.find(f"/{member.lower()}")
            if at < 0 or (not member.endswith("/") and not inner.endswith(f"/{member.lower()}")):
                continue
            rest = name[at + len(member) :] if member.endswith("/") else ""
            some = True
            yield name, place + rest
            break
    if not some:
        held = ", ".join(f"`{member}`" for member in component.places)
        raise ArchiveError(
            f"`{artifact.name}` is not a library pack: it does not contain any of {held}",
            hints=(f"it came from {artifact.url}; report this to its publisher",),
        )


def _require_same(path: str, first: Origin, second: Origin) -> None:
    if first.entry != second.entry:
        raise PrefixError(
            f"packages {first.artifact.name} and {second.artifact.name} contain different versions of "
            f"`{path.partition('/')[2]}`",
            code="package-conflict",
        )


def _require_folders(placed: Mapping[str, Origin]) -> None:
    """Raise PrefixError if a folder in one package is a file or link in another.

    This prevents writes through a link.
    """
    folders = {""}
    for path in placed:
        folder = path.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for path in sorted(folders & placed.keys()):
        raise PrefixError(
            f"`{path.partition('/')[2]}` is a file in package {placed[path].artifact.name}, but a folder in "
            "another package",
            code="package-conflict",
        )


# ---------------------------------------------------------------- library packs


def require_fitting_packs(lock: Lock, origins: Mapping[str, Origin], home: Home) -> tuple[str, ...]:
    """Check that library packs match the set, and return notes about anything that could not be checked.

    Raises:
        ArchiveError: A pack contains a library from a different release than the SDK's, or no kernels for
          the target.
    """
    notes: list[str] = []
    for pack in lock.components:
        if not pack.places:
            continue
        sdk = lock.part("rocm")
        if sdk is None:
            raise ArchiveError("the set has a library pack but no HIP SDK")
        own = {path: each for path, each in origins.items() if each.artifact in pack.artifacts}
        _require_kernels(pack, own, lock.code_target)
        notes += _require_release(pack, own, sdk, lock.target, home)
    return tuple(notes)


def _require_kernels(pack: Component, own: Mapping[str, Origin], target: str) -> None:
    kernels = [path for path in own if "/library/" in path]
    if kernels and not any(target in path.rpartition("/")[2] for path in kernels):
        raise ArchiveError(
            f"the {pack.channel} library pack has no kernels for {target} among its {len(kernels)} files",
            hints=(f"list the known packs: `rocenv matrix --target {target} --platform windows`",),
        )


def _require_release(
    pack: Component, own: Mapping[str, Origin], sdk: Component, target: str, home: Home
) -> list[str]:
    """Compare each library in a pack with the SDK's library of the same name."""
    theirs = {
        held.lower(): store.tree_of(home, artifact) / held
        for artifact in sdk.artifacts
        for held in store.manifest_of(home, artifact)
    }
    notes = []
    for path, origin in own.items():
        if not path.lower().endswith(".dll"):
            continue
        name = path.rpartition("/")[2]
        replaced = theirs.get(path.removeprefix(f"{sdk.into}/").lower())
        found = _release(origin.path(home))
        expected = _release(replaced) if replaced else ""
        if found and expected and found != expected:
            raise ArchiveError(
                f"the {pack.channel} library pack is for a different release: its `{name}` is "
                f"{found}, but HIP SDK {sdk.version} has {expected}",
                hints=(f"`rocenv explain {target}` shows which releases have a pack",),
            )
        if not (found and expected):
            notes.append(
                f"`{name}` in the library pack does not contain a release number, so only the name of the "
                f"pack indicates that it works with HIP SDK {sdk.version}"
            )
    return notes


def _release(library: Path) -> str:
    from rocenv.system import pe

    return series(pe.read(library).file_version)

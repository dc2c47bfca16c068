"""Which file of which unpacked artifact lies where in a prefix.

One answer for all who need it: placing a set, and putting single files of it back. A part comes to lie in its
own folder (`Component.into`); what its archives hold beside that is left out. A library pack lies over the
SDK that it is for, and takes the place of files there; nothing else may.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.install import store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from rocenv.core.model import Artifact, Component, FileEntry, Lock
    from rocenv.home import Home


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file of a prefix comes from."""

    artifact: Artifact
    inner: str  # path in the artifact's tree
    entry: FileEntry

    def path(self, home: Home) -> Path:
        """Return the file in the store."""
        return store.tree_of(home, self.artifact) / self.inner


def tree_files(lock: Lock, home: Home) -> dict[str, Origin]:
    """Return every file of a set that comes out of the store, by its path below the prefix.

    Raises:
        PrefixError: Two packages hold different files under one path, or what is a folder in one is none in
            the other.
        ArchiveError: An archive does not hold what a part of that kind has.
    """
    placed: dict[str, Origin] = {}
    within: set[str] = set()  # the folders of what was placed
    for component in lock.components:
        if component.is_wheels:
            continue
        own = dict(_component_files(component, home, within))
        if component.places:
            _take_out(placed, own)
        else:
            _require_no_other(own, placed)
        placed |= own
    return placed


def _take_out(placed: dict[str, Origin], own: dict[str, Origin]) -> None:
    """Take out what a pack replaces, also where it spells a name otherwise: to Windows that is one file."""
    replaced = {path.lower() for path in own}
    for path in [path for path in placed if path.lower() in replaced]:
        del placed[path]


def _component_files(component: Component, home: Home, within: set[str]) -> Iterator[tuple[str, Origin]]:
    own: dict[str, Origin] = {}
    for artifact in component.artifacts:
        manifest = store.manifest_of(home, artifact)
        for inner, place in _places(component, artifact, manifest):
            path = f"{component.into}/{place}"
            origin = Origin(artifact, inner, manifest[inner])
            if path in own:
                _require_same(path, own[path], origin)
                continue
            _require_folders(path, own, within, artifact)
            own[path] = origin
    yield from own.items()


def _places(component: Component, artifact: Artifact, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what is taken of an artifact, and where it belongs below the part's folder."""
    if component.places:
        yield from _picked(component, artifact, names)
        return
    root = _root(component.anchor, names)
    if root is None:
        raise ArchiveError(
            f"`{artifact.name}` is no archive of {component.name}: there is no `{component.anchor}` in it",
            hints=(f"it came from {artifact.url}; report this to whoever builds it",),
        )
    yield from ((name, name.removeprefix(root)) for name in names if name.startswith(root))


def _root(anchor: str, names: Collection[str]) -> str | None:
    """Return the folder of the anchor that is furthest up, ending in `/`; "" = the top, None = there is none.

    Archives have their files in a folder or not, and copies for other uses in folders further down.
    """
    if not anchor:
        return ""
    found = [name for name in names if PurePosixPath(name).name.lower() == anchor.lower()]
    if not found:
        return None
    best = min(found, key=lambda name: (name.count("/"), name))
    return best.removesuffix(best.rpartition("/")[2])


def _picked(component: Component, artifact: Artifact, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the members of a pack that belong somewhere, wherever in it they lie; raise where none does."""
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
            f"`{artifact.name}` is no library pack: it holds none of {held}",
            hints=(f"it came from {artifact.url}; report this to whoever builds it",),
        )


def _require_same(path: str, first: Origin, second: Origin) -> None:
    if first.entry != second.entry:
        raise PrefixError(
            f"packages {first.artifact.name} and {second.artifact.name} hold different files "
            f"`{path.partition('/')[2]}`",
            code="package-conflict",
        )


def _require_no_other(own: dict[str, Origin], placed: dict[str, Origin]) -> None:
    for path in own.keys() & placed.keys():
        _require_same(path, placed[path], own[path])


def _require_folders(path: str, own: dict[str, Origin], within: set[str], artifact: Artifact) -> None:
    """Raise PrefixError where a folder of one package is no folder in another; `within` grows."""
    folder = path.rpartition("/")[0]
    if folder in within and path not in within:
        return
    above = [str(folder) for folder in PurePosixPath(path).parents][:-1]
    wrong = path if path in within else next((folder for folder in above if folder in own), "")
    if wrong:
        raise PrefixError(
            f"package {artifact.name} and another one do not agree whether `{wrong.partition('/')[2]}` "
            "is a folder",
            code="package-conflict",
        )
    within.update(above)

"""Programs that a set brings along: their starters, and the links by which they find their own files."""

from __future__ import annotations

import fnmatch
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.activate.starters import write_starters
from rocenv.core.errors import PrefixError
from rocenv.install.prefix import library_folders
from rocenv.system.files import remove_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from rocenv.core.model import Layout, Lock
    from rocenv.install.prefix import Prefix


def write_programs(prefix: Prefix, lock: Lock, loader: str, files: Collection[str]) -> list[Path]:
    """Write starters and links for the programs of a set; return their paths.

    Args:
        prefix: The env, whose folder of programs exists.
        lock: Its set.
        loader: See `Record`.
        files: What it consists of.

    Raises:
        PrefixError: The set has no such program, two of one name, or something else where a link belongs.
        DataError: A program has a name that no starter can have.
    """
    parts = [(part.layout, prefix.path / part.into) for part in lock.components if part.layout is not None]
    links = [
        _link(prefix, folder, each)
        for layout, _ in parts
        for folder, pattern in layout.links.items()
        for each in _matching(pattern, files)
    ]
    starters: list[Path] = []
    for layout, tree in parts:
        for starter in _starters(prefix, lock, layout, tree, loader, files):
            if starter in starters:
                raise PrefixError(
                    f"two programs of the set would be started as `{starter.name}`", code="package-conflict"
                )
            starters.append(starter)
    return [*links, *starters]


def _starters(
    prefix: Prefix, lock: Lock, layout: Layout, tree: Path, loader: str, files: Collection[str]
) -> Iterator[Path]:
    for program in layout.programs:
        matching = _matching(program.path, files)
        found = [each for each in matching if _can_be_started(prefix.path / each)]
        if not found:
            other = f": `{matching[0]}` there cannot be started" if matching else ""
            raise PrefixError(
                f"the packages of the set hold no program `{program.path}`{other}",
                hints=("the channel has moved on; upgrade rocenv, or name another channel",),
                code="set-incomplete",
            )
        for path in found:
            yield from write_starters(
                prefix.bin,
                program,
                prefix.path / path,
                tree=tree,
                loader=prefix.path / loader if loader else None,
                library_dirs=library_folders(prefix, lock),
            )


def _can_be_started(path: Path) -> bool:
    """Tell whether a program can be started: links to what is in no package of the set cannot."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _matching(pattern: str, files: Collection[str]) -> list[str]:
    """Return the files whose folder is the pattern's and whose name matches."""
    folder, _, name = pattern.rpartition("/")
    split = (path.rpartition("/") for path in files)
    return sorted(
        f"{folder}/{each}" for place, _, each in split if place == folder and fnmatch.fnmatchcase(each, name)
    )


def _link(prefix: Prefix, folder: str, path: str) -> Path:
    """Make a link to a file of the set in another folder, where there is none yet."""
    place = prefix.path / folder / PurePosixPath(path).name
    target = os.path.relpath(prefix.path / path, place.parent)
    if place.is_symlink() and os.readlink(place) == target:
        return place
    if place.exists() and not place.is_symlink():
        raise PrefixError(
            f"a package has a file of its own at `{folder}/{place.name}`, where a link belongs",
            code="package-conflict",
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise PrefixError(
            f"a package has a file at `{folder}`, or above it, where a folder of links belongs",
            code="package-conflict",
        ) from error
    remove_path(place)
    place.symlink_to(target)
    return place

"""Programs that a set brings along: their starters, and the links by which they find their own files."""

from __future__ import annotations

import fnmatch
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.activate.starters import write_starters
from rocenv.errors import PrefixError
from rocenv.install.prefix import library_folders
from rocenv.system.files import remove_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from rocenv.install.prefix import Prefix
    from rocenv.model import Layout, Lock

_TREE = "rocm/"


def write_programs(prefix: Prefix, lock: Lock, loader: str, files: Collection[str]) -> list[Path]:
    """Write starters and links for the programs of a set; return their paths.

    Args:
        prefix: The env, whose folder of programs exists.
        lock: Its set.
        loader: See `Record`.
        files: What it consists of.

    Raises:
        PrefixError: The set has no such program, or a file of its own where a link belongs.
    """
    layouts = [part.layout for part in lock.components if part.layout is not None]
    written = []
    for layout in layouts:
        for folder, pattern in layout.links.items():
            written += [_link(prefix, folder, each) for each in _matching(pattern, files)]
        written += _starters(prefix, lock, layout, loader, files)
    return written


def _starters(
    prefix: Prefix, lock: Lock, layout: Layout, loader: str, files: Collection[str]
) -> Iterator[Path]:
    for program in layout.programs:
        found = _matching(program.path, files)
        if not found:
            raise PrefixError(
                f"the packages of the set hold no program `{program.path}`",
                hints=("the channel has moved on; upgrade rocenv, or name another channel",),
                code="set-incomplete",
            )
        for path in found:
            yield from write_starters(
                prefix.bin,
                program,
                prefix.rocm / path,
                tree=prefix.rocm,
                loader=prefix.path / loader if loader else None,
                library_dirs=library_folders(prefix, lock),
            )


def _matching(pattern: str, files: Collection[str]) -> list[str]:
    """Return the files of the tree, relative to it, whose folder is the pattern's and whose name matches."""
    folder, _, name = pattern.rpartition("/")
    start = f"{_TREE}{folder}/" if folder else _TREE
    return sorted(
        path.removeprefix(_TREE)
        for path in files
        if path.startswith(start)
        and "/" not in path[len(start) :]
        and fnmatch.fnmatchcase(path[len(start) :], name)
    )


def _link(prefix: Prefix, folder: str, path: str) -> Path:
    """Make a link to a file of the tree in another folder of it, where there is none yet."""
    place = prefix.rocm / folder / PurePosixPath(path).name
    target = os.path.relpath(prefix.rocm / path, place.parent)
    if place.is_symlink() and os.readlink(place) == target:
        return place
    if place.exists() and not place.is_symlink():
        raise PrefixError(
            f"a package has a file of its own at `{folder}/{place.name}`, where a link belongs",
            code="package-conflict",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_path(place)
    place.symlink_to(target)
    return place

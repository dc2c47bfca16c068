"""A copy of a folder that is made of links, but for the folders on the way to one of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS
from rocenv.system.files import clone_file, remove_path

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def mirror(source: Path, copy: Path, real: Path, own: Collection[str] = ()) -> None:
    """Make a copy of a folder, or bring one up to date.

    Args:
        source: The folder.
        copy: Where the copy is, or will be.
        real: A folder below `source`, which may not be there: it and those on the way to it are folders of
            the copy's own, which can be written to; all else are links.
        own: Names in the copy of `real` that are left alone.
    """
    copy.mkdir(parents=True, exist_ok=True)
    there = {entry.name: entry for entry in os.scandir(source)} if source.is_dir() else {}
    way = real.relative_to(source).parts
    kept = set(own) if not way else {way[0]}
    for entry in os.scandir(copy):
        if entry.name not in there and entry.name not in kept and entry.name != "__pycache__":
            remove_path(copy / entry.name)
    for name in there:
        if name not in kept and name != "__pycache__":  # Python writes into that
            _link(source / name, copy / name)
    if way:
        mirror(source / way[0], copy / way[0], real, own)


def _link(path: Path, link: Path) -> None:
    if not WINDOWS:
        if link.is_symlink() and os.readlink(link) == str(path):
            return
        remove_path(link)
        link.symlink_to(path)
    elif path.is_dir():  # links to folders need a right there that few have
        link.mkdir(exist_ok=True)
        for entry in os.scandir(path):
            _link(path / entry.name, link / entry.name)
    elif not link.exists() or not os.path.samefile(path, link):
        remove_path(link)
        clone_file(path, link)

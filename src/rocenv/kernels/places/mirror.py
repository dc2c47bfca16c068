"""A copy of a folder that is made of links, but for the folders on the way to one of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS
from rocenv.system.files import clone_file

if TYPE_CHECKING:
    from pathlib import Path


def mirror(source: Path, copy: Path, real: Path) -> None:
    """Make a copy of a folder.

    Args:
        source: The folder.
        copy: Where the copy will be; nothing is there yet, so nothing is written through a link of it.
        real: A folder below `source`, which may not be there: it and those on the way to it are folders of
            the copy's own, which can be written to; all else are links.
    """
    copy.mkdir()
    way = real.relative_to(source).parts
    for entry in os.scandir(source) if source.is_dir() else ():
        if entry.name not in (*way[:1], "__pycache__"):  # Python writes into that
            _link(source / entry.name, copy / entry.name)
    if way:
        mirror(source / way[0], copy / way[0], real)


def _link(path: Path, link: Path) -> None:
    if not WINDOWS:
        link.symlink_to(path)
    elif path.is_dir():  # links to folders need a right there that few have
        link.mkdir()
        for entry in os.scandir(path):
            _link(path / entry.name, link / entry.name)
    else:
        clone_file(path, link)

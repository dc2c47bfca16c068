"""A copy of a folder that is made of links, but for the folders on the way to one of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def mirror(source: Path, copy: Path, real: Path) -> None:
    """Make a copy of a folder.

    Args:
        source: The folder.
        copy: Where the copy will be; nothing is there yet, so nothing is written through a link of it.
        real: A folder below `source`, which may not be there: it, those on the way to it and `copy` are
            folders of the copy's own, which can be written to; all else are links.
    """
    copy.mkdir()
    way = real.relative_to(source).parts
    for entry in os.scandir(source) if source.is_dir() else ():
        if entry.name not in (*way[:1], "__pycache__"):  # Python writes into that
            (copy / entry.name).symlink_to(source / entry.name)
    if way:
        mirror(source / way[0], copy / way[0], real)

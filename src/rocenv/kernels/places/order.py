"""What is to be put where; and the steps that all places share."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.kernels.placed import Placed, all_placed
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.home import Home
    from rocenv.kernels.placed import PlaceName
    from rocenv.kernels.recipe import Job

_LEVEL = 19  # as Blender's own build has it; a second for a kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The place for a kernel, which need not be compiled yet."""

    job: Job
    place: PlaceName
    home: Home
    env: str = ""  # whose cache; "" = the user's own
    environ: Mapping[str, str]  # of that env, or the user's


def placed_by(order: Order, file: Path, content: bytes) -> Placed:
    """Return what is known of a kernel wherever it was put."""
    installation = order.job.installation
    return Placed(
        app=installation.row.app,
        kind=order.job.recipe.kind,
        version=order.job.version,
        target=order.job.target,
        place=order.place,
        file=str(file),
        sha256=sha256_of(content),
        source=str(installation.source),
        source_hash=order.job.source_hash,
        program=str(installation.program or ""),
        include=str(order.job.include or ""),
        env=order.env,
    )


def as_precompiled(order: Order, content: bytes) -> bytes:
    """Return a kernel in the form of those that come with the app."""
    if not order.job.compressed:
        return content
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL).compress(content)


def sha256_of(content: bytes) -> str:
    """Return a hash."""
    return hashlib.sha256(content).hexdigest()


def content_of(path: Path) -> bytes | None:
    """Return what is in a file; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def can_write(file: Path) -> bool:
    """Tell whether rights allow to write a file, and the folders on the way to it that are not there."""
    folder = next((each for each in file.parents if os.path.lexists(each)), file.parent)
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and not file.is_dir()


def write_new(path: Path, content: bytes) -> None:
    """Write a file for others to read, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)
    path.chmod(0o644)


def earlier(home: Home, app: str, place: PlaceName, file: Path) -> Placed | None:
    """Return what was placed there before, if that is what lies there now."""
    found = (each for each in all_placed(home, app) if (each.place, each.file) == (place, str(file)))
    before = next(found, None)
    if before is None or file.is_symlink():  # which rocenv puts nowhere
        return None
    content = content_of(file)
    return before if content is not None and sha256_of(content) == before.sha256 else None

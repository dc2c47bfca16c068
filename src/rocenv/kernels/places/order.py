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

    from rocenv.compilers import Toolchain
    from rocenv.home import Home
    from rocenv.kernels.placed import PlaceName
    from rocenv.kernels.recipe import Job

_LEVEL = 19  # as Blender's own build has it; a second for a kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A kernel, and the place for it."""

    job: Job
    content: bytes
    place: PlaceName
    home: Home
    toolchain: Toolchain
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
    )


def as_precompiled(order: Order) -> bytes:
    """Return a kernel in the form of those that come with the app."""
    if not order.job.compressed:
        return order.content
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL).compress(order.content)


def sha256_of(content: bytes) -> str:
    """Return a hash."""
    return hashlib.sha256(content).hexdigest()


def content_of(path: Path) -> bytes | None:
    """Return what is in a file; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def write_new(path: Path, content: bytes) -> bool:
    """Write a file for others to read, its folder too; tell whether the folder was made."""
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)
    if os.name == "posix":
        path.chmod(0o644)
    return made


def earlier(order: Order, file: Path) -> Placed | None:
    """Return what was placed there before."""
    app = order.job.installation.row.app
    found = (each for each in all_placed(order.home, app) if each.file == str(file))
    return next((each for each in found if each.place == order.place), None)

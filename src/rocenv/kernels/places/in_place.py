"""The installation itself: the original is kept, and comes back byte for byte."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import PrefixError, RocenvError
from rocenv.kernels.placed import folder_of
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.order import (
    as_precompiled,
    content_of,
    earlier,
    placed_by,
    sha256_of,
    write_new,
)
from rocenv.system.files import storage_errors, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.home import Home
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order


def put(order: Order) -> Placed:
    """Put a kernel among those that came with the app, in place of the one for the same target."""
    job = order.job
    file = job.installation.precompiled / job.precompiled
    content = as_precompiled(order)
    with _own_errors(file):
        present = content_of(file)
        before = earlier(order, file)
        placed = placed_by(order, file, content)
        if before is not None and present is not None and sha256_of(present) == before.sha256:
            # Ours is there: what came with the app is what was kept then.
            placed = replace(
                placed,
                original=before.original,
                original_sha256=before.original_sha256,
                made_folder=before.made_folder,
            )
        elif present is not None:
            kept = _keep(present, order)
            placed = replace(placed, original=str(kept), original_sha256=sha256_of(present))
        placed = replace(placed, made_folder=placed.made_folder or not file.parent.exists())
        # The note first: whatever happens next, the original is found again.
        keep_note(order.home, placed)
        write_new(file, content)
    return placed


def undo(placed: Placed, home: Home) -> str:
    """Put the original back, unless somebody else has changed the file since, as an upgrade does."""
    file = Path(placed.file)
    with storage_errors(file):
        present = content_of(file)
        if present is not None and sha256_of(present) not in (placed.sha256, placed.original_sha256):
            return f"`{file}` was changed since, as an upgrade does, and stays as it is"
        if placed.original:
            said = _put_back(placed, file)
        else:
            file.unlink(missing_ok=True)
            if placed.made_folder:
                with contextlib.suppress(OSError):  # others are in it
                    file.parent.rmdir()
            said = f"removed `{file}`"
    if placed.original:
        Path(placed.original).unlink(missing_ok=True)
    return said


def _put_back(placed: Placed, file: Path) -> str:
    original = content_of(Path(placed.original))
    if original is None or sha256_of(original) != placed.original_sha256:
        raise RocenvError(
            f"the kept original of `{file}` is damaged or gone (`{placed.original}`)",
            hints=("install the app again",),
            code="kernels-no-original",
        )
    if not file.parent.is_dir():
        return f"`{file.parent}` is gone, and so was the kernel"
    write_atomic(file, original)
    with contextlib.suppress(OSError):
        shutil.copystat(placed.original, file)
    return f"put the original `{file}` back"


def _keep(content: bytes, order: Order) -> Path:
    folder = folder_of(order.home, order.job.installation.row.app) / "originals" / sha256_of(content)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / order.job.precompiled
    write_atomic(kept, content)
    with contextlib.suppress(OSError):
        shutil.copystat(order.job.installation.precompiled / order.job.precompiled, kept)
    return kept


@contextlib.contextmanager
def _own_errors(file: Path) -> Iterator[None]:
    try:
        with storage_errors(file):
            yield
    except PrefixError as error:
        if error.code != "home-unwritable":
            raise
        raise RocenvError(
            f"{error.message}: the installation is not yours to change",
            hints=("take another place: `--place overlay`", "or run it as the owner of that folder"),
            code="kernels-unwritable",
        ) from error

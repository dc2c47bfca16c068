"""The installation itself: the original is kept, and comes back byte for byte."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import PrefixError, RocenvError
from rocenv.kernels.placed import folder_of, forget, is_of_its_source
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
            kept = _keep(present, file, _kept(order.home, placed))
            placed = replace(placed, original=str(kept), original_sha256=sha256_of(present))
        placed = replace(placed, made_folder=placed.made_folder or not file.parent.exists())
        # The note first: whatever happens next, the original is found again.
        keep_note(order.home, placed)
        try:
            write_new(file, content)
        except OSError:
            if before is None:
                _forget_original(placed, order.home)
                forget(order.home, placed)
            else:
                keep_note(order.home, before)
            raise
    return placed


def undo(placed: Placed, home: Home) -> str:
    """Put the original back, unless somebody else has changed the file since, as an upgrade does."""
    file = Path(placed.file)
    kept = f"; the old original is kept as `{placed.original}`" if placed.original else ""
    with storage_errors(file):
        present = content_of(file)
        if present is not None and sha256_of(present) not in (placed.sha256, placed.original_sha256):
            return f"`{file}` was changed since, as an upgrade does, and stays as it is{kept}"
        if present is None and placed.original and not is_of_its_source(placed):
            return f"`{file}` is gone since, as by an upgrade; left as it is{kept}"
        if placed.original:
            said = _put_back(placed, file)
        else:
            file.unlink(missing_ok=True)
            if placed.made_folder:
                with contextlib.suppress(OSError):  # others are in it
                    file.parent.rmdir()
            said = f"removed `{file}`"
    _forget_original(placed, home)
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


def _kept(home: Home, placed: Placed) -> Path:
    """Return where the original is kept: each file's own, though others may have the same content."""
    return folder_of(home, placed.app) / "originals" / placed.key / Path(placed.file).name


def _keep(content: bytes, file: Path, kept: Path) -> Path:
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(kept, content)
    with contextlib.suppress(OSError):
        shutil.copystat(file, kept)
    return kept


def _forget_original(placed: Placed, home: Home) -> None:
    kept = _kept(home, placed)
    if placed.original == str(kept):
        kept.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it is not empty
            kept.parent.rmdir()


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

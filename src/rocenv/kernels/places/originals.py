"""Putting a kernel where something may lie: that is kept, and comes back as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.kernels.placed import folder_of, forget
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.order import content_of, earlier, sha256_of, write_new
from rocenv.system.files import beside, move, write_atomic

if TYPE_CHECKING:
    from rocenv.home import Home
    from rocenv.kernels.placed import Placed


def put_over(placed: Placed, content: bytes, home: Home) -> Placed:
    """Put a kernel where its note says; return the note, which by then says how to undo it, and is kept."""
    file = Path(placed.file)
    before = earlier(home, placed.app, placed.place, file)
    placed = _with_original(placed, before, home)
    # The note first: whatever happens next, the original is found again.
    keep_note(home, placed)
    try:
        write_new(file, content)
    except OSError:
        if before is None:
            forget_original(placed, home)
            forget(home, placed)
        else:
            keep_note(home, before)
        raise
    return placed


def _with_original(placed: Placed, before: Placed | None, home: Home) -> Placed:
    """Return a note that says what lies there, of which a copy is kept."""
    file = Path(placed.file)
    if before is not None:
        # Ours is there: what lay there is what was kept then.
        return replace(
            placed,
            original=before.original,
            original_sha256=before.original_sha256,
            original_link=before.original_link,
            made_folder=before.made_folder,
        )
    placed = replace(
        placed,
        original_link=os.readlink(file) if file.is_symlink() else "",
        made_folder=not file.parent.exists(),
    )
    present = content_of(file)
    if present is None:
        return placed
    kept = _kept(placed, home)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(kept, present)
    with contextlib.suppress(OSError):
        shutil.copystat(file, kept)
    return replace(placed, original=str(kept), original_sha256=sha256_of(present))


def had_one(placed: Placed) -> bool:
    """Tell whether something lay there before."""
    return bool(placed.original or placed.original_link)


def put_back(placed: Placed) -> str:
    """Put back what lay there, and return that in one sentence."""
    file = Path(placed.file)
    if placed.original_link:
        link = beside(file, "new")
        link.symlink_to(placed.original_link)
        move(link, file)
        return f"put the original link `{file}` back"
    original = content_of(Path(placed.original))
    if original is None or sha256_of(original) != placed.original_sha256:
        again = (
            "install the app again"
            if placed.place == "in-place"
            else f"remove `{file}`: the app makes it anew"
        )
        raise RocenvError(
            f"the kept original of `{file}` is damaged or gone (`{placed.original}`)",
            hints=(again,),
            code="kernels-no-original",
        )
    write_atomic(file, original)
    with contextlib.suppress(OSError):
        shutil.copystat(placed.original, file)
    return f"put the original `{file}` back"


def forget_original(placed: Placed, home: Home) -> None:
    """Remove the copy that was kept."""
    kept = _kept(placed, home)
    if placed.original == str(kept):
        kept.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it is not empty
            kept.parent.rmdir()


def _kept(placed: Placed, home: Home) -> Path:
    """Return where the original is kept: each file's own, though others may have the same content."""
    return folder_of(home, placed.app) / "originals" / placed.key / Path(placed.file).name

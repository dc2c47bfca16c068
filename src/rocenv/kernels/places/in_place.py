"""The installation itself: the original is kept, and comes back byte for byte."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError, RocenvError
from rocenv.kernels.placed import is_of_its_source
from rocenv.kernels.places.order import as_precompiled, can_write, content_of, placed_by, sha256_of
from rocenv.kernels.places.originals import forget_original, had_one, put_back, put_over
from rocenv.system.files import storage_errors

if TYPE_CHECKING:
    from rocenv.compilers import Toolchain
    from rocenv.home import Home
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order


def _file(order: Order) -> Path:
    return order.job.installation.precompiled / order.job.precompiled


def check(order: Order) -> None:
    """Raise RocenvError where the installation cannot be written to."""
    if not can_write(_file(order)):
        raise _not_yours(f"cannot write `{_file(order)}`")


def put(order: Order, content: bytes, toolchain: Toolchain) -> Placed:
    """Put a kernel among those that came with the app, in place of the one for the same target."""
    del toolchain
    file, content = _file(order), as_precompiled(order, content)
    try:
        with storage_errors(file):
            return put_over(placed_by(order, file, content), content, order.home)
    except PrefixError as error:
        if error.code != "home-unwritable":
            raise
        raise _not_yours(error.message) from error


def undo(placed: Placed, home: Home) -> str:
    """Put the original back, unless somebody else has changed the file since, as an upgrade does."""
    file = Path(placed.file)
    kept = f"; the old original is kept as `{placed.original}`" if placed.original else ""
    with storage_errors(file):
        present = content_of(file)
        if present is not None and sha256_of(present) not in (placed.sha256, placed.original_sha256):
            return f"`{file}` was changed since, as an upgrade does, and stays as it is{kept}"
        if present is None and had_one(placed) and not is_of_its_source(placed):
            return f"`{file}` is gone since, as by an upgrade; left as it is{kept}"
        if not had_one(placed):
            file.unlink(missing_ok=True)
            if placed.made_folder:
                with contextlib.suppress(OSError):  # others are in it
                    file.parent.rmdir()
            said = f"`{file}` is gone already" if present is None else f"removed `{file}`"
        elif file.parent.is_dir():
            said = put_back(placed)
        else:
            said = f"`{file.parent}` is gone, and so was the kernel"
    forget_original(placed, home)
    return said


def _not_yours(why: str) -> RocenvError:
    return RocenvError(
        f"{why}: the installation is not yours to change",
        hints=("take another place: `--place overlay`", "or run it as the owner of that folder"),
        code="kernels-unwritable",
    )

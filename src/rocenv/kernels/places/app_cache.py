"""The cache of the kernels that an app compiled itself: ours goes there under the name that it would have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.kernels.placed import all_placed, folder_of
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.order import can_write, content_of, earlier, placed_by, sha256_of
from rocenv.kernels.places.originals import forget_original, had_one, put_back, put_over
from rocenv.kernels.stand_ins import write_stand_ins
from rocenv.system.files import remove_tree, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.compilers import Toolchain
    from rocenv.home import Home
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order
    from rocenv.kernels.recipe import Job


def why_not(job: Job, home: Home) -> str:
    """Return why an app would not take a kernel from its cache; "" = it does."""
    row = job.installation.row
    came = job.installation.precompiled / job.precompiled
    if came.exists():
        is_ours = earlier(home, row.app, "in-place", came) is not None
        whose = "which rocenv put there before," if is_ours else "came with it and"
        return f"`{came}` {whose} would win over its cache"
    if not row.cache:
        return "the app has no cache of kernels"
    return "" if job.cached else "what the app calls a kernel in its cache could not be read from its program"


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of caches of an environment."""
    chosen = environ.get("XDG_CACHE_HOME", "")
    # Relative paths are to be ignored. Source: XDG Base Directory Specification
    return Path(chosen) if os.path.isabs(chosen) else Path(environ.get("HOME") or Path.home(), ".cache")


def _tools(home: Home, app: str) -> Path:
    return folder_of(home, app) / "bin"


def _file(order: Order) -> Path:
    return cache_home(order.environ) / order.job.installation.row.cache / order.job.cached


def check(order: Order) -> None:
    """Raise RocenvError where the app would not look into its cache, or nothing can be put there."""
    app, other = order.job.installation.row.app, ("take another place: `--place overlay`",)
    if why := why_not(order.job, order.home):
        raise RocenvError(f"the cache of {app} cannot be used: {why}", hints=other, code="kernels-no-cache")
    if not can_write(_file(order)):
        raise RocenvError(
            f"cannot write `{_file(order)}`, into the cache of {app}",
            hints=("check who owns the folder", *other),
            code="kernels-unwritable",
        )


def put(order: Order, content: bytes, toolchain: Toolchain) -> Placed:
    """Put a kernel into the app's cache, and stand-ins for programs beside it that the app looks for."""
    job, row, file = order.job, order.job.installation.row, _file(order)
    with storage_errors(file):
        placed = replace(placed_by(order, file, content), cache_home=str(cache_home(order.environ)))
        placed = put_over(placed, content, order.home)
    if not job.installation.precompiled.is_dir():  # else it does not ask for them
        wanted = [each for each in row.stand_ins if each.kind == "compiler" or not shutil.which(each.name)]
        tools = _tools(order.home, row.app)
        with storage_errors(tools):
            placed = replace(placed, on_path=str(write_stand_ins(tools, wanted, toolchain)))
            keep_note(order.home, placed)
    return placed


def undo(placed: Placed, home: Home) -> str:
    """Take the kernel out of the cache, and with the last one the stand-ins; put back what lay there."""
    file = Path(placed.file)
    others = [each for each in all_placed(home, placed.app) if each.key != placed.key]
    with storage_errors(file):
        if not any(each.on_path for each in others):
            remove_tree(_tools(home, placed.app))
        content = content_of(file)
        if content is None:
            said = f"`{file}` is gone already"
        elif sha256_of(content) != placed.sha256:
            said = f"`{file}` was changed since by another program, and stays"
        elif had_one(placed):
            said = put_back(placed)
        else:
            file.unlink()
            said = f"removed `{file}`"
    forget_original(placed, home)
    return said

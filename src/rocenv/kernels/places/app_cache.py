"""The cache of the kernels that an app compiled itself: ours goes there under the name that it would have."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.kernels.placed import all_placed, folder_of
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.order import content_of, placed_by, sha256_of, write_new
from rocenv.kernels.stand_ins import write_stand_ins
from rocenv.system import WINDOWS
from rocenv.system.files import remove_tree, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.home import Home
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order


def why_not(job_name: str, row_cache: str) -> str:
    """Return why an app's cache cannot be used; "" = it can."""
    if WINDOWS:
        return "on Windows the app takes nothing from its cache where it came with kernels"
    if not row_cache:
        return "the app has no cache of kernels"
    return "" if job_name else "what the app calls a kernel in its cache could not be read from its program"


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of caches of an environment."""
    chosen = environ.get("XDG_CACHE_HOME", "")
    # Relative paths are to be ignored. Source: XDG Base Directory Specification
    return Path(chosen) if os.path.isabs(chosen) else Path(environ.get("HOME") or Path.home(), ".cache")


def _tools(home: Home, app: str) -> Path:
    return folder_of(home, app) / "bin"


def put(order: Order) -> Placed:
    """Put a kernel into the app's cache, and stand-ins for programs beside it that the app looks for."""
    job = order.job
    row = job.installation.row
    came = job.installation.precompiled / job.precompiled
    why = why_not(job.cached, row.cache) or (f"`{came}` came with it and wins" if came.exists() else "")
    if why:
        raise RocenvError(
            f"the cache of {row.app} cannot be used: {why}",
            hints=("take another place: `--place overlay`",),
            code="kernels-no-cache",
        )
    folder = cache_home(order.environ)
    file = folder / row.cache / job.cached
    with storage_errors(file):
        write_new(file, order.content)
    placed = placed_by(order, file, order.content)
    on_path = ""
    if not job.installation.precompiled.is_dir():  # else it does not ask for them
        wanted = [each for each in row.stand_ins if each.kind == "compiler" or not shutil.which(each.name)]
        tools = _tools(order.home, row.app)
        with storage_errors(tools):
            on_path = str(write_stand_ins(tools, wanted, order.toolchain))
    placed = replace(placed, on_path=on_path, cache_home=str(folder), env=order.env)
    keep_note(order.home, placed)
    return placed


def undo(placed: Placed, home: Home) -> str:
    """Take the kernel out of the cache again, and with the last one the stand-ins."""
    file = Path(placed.file)
    others = [each for each in all_placed(home, placed.app) if each.key != placed.key]
    with storage_errors(file):
        if not any(each.on_path for each in others):
            remove_tree(_tools(home, placed.app))
        content = content_of(file)
        if content is None:
            return f"`{file}` is gone already"
        if sha256_of(content) != placed.sha256:
            return f"`{file}` was changed since by another program, and stays"
        file.unlink()
    return f"removed `{file}`"

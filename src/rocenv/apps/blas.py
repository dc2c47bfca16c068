"""Whether rocBLAS works for the env's target, and which env to create if it does not."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.core.model import Request, series
from rocenv.data.releases import RocmSet, RocmWheels
from rocenv.resolve.request import create_command
from rocenv.resolve.suggest import best_for

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.apps.context import LaunchContext
    from rocenv.prefix import Prefix

State = Literal["works", "fails", "unknown"]
CODE = "rocblas-tensile-missing-for-gfx"  # the `diagnose` rule for a missing target
_NEEDED = ("memory", "kernel", "gemm")  # if one of these rungs failed, rocBLAS is not the cause
_LIBRARIES = ("librocblas.so*", "rocblas*.dll")
_KERNELS = ("*/rocblas/library/*", "*/rocblas/Kernels*")


def blas_state(context: LaunchContext, program: Path | None = None) -> State:
    """Judge the env's rocBLAS by the last `verify`, or by its kernels if `verify` has not run.

    The state is `unknown` if the program ships its own rocBLAS, or if the GPU does not work at all.
    """
    prefix = context.start.prefix
    if program is not None and _brings_blas(program, prefix):
        return "unknown"
    last = prefix.verification()
    if last and last.status("blas") == "passed":
        return "works"
    broken = {result.rung for result in last.broken} if last else set()
    if broken.intersection(_NEEDED):
        return "unknown"
    has = False if "blas" in broken else _has_kernels(context)
    return "unknown" if has is None else "works" if has else "fails"


def _has_kernels(context: LaunchContext) -> bool | None:
    """Whether the env, or else the data, lists rocBLAS kernels for the target; None if unknown."""
    start, lock = context.start, context.start.record.lock
    try:
        files = tuple(start.prefix.files(start.record))
    except RocenvError:
        files = ()
    names = [path.rpartition("/")[2] for path in files if any(fnmatchcase(path, each) for each in _KERNELS)]
    if names:
        wanted = re.compile(rf"(?<![0-9a-z]){re.escape(lock.code_target)}(?![0-9a-f])")
        return any(wanted.search(name) for name in names)
    part = lock.part("rocm")
    rows = (row for row in context.matrix.rocm if part and row.channel == part.channel)
    row = next((row for row in rows if part and _is_of(row, part.version)), None)
    return lock.code_target in row.blas if row else None


def _is_of(row: RocmSet, version: str) -> bool:
    """Whether a row covers an env's release.

    A mixed set's row specifies a series, but an env can specify one release in that series.
    """
    return row.version == version or (row.is_mixed and series(version) == row.version)


def _brings_blas(program: Path, prefix: Prefix) -> bool:
    folder = program.resolve().parent
    if prefix.path.resolve() in folder.parents:
        return False
    places = (folder, folder.parent / "lib")
    return any(next(place.glob(name), None) for place in places for name in _LIBRARIES)


def another_env(context: LaunchContext) -> str:
    """The command that creates an env whose rocBLAS supports the target, or "" if there is no such set."""
    lock = context.start.record.lock
    if lock.platform != "linux":
        return context.another()
    request = Request(platform=lock.platform, target=lock.target, app=context.app)
    found = best_for(request, context.matrix, context.machine)
    row = (found.row(RocmSet) or found.row(RocmWheels)) if found else None
    if found is None or row is None or found.runs_as not in row.blas:
        return ""
    part = lock.part("rocm")
    own = (part.version, part.channel) if part else ("", "")
    if own == (row.version, row.channel) and found.runs_as == lock.code_target:
        return ""
    request = replace(request, rocm=row.version, channel=row.channel)
    return create_command(context.start.prefix.free_name(), request, context.host.platform)

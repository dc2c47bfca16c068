"""Whether an env's BLAS works for its target: what `verify` found, else which kernels lie in the env."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.core.model import Machine, Request, series
from rocenv.data.releases import RocmSet, RocmWheels
from rocenv.launch.causes import fallbacks
from rocenv.launch.programs import build_text, builds_for
from rocenv.resolve.request import create_command
from rocenv.resolve.suggest import best_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.core.model import Record
    from rocenv.data.apps import Blas
    from rocenv.launch.context import LaunchContext
    from rocenv.prefix import Prefix

State = Literal["works", "fails", "unknown"]
_BEFORE = ("memory", "kernel", "gemm")  # what has to work, or BLAS is not what is wrong


def blas_state(view: LaunchContext, program: Path | None = None) -> State:
    """Return whether a program can use the env's BLAS on the target; not known where it takes another."""
    blas = view.start.launcher.math_library
    if blas is None or (program is not None and _brings_blas(blas, program, view.start.prefix)):
        return "unknown"
    last = view.start.prefix.verification()
    status = last.status("blas") if last else ""
    if status == "passed":
        return "works"
    broken = {result.rung for result in last.broken} if last else set()
    if broken.intersection(_BEFORE):
        return "unknown"  # the GPU does not work at all, which no other BLAS mends
    if "blas" in broken:
        return "fails"
    has = has_kernels(view, blas)
    return "unknown" if has is None else "works" if has else "fails"


def has_kernels(view: LaunchContext, blas: Blas) -> bool | None:
    """Tell whether the env's BLAS has kernels for the target; None where that is not known."""
    lock = view.start.record.lock
    files = _files(view.start.prefix, view.start.record)
    kernels = (path for path in files if any(fnmatchcase(path, each) for each in blas.kernels))
    names = [path.rpartition("/")[2] for path in kernels]
    if names:
        wanted = re.compile(rf"(?<![0-9a-z]){re.escape(lock.code_target)}(?![0-9a-f])")
        return any(wanted.search(name) for name in names)
    for part in lock.components:
        for row in view.matrix.rocm:
            if part.kind == "rocm" and row.channel == part.channel and _is_of(row, part.version):
                return lock.code_target in row.blas
    return None


def remedies(view: LaunchContext) -> Iterator[str]:
    """Yield what gives the target a BLAS that works: another env, then builds that bring their own."""
    if command := another_env(view):
        yield f"an env whose rocBLAS works for it: {command}"
    yield from (build_text(row, view) for row in builds_for(view))


def ways_round(view: LaunchContext) -> Iterator[str]:
    """Yield what the app's profile knows besides."""
    blas = view.start.launcher.math_library
    yield from fallbacks(view, {blas.code} if blas else set())


def another_env(view: LaunchContext) -> str:
    """Return the command that makes an env with BLAS kernels for the target; "" where there is none."""
    lock = view.start.record.lock
    if lock.platform != "linux":
        return view.another()
    request = Request(platform=lock.platform, target=lock.target, app=view.app)
    machine = Machine(platform=view.host.platform, driver=view.host.driver.release)
    found = best_for(request, view.matrix, machine)
    row = (found.row(RocmSet) or found.row(RocmWheels)) if found else None
    if found is None or row is None or found.runs_as not in row.blas:
        return ""
    if _is_same(view, row, found.runs_as):
        return ""
    request = replace(request, rocm=row.version, channel=row.channel)
    return create_command(view.start.prefix.free_name(), request, view.host.platform)


def _is_of(row: RocmSet, version: str) -> bool:
    """Tell whether a row is of an env's release; an env of a mixed set may name a release of its series."""
    return row.version == version or (row.is_mixed and series(version) == row.version)


def _brings_blas(blas: Blas, program: Path, prefix: Prefix) -> bool:
    folder = program.resolve().parent
    if prefix.path.resolve() in folder.parents:
        return False
    places = (folder, folder.parent / "lib")
    return any(next(place.glob(name), None) for place in places for name in blas.libraries)


def _is_same(view: LaunchContext, row: RocmSet | RocmWheels, runs_as: str) -> bool:
    lock = view.start.record.lock
    part = lock.part("rocm")
    own = (part.version, part.channel) if part else ("", "")
    return own == (row.version, row.channel) and runs_as == lock.code_target


def _files(prefix: Prefix, record: Record) -> tuple[str, ...]:
    try:
        return tuple(prefix.files(record))
    except RocenvError:
        return ()

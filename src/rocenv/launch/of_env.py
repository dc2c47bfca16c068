"""Checks of an env and of the machine that it is to work on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.variables import VISIBLE
from rocenv.launch.view import Concern
from rocenv.preload import preload, shims_of, zluda_of
from rocenv.resolve.request import rebuild_command
from rocenv.resolve.verdicts import known_broken
from rocenv.system import WINDOWS
from rocenv.system.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import FileEntry
    from rocenv.launch.view import View


def python_there(view: View) -> Iterator[Concern]:
    """The env's own Python."""
    start = view.start
    python = start.prefix.path / start.record.lock.python
    if str(python) in start.words and not python.exists():
        yield Concern(
            code="python-missing",
            severity="error",
            text=f"the env's Python is not there: `{python}`",
            remedy=_with_python(view),
        )


def _with_python(view: View) -> str:
    """Return what gives an env a Python: `repair` makes a venv only where there is none at all."""
    prefix, torch = view.start.prefix, view.start.record.lock.part("torch")
    if torch is None:
        return "an env has a Python of its own with `--torch` or `--zluda`"
    if not (prefix.path / torch.into / "pyvenv.cfg").exists():
        return f"rocenv repair {view.env}"
    return rebuild_command(prefix.free_name(), str(prefix.lock_file))


def shims_in_place(view: View) -> Iterator[Concern]:
    """The files that ZLUDA is loaded from: those that stand for CUDA's by hash, AMD's large ones by size."""
    start = view.start
    prefix, lock = start.prefix, start.record.lock
    files = prefix.files(start.record)
    in_torch = start.record.shims_in_torch
    build = zluda_of(lock)
    hashed = {shim.path for shim in shims_of(lock, in_torch=in_torch)}
    if build is not None and build.shims is not None:
        hashed |= {f"{build.into}/{name}" for name in build.shims.driver}
    wanted = hashed | set(preload(lock, files, in_torch=in_torch))
    for path in sorted(wanted & set(files)):
        is_there, is_same = _compared(prefix.path / path, files[path], whole=path in hashed)
        if is_same:
            continue
        what = "has been changed" if is_there else "is missing; antivirus programs take such files away"
        yield Concern(
            code="shim-changed" if is_there else "shim-missing",
            severity="error",
            text=f"`{path}` of the env {what}",
            remedy=f"rocenv repair {view.env}",
        )


def others_on_path(view: View) -> Iterator[Concern]:
    """Another ZLUDA or CUDA driver on PATH; the env's own folders come first there."""
    start = view.start
    build = zluda_of(start.record.lock)
    drivers = build.shims.driver if build and build.shims else ()
    is_behind = False
    for entry in filter(None, start.environ.get("PATH", "").split(os.pathsep)):
        folder = Path(entry)
        if _within(folder, start.prefix.path):
            is_behind = True
        elif found := next((name for name in drivers if os.path.isfile(folder / name)), ""):
            where = "behind the env's own" if is_behind else "before the env's own"
            yield Concern(
                code="other-zluda",
                severity="note" if is_behind else "warning",
                text=f"another `{found}` lies in `{folder}`, which is on PATH {where}",
                remedy="" if is_behind else f"take `{folder}` out of PATH",
            )


def hip_elsewhere(view: View) -> Iterator[Concern]:
    """A HIP SDK that the machine's own variables lead to."""
    start = view.start
    for name in ("HIP_PATH", "ROCM_PATH"):
        outside, inside = start.outside.get(name, ""), start.environ.get(name, "")
        if outside and outside != inside:
            yield Concern(
                code="hip-path",
                severity="note",
                text=f"{name} of this machine is `{outside}`; in the env it is {_quoted(inside)}",
            )


def right_gpu(view: View) -> Iterator[Concern]:
    """The GPU of the set is there, and programs get it first."""
    start, host = view.start, view.host
    targets = start.record.lock.targets
    if not all(targets):  # a compiler is for many
        return
    named = " or ".join(targets)
    if not any(gpu.target in targets for gpu in host.gpus):
        there = ", ".join(gpu.target or gpu.name or "one not known" for gpu in host.gpus) or host.why
        yield Concern(
            code="no-gpu",
            severity="warning",
            text=f"the env is for {named}, and this machine has no such GPU: {there}",
            remedy="rocenv gpus",
        )
        return
    wanted, is_set = host.visible_devices(*targets), start.environ.get(VISIBLE, "")
    if wanted and is_set.split(",")[0] != wanted.split(",")[0]:
        yield Concern(
            code="wrong-gpu-first",
            severity="warning",
            text=f"programs take another GPU than the {named} first"
            + (f": {VISIBLE} is {is_set}" if is_set else ""),
            remedy=_putting_first(view, wanted),
        )


def _putting_first(view: View, wanted: str) -> str:
    """Return the command after which programs take another GPU first."""
    prefix, lock = view.start.prefix, view.start.record.lock
    if not any(change.name == VISIBLE for change in lock.environment):
        return f"set {VISIBLE}={wanted}" if WINDOWS else f"export {VISIBLE}={wanted}"
    # What the env sets counts, not what is set outside; made again, it is set for this machine's GPUs.
    return rebuild_command(prefix.free_name(), str(prefix.lock_file))


def last_proof(view: View) -> Iterator[Concern]:
    """What `verify` found."""
    last = view.start.prefix.verification()
    if last is None:
        yield Concern(
            code="not-verified",
            severity="warning",
            text="the env was never verified",
            remedy=f"rocenv verify {view.env}",
        )
        return
    if last.broken:
        yield Concern(
            code="verify-failed",
            severity="warning",
            text=f"`{last.broken[0].rung}` did not pass when the env was last verified",
            remedy=f"rocenv verify {view.env}",
        )


def known_to_fail(view: View) -> Iterator[Concern]:
    """What the matrix says of the set, with this machine's driver."""
    for row in known_broken(view.start.record.lock, view.matrix, view.machine.driver)[:1]:
        yield Concern(
            code=row.code or "known-broken",
            severity="warning",
            text=f"this set is known to fail: {row.what} ({row.source.partition(';')[0]})",
            remedy=view.another() or row.remedy,
        )


def _quoted(text: str) -> str:
    return f"`{text}`" if text else "not set"


def _within(path: Path, folder: Path) -> bool:
    whole, inner = os.path.normcase(os.path.abspath(folder)), os.path.normcase(os.path.abspath(path))
    return inner == whole or inner.startswith(whole + os.sep)


def _compared(path: Path, entry: FileEntry, *, whole: bool) -> tuple[bool, bool]:
    """Return whether a file can be read, and whether it is as it was recorded."""
    try:
        if path.stat().st_size != entry.size_bytes:
            return True, False
        return True, not whole or sha256_of(path) == entry.sha256
    except OSError:
        return False, False

"""Checks of an env and of the machine that it is to work on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.launch.view import Concern
from rocenv.model import VISIBLE
from rocenv.preload import preload, shims_of
from rocenv.resolve.known import known_broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.launch.view import View

_CUDA_DRIVER = "nvcuda.dll"
_WRONG = ("failed", "crashed", "timeout")


def python_there(view: View) -> Iterator[Concern]:
    """The env's own Python."""
    start = view.start
    if str(start.prefix.venv_python) in start.words and not start.prefix.venv_python.exists():
        yield Concern(
            code="python-missing",
            severity="error",
            text=f"the env's Python is not there: `{start.prefix.venv_python}`",
            remedy=f"rocenv repair {view.env}"
            if any(part.kind == "torch" for part in start.record.lock.components)
            else "an env has a Python of its own with `--torch` or `--zluda`",
        )


def shims_in_place(view: View) -> Iterator[Concern]:
    """The files that ZLUDA is loaded from, by their hashes."""
    start = view.start
    prefix, lock = start.prefix, start.record.lock
    files = prefix.files(start.record)
    in_torch = start.record.shims_in_torch
    wanted = {shim.path for shim in shims_of(lock, in_torch=in_torch)}
    wanted |= set(preload(lock, files, in_torch=in_torch))
    for path in sorted(wanted & set(files)):
        found = _sha256(prefix.path / path)
        if found == files[path].sha256:
            continue
        what = "has been changed" if found else "is missing; antivirus programs take such files away"
        yield Concern(
            code="shim-changed" if found else "shim-missing",
            severity="error",
            text=f"`{path}` of the env {what}",
            remedy=f"rocenv repair {view.env}",
        )


def others_on_path(view: View) -> Iterator[Concern]:
    """Another ZLUDA or CUDA driver on PATH; the env's own folders come first there."""
    start = view.start
    if start.zluda is None:
        return
    is_behind = False
    for entry in filter(None, start.environ.get("PATH", "").split(os.pathsep)):
        folder = Path(entry)
        if _within(folder, start.prefix.path):
            is_behind = True
        elif (folder / _CUDA_DRIVER).is_file():
            where = "behind the env's own" if is_behind else "before the env's own"
            yield Concern(
                code="other-zluda",
                severity="note" if is_behind else "warning",
                text=f"another `{_CUDA_DRIVER}` lies in `{folder}`, which is on PATH {where}",
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
    target = start.record.lock.target
    if not any(gpu.target == target for gpu in host.gpus):
        there = ", ".join(gpu.target or gpu.name or "one not known" for gpu in host.gpus) or host.why
        yield Concern(
            code="no-gpu",
            severity="warning",
            text=f"the env is for {target}, and this machine has no such GPU: {there}",
            remedy="rocenv gpus",
        )
        return
    wanted, is_set = host.visible_devices(target), start.environ.get(VISIBLE, "")
    if wanted and is_set.split(",")[0] != wanted.split(",")[0]:
        yield Concern(
            code="wrong-gpu-first",
            severity="warning",
            text=f"programs take another GPU than the {target} first"
            + (f": {VISIBLE} is {is_set}" if is_set else ""),
            remedy=f"set {VISIBLE} to {wanted}",
        )


def last_proof(view: View) -> Iterator[Concern]:
    """What `verify` found."""
    try:
        found = json.loads((view.start.prefix.own / "verified.json").read_bytes())
        wrong = [each["rung"] for each in found["rungs"] if each["status"] in _WRONG]
    except (OSError, ValueError, KeyError, TypeError):
        yield Concern(
            code="not-verified",
            severity="warning",
            text="the env was never verified",
            remedy=f"rocenv verify {view.env}",
        )
        return
    if wrong:
        yield Concern(
            code="verify-failed",
            severity="warning",
            text=f"`{wrong[0]}` did not pass when the env was last verified",
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


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while data := stream.read(1 << 20):
                digest.update(data)
    except OSError:
        return ""
    return digest.hexdigest()

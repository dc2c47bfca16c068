"""Compiled kernels that are kept: one folder each, under a hash of all that went into it.

What is known about a kernel, its hash included, is sealed: GPUs run nothing that somebody else has put there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.core.model import Value
from rocenv.kernels.check import Checked, check
from rocenv.kernels.compile import compile_kernel
from rocenv.kernels.source import content_hash
from rocenv.system.files import move, remove_tree, storage_errors
from rocenv.system.locks import locked
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.compilers import Toolchain
    from rocenv.core.progress import Progress
    from rocenv.data.recipes import CodeObjects
    from rocenv.home import Home
    from rocenv.kernels.recipe import Job

_FORM = 1  # of the entries
_KERNEL, _NOTE = "kernel", "entry.json"


class Entry(Value, frozen=True, kw_only=True):
    """What is known about a kept kernel."""

    app: str
    kind: str
    version: str
    target: str
    compiler: str
    sha256: str
    kernels: int
    flags: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A kernel, as it was compiled or kept."""

    entry: Entry
    content: bytes
    fresh: bool  # compiled just now
    path: Path  # of the kept file


def folder_of(home: Home) -> Path:
    """Return where kernels are kept."""
    return home.kernels


def made(
    job: Job,
    toolchain: Toolchain,
    compiler: str,
    home: Home,
    progress: Progress,
    rows: Sequence[CodeObjects],
    tell: Callable[[str], None],
) -> Made:
    """Return a kernel, compiled where none is kept that was made of the same.

    Args:
        job: What to compile.
        toolchain: The compiler.
        compiler: What it says it is.
        home: Where kernels are kept.
        progress: Where the clock is shown.
        rows: How code for GPUs is marked.
        tell: Says one line.

    Raises:
        RocenvError: The compiler failed, or made something else.
        PrefixError: The disk is full, or nothing can be written there.
    """
    key = _key(job, compiler, toolchain)
    folder = folder_of(home)
    place = folder / key
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        waiting = f"waiting for another rocenv, which compiles the {job.title}"
        with locked(home.lock("kernel", key), waiting=waiting):
            kept = _kept(place, job.target, home.key)
            if kept is not None:
                return kept
            if place.exists():
                tell(f"the kept {job.title} is damaged or from elsewhere (`{place}`): compiling it again")
                remove_tree(place)
            return _compiled(job, toolchain, compiler, place, home.key, progress, rows)


def _compiled(
    job: Job,
    toolchain: Toolchain,
    compiler: str,
    place: Path,
    key_file: Path,
    progress: Progress,
    rows: Sequence[CodeObjects],
) -> Made:
    remove_old(place.parent)
    log = place.parent / f"{place.name}.log"
    with tempfile.TemporaryDirectory(
        prefix=".building-", dir=place.parent, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "work").mkdir()
        usual_s = usual_seconds(place.parent, job, key_file)
        begin = time.monotonic()
        content = compile_kernel(toolchain, job, folder / "work", log, progress, usual_s)
        seconds = round(time.monotonic() - begin, 1)
        entry = _entry(job, compiler, content, check(content, job.target, rows), seconds)
        done = folder / place.name  # a seal holds for the name of the folder
        done.mkdir()
        (done / _KERNEL).write_bytes(content)
        note = json.dumps({"form": _FORM, **to_plain(entry)}, indent=1)
        write_sealed(done / _NOTE, note.encode(), key_file)
        move(done, place)
    with contextlib.suppress(OSError):
        log.unlink()
    return Made(entry=entry, content=content, fresh=True, path=place / _KERNEL)


def _entry(job: Job, compiler: str, content: bytes, checked: Checked, seconds: float) -> Entry:
    return Entry(
        app=job.installation.row.app,
        kind=job.recipe.kind,
        version=job.version,
        target=job.target,
        compiler=compiler,
        sha256=hashlib.sha256(content).hexdigest(),
        kernels=checked.kernels,
        flags=checked.flags,
        seconds=seconds,
    )


def _key(job: Job, compiler: str, toolchain: Toolchain) -> str:
    # Flags name paths; the same source elsewhere is compiled to the same.
    flags = [flag.replace(str(job.installation.source), "{source}") for flag in job.flags]
    if job.include is not None:
        flags = [flag.replace(str(job.include), "{include}") for flag in flags]
    libraries = content_hash(toolchain.device_libs) if toolchain.device_libs is not None else ""
    parts = [str(_FORM), job.source_hash, job.headers_hash, job.recipe.file, job.target, compiler, libraries]
    parts += flags
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _read(place: Path, key_file: Path) -> Entry | None:
    try:
        plain = parse_json(read_sealed(place / _NOTE, key_file), str(place / _NOTE))
        if not isinstance(plain, dict) or plain.pop("form", None) != _FORM:
            return None
        return from_plain(Entry, plain, str(place / _NOTE))
    except (OSError, DataError):
        return None


def _kept(place: Path, target: str, key_file: Path) -> Made | None:
    entry = _read(place, key_file)
    if entry is None:
        return None
    try:
        content = (place / _KERNEL).read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != entry.sha256 or entry.target != target:
        return None
    return Made(entry=entry, content=content, fresh=False, path=place / _KERNEL)


def usual_seconds(folder: Path, job: Job, key_file: Path) -> float:
    """Return what compiling such a kernel took last time, else what the recipe says; 0 = unknown."""
    found: list[tuple[float, float]] = []
    for place in folder.iterdir():
        entry = _read(place, key_file)
        if entry is not None and (entry.app, entry.kind) == (job.installation.row.app, job.recipe.kind):
            with contextlib.suppress(OSError):
                found.append((os.path.getmtime(place), entry.seconds))
    return max(found)[1] if found else float(job.recipe.seconds)


_ABANDONED_AFTER_S = 86400.0


def remove_old(folder: Path) -> None:
    """Remove what killed runs left, after a day: whoever still works there is not disturbed."""
    for place in folder.glob(".building-*"):
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > _ABANDONED_AFTER_S:
                remove_tree(place)

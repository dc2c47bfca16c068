"""The cache for compiled kernels: one folder per kernel, named after a hash of its inputs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.core.model import Value
from rocenv.kernels import APP
from rocenv.kernels.compile import check, compile_kernel
from rocenv.kernels.placed import content_hash
from rocenv.system.files import move, remove_tree, storage_errors
from rocenv.system.locks import locked
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rocenv.compilers import Toolchain
    from rocenv.context import Context
    from rocenv.core.progress import Progress
    from rocenv.data.recipes import CodeObjects
    from rocenv.home import Home
    from rocenv.install.bundle import Bundle
    from rocenv.kernels.recipe import Job

_FORM = 1  # version of the entry format
_KERNEL, _ENTRY = "kernel", "entry.json"
_ABANDONED_AFTER_S = 86400.0
_MAX_ENTRY_BYTES, _MAX_KERNEL_BYTES = 64 << 10, 256 << 20


class Entry(Value, frozen=True, kw_only=True):
    """A cached kernel's record."""

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
class CompiledKernel:
    """A kernel, compiled just now or from the cache."""

    entry: Entry
    content: bytes
    fresh: bool  # compiled just now
    path: Path  # the file in the cache


def cached_or_compiled(
    job: Job,
    toolchain: Toolchain,
    compiler: str,
    home: Home,
    progress: Progress,
    rows: Sequence[CodeObjects],
    report: Callable[[str], None],
) -> CompiledKernel:
    """Return a kernel from the cache, or compile it and add it to the cache.

    If several processes need the same kernel, one compiles it and the others wait.

    Args:
        job: What to compile.
        toolchain: The compiler.
        compiler: The version that the compiler prints.
        home: The home with the cache.
        progress: Shows the elapsed time.
        rows: The ELF flags for GPU code, by target.
        report: Receives messages for the user.

    Raises:
        RocenvError: The compiler failed, or its output is not a kernel for the target.
        PrefixError: The disk is full or read-only.
    """
    key = _key(job, compiler, toolchain)
    place = home.kernels / key
    with storage_errors(home.kernels):
        home.kernels.mkdir(parents=True, exist_ok=True)
        waiting = f"waiting for another rocenv process that is compiling the {job.title}"
        with locked(home.lock("kernel", key), waiting=waiting):
            if (cached := _cached(place, job.target, home.key)) is not None:
                return cached
            if place.exists():
                report(f"the cached {job.title} (`{place}`) is damaged or not from this home; recompiling it")
                remove_tree(place)
            return _compile(job, toolchain, compiler, place, home.key, progress, rows)


def _compile(
    job: Job,
    toolchain: Toolchain,
    compiler: str,
    place: Path,
    key_file: Path,
    progress: Progress,
    rows: Sequence[CodeObjects],
) -> CompiledKernel:
    _remove_abandoned(place.parent)
    log = place.parent / f"{place.name}.log"
    with tempfile.TemporaryDirectory(
        prefix=".building-", dir=place.parent, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "work").mkdir()
        begin = time.monotonic()
        content = compile_kernel(toolchain, job, folder / "work", log, progress)
        seconds = round(time.monotonic() - begin, 1)
        checked = check(content, job.target, rows)
        entry = Entry(
            app=APP,
            kind=job.recipe.kind,
            version=job.version,
            target=job.target,
            compiler=compiler,
            sha256=hashlib.sha256(content).hexdigest(),
            kernels=checked.kernels,
            flags=checked.flags,
            seconds=seconds,
        )
    _keep(place, entry, content, key_file)
    with contextlib.suppress(OSError):
        log.unlink()
    return CompiledKernel(entry=entry, content=content, fresh=True, path=place / _KERNEL)


def _key(job: Job, compiler: str, toolchain: Toolchain) -> str:
    # Flags contain paths, but the same source compiles to the same kernel in any folder.
    flags = [flag.replace(str(job.installation.source), "{source}") for flag in job.flags]
    if job.include is not None:
        flags = [flag.replace(str(job.include), "{include}") for flag in flags]
    libraries = content_hash(toolchain.device_libs) if toolchain.device_libs is not None else ""
    parts = [str(_FORM), job.source_hash, job.headers_hash, job.recipe.file, job.target, compiler, libraries]
    return hashlib.sha256("\0".join([*parts, *flags]).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _cached(place: Path, target: str, key_file: Path) -> CompiledKernel | None:
    path = place / _ENTRY
    try:
        plain = parse_json(read_sealed(path, key_file), str(path))
        if not isinstance(plain, dict) or plain.pop("form", None) != _FORM:
            return None
        entry = from_plain(Entry, plain, str(path))
        content = (place / _KERNEL).read_bytes()
    except (OSError, DataError):
        return None
    if hashlib.sha256(content).hexdigest() != entry.sha256 or entry.target != target:
        return None
    return CompiledKernel(entry=entry, content=content, fresh=False, path=place / _KERNEL)


def export(home: Home, app: str, targets: Collection[str]) -> dict[str, bytes | Path]:
    """Return an app's cached kernels for these targets as bundle members, by name."""
    found: dict[str, bytes | Path] = {}
    for place in sorted(home.kernels.glob("*/")) if app else ():
        for target in targets:
            if (kept := _cached(place, target, home.key)) is not None and kept.entry.app == app:
                found[f"kernels/{place.name}/{_ENTRY}"] = json.dumps(to_plain(kept.entry)).encode()
                found[f"kernels/{place.name}/{_KERNEL}"] = kept.path
    return found


def import_bundled(bundle: Bundle, context: Context) -> None:
    """Add a bundle's kernels to the cache, except those that are already cached.

    Raises:
        DataError: A member was changed, or does not match its entry.
        RocenvError: A member is not a kernel for its target.
    """
    home = context.home
    for member in bundle.sections:
        folder, _, name = member.rpartition("/")
        if not folder.startswith("kernels/") or name != _KERNEL:
            continue
        plain = parse_json(bundle.content(f"{folder}/{_ENTRY}", _MAX_ENTRY_BYTES), folder)
        entry = from_plain(Entry, plain, folder)
        content = bundle.content(member, _MAX_KERNEL_BYTES)
        checked = check(content, entry.target, context.matrix.code_objects)
        if (checked.kernels, hashlib.sha256(content).hexdigest()) != (entry.kernels, entry.sha256):
            raise DataError(f"the kernel in `{folder}` does not match its entry")
        key = folder.removeprefix("kernels/")
        place = home.kernels / key
        with storage_errors(home.kernels):
            home.kernels.mkdir(parents=True, exist_ok=True)
            with locked(home.lock("kernel", key)):
                if _cached(place, entry.target, home.key) is None:
                    remove_tree(place)
                    _keep(place, entry, content, home.key)


def _keep(place: Path, entry: Entry, content: bytes, key_file: Path) -> None:
    """Write a cache entry; its seal covers the folder name."""
    with tempfile.TemporaryDirectory(
        prefix=".building-", dir=place.parent, ignore_cleanup_errors=True
    ) as name:
        done = Path(name) / place.name
        done.mkdir()
        (done / _KERNEL).write_bytes(content)
        plain = json.dumps({"form": _FORM, **to_plain(entry)}, indent=1)
        write_sealed(done / _ENTRY, plain.encode(), key_file)
        move(done, place)


def _remove_abandoned(folder: Path) -> None:
    """Remove leftovers from killed processes once they are a day old."""
    for place in folder.glob(".building-*"):
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > _ABANDONED_AFTER_S:
                remove_tree(place)

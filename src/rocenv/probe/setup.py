"""Prepare a run of the ladder for an env on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.activate.changes import apply
from rocenv.activate.env import changes_for_user
from rocenv.activate.loader import argv_in
from rocenv.prefix import library_folders
from rocenv.preload import folders_of, preload, zluda_of
from rocenv.probe.ladder import Probe
from rocenv.probe.wire import Task
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Collection

    from rocenv.core.model import Component, Lock, Record
    from rocenv.data.releases import CLibrary
    from rocenv.prefix import Prefix


def probe_of(
    prefix: Prefix, record: Record, c_library: CLibrary, *, target: str, work_dir: Path, timeout_s: float
) -> Probe:
    """Prepare the checks of a complete env, whose code must be for `target`.

    The libraries in `c_library` come from the system, unless the set includes its own C library.
    """
    files = prefix.files(record)
    lock = record.lock
    environ = apply(changes_for_user(lock, str(prefix.path), os.environ), os.environ, lock.platform)
    return Probe(
        task=Task(
            target=target,
            prefix=str(prefix.path),
            libraries=_zluda_libraries(prefix, record, files) or _libraries(prefix, lock, files),
            work_dir=str(work_dir),
            expected={
                role: version
                for part in lock.components
                if part.layout is not None
                for role, version in part.layout.runtime.items()
            },
            runtime="cuda" if zluda_of(lock) else "hip",
            preload=tuple(
                _native(prefix, path) for path in preload(lock, files, in_torch=record.shims_in_torch)
            ),
            search=tuple(_native(prefix, path) for path in folders_of(lock)),
            known=tuple(sorted(_names(lock, files))),
            allowed_outside=() if record.loader else c_library.files,
            system_dirs=_system_dirs(),
            seed=int.from_bytes(os.urandom(4), "big"),
            **_lookup(prefix, lock),
        ),
        python=argv_in(prefix, record, [sys.executable], environ),
        environ=environ,
        timeout_s=timeout_s,
        torch_python=(str(prefix.path / lock.python),) if lock.part("torch") else (),
    )


def first_run_s(lock: Lock) -> int:
    """Return the maximum duration, in seconds, of a set's first use, or 0 for the usual maximum."""
    build = zluda_of(lock)
    return build.shims.first_run_s if build is not None and build.shims is not None else 0


def _native(prefix: Prefix, path: str) -> str:
    return str(prefix.path.joinpath(*path.split("/")))


def _lookup(prefix: Prefix, lock: Lock) -> dict[str, Any]:
    """Return the child's parameters for querying the env's `rocm_sdk`, or {} unless ROCm comes as wheels."""
    rocm = lock.part("rocm")
    if rocm is None or not rocm.is_wheels:
        return {}
    python, script = prefix.path / lock.python, Path(__file__).with_name("rocm_lookup.py")
    return {
        "lookup": (str(python), "-I", str(script)),
        # In early releases, package versions such as `0.1.dev0` differ from the release's version.
        "release": next((each.version for each in rocm.artifacts if each.name == "rocm"), ""),
        "repair": shell_join("rocenv", "repair", prefix.name),
    }


def _names(lock: Lock, files: Collection[str]) -> set[str]:
    """Collect the names of ROCm's libraries, and of all libraries outside the env's venv."""
    mark = ".dll" if WINDOWS else ".so"
    folders = tuple(f"{folder}/" for part in lock.components for folder in _own_folders(part) if folder)
    return {path.rpartition("/")[2] for path in files if path.startswith(folders) and mark in path.lower()}


def _own_folders(part: Component) -> tuple[str, ...]:
    """Return the folders whose libraries must come from the env; in a venv, only some folders qualify."""
    if part.is_wheels:
        return part.layout.library_dirs if part.layout else ()
    return (part.into,)


def _libraries(prefix: Prefix, lock: Lock, files: Collection[str]) -> dict[str, str]:
    """Map roles to absolute paths; a missing library maps to its expected path."""
    found = {}
    folders = [folder.relative_to(prefix.path).as_posix() for folder in library_folders(prefix, lock)]
    for component in lock.components:
        for role, name in (component.layout.libraries if component.layout else {}).items():
            there = (f"{folder}/{name}" for folder in folders if f"{folder}/{name}" in files)
            found[role] = _native(prefix, next(there, f"{folders[0]}/{name}"))
    return found


def _zluda_libraries(prefix: Prefix, record: Record, files: Collection[str]) -> dict[str, str]:
    """Map ZLUDA's roles to paths; {} without ZLUDA."""
    build = zluda_of(record.lock)
    if build is None or build.layout is None or build.shims is None:
        return {}
    loaded = {
        path.rpartition("/")[2]: path for path in preload(record.lock, files, in_torch=record.shims_in_torch)
    }
    names = dict(build.layout.libraries)
    found = {role: _native(prefix, loaded[name]) for role, name in names.items()}
    for name in build.shims.runtime[:1]:
        # If the SDK has no runtime, the display driver's is used.
        own = _native(prefix, loaded[name]) if name in loaded else ""
        found["hip"] = own or os.path.join(_system_dirs()[0], "System32", name)
    return found


def _system_dirs() -> tuple[str, ...]:
    """Return the folders that contain the system's libraries."""
    return (os.environ.get("SYSTEMROOT", r"C:\Windows"),) if WINDOWS else ()

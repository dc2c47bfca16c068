"""Inspect this process's mapped libraries, and redirect C output."""

from __future__ import annotations

import ctypes
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.probe import windows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.probe.wire import Task

# Each Windows C library has its own streams. Python uses the first library; mingw programs use the second,
# which comes with the system.
_C_LIBRARIES = ("ucrtbase", "msvcrt")


def keep_stdout() -> int:
    """Duplicate stdout, then redirect everything printed there to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        ctypes.CDLL(_C_LIBRARIES[1])._dup2(2, 1)
    # The parent expects UTF-8, for example in paths.
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    return out


def flush_c_streams() -> None:
    """Flush vendor libraries' output from C's stdio buffers."""
    for name in _C_LIBRARIES if sys.platform == "win32" else (None,):
        ctypes.CDLL(name).fflush(None)


def interposers(names: Iterable[str]) -> list[str]:
    """List the vendor functions that are defined before any vendor library is loaded.

    They come from a preloaded library and would be called instead of those in the prefix. Windows binds
    functions to libraries by name, so this cannot happen there.
    """
    if sys.platform == "win32":
        return []
    everything = ctypes.CDLL(None)
    return [name for name in names if hasattr(everything, name)]


def mapped_libraries() -> frozenset[str] | None:
    """Return the paths of mapped code, or None if they cannot be determined."""
    if sys.platform == "win32":
        # Resolve 8.3 names, and use the case on disk.
        return frozenset(map(os.path.realpath, windows.loaded_modules()))
    try:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return parse_maps(text)


def parse_maps(text: str) -> frozenset[str]:
    """Return the paths of mapped code: files with an executable part, and files named like libraries."""
    paths = set()
    # 7f11c000-7f11d000 r-xp 00000000 08:01 1234    /usr/lib/libfoo.so.1
    # 7f120000-7f130000 rwxs 10a000000 00:06 330    /dev/dri/renderD128
    # 7f140000-7f141000 rwxp 00000000 00:01 2055    /memfd:libffi (deleted)
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        path = fields[5].removesuffix(" (deleted)").replace("\\012", "\n")
        # Not all executable mappings are libraries: runtimes map GPU devices, and libffi closures use
        # anonymous files.
        generated = path != fields[5] or path.startswith("/dev/")
        if ("x" in fields[1] and not generated) or ".so" in os.path.basename(path):
            paths.add(path)
    return frozenset(paths)


def outsiders(before: frozenset[str], now: frozenset[str], task: Task, interpreter: str = "") -> list[str]:
    """List libraries that are mapped from the wrong folder, sorted.

    Libraries loaded since `before` must be in the prefix or be allowed outside it; earlier ones (the
    interpreter, a preloaded library) may be anywhere, unless their names also occur in the prefix. On
    Windows, virus scanners and overlays load libraries into any process, so only libraries whose names also
    occur in the prefix are checked. Libraries in the `interpreter` folder may be outside the prefix,
    because they are the interpreter's own.
    """
    prefix, own = _folders([task.prefix]), _folders([interpreter] if interpreter else [])
    others_load = bool(task.system_dirs)  # set on Windows only
    known = set(map(os.path.normcase, task.known))
    found = []
    for path in sorted(now):
        name = os.path.normcase(os.path.basename(path))
        if _below(path, prefix) or any(fnmatchcase(name, pattern) for pattern in task.allowed_outside):
            continue
        if path in before and _below(path, own):
            continue
        if name in known or (path not in before and not others_load):
            found.append(path)
    return found


def interpreter_folder() -> str:
    """Return the folder of a Python that bundles its C library, or "" if it uses the system's."""
    return sys.base_prefix if sys.platform == "win32" else ""


def _folders(paths: Iterable[str]) -> set[str]:
    return {os.path.normcase(os.path.realpath(path)).rstrip(os.sep) + os.sep for path in paths}


def _below(path: str, folders: set[str]) -> bool:
    return os.path.normcase(path).startswith(tuple(folders))

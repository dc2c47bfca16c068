"""The child's own process: the libraries that it has mapped, and what C code prints in it."""

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

# The C libraries of Windows keep streams of their own, each. Python uses the first; the second is loaded with
# the system's own libraries, and is the one of programs that mingw built.
_C_LIBRARIES = ("ucrtbase", "msvcrt")


def keep_stdout() -> int:
    """A descriptor of stdout, and let whatever is printed there from now on go to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        ctypes.CDLL(_C_LIBRARIES[1])._dup2(2, 1)
    # The parent reads UTF-8, in a path for instance.
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    return out


def flush_c_streams() -> None:
    """Write out what vendor libraries printed through C's stdio."""
    for name in _C_LIBRARIES if sys.platform == "win32" else (None,):
        ctypes.CDLL(name).fflush(None)


def interposers(names: Iterable[str]) -> list[str]:
    """Which of these functions this process offers before any vendor library was loaded.

    Such a function comes from a preloaded library, and would be called in place of the prefix's own. Windows
    binds functions to libraries by name, so that there it cannot be.
    """
    if sys.platform == "win32":
        return []
    everything = ctypes.CDLL(None)
    return [name for name in names if hasattr(everything, name)]


def mapped_libraries() -> frozenset[str] | None:
    """The paths of the code that this process has mapped, or None where that cannot be read."""
    if sys.platform == "win32":
        # Resolved: 8.3 names, and case as the disk has it.
        return frozenset(map(os.path.realpath, windows.loaded_modules()))
    try:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return parse_maps(text)


def parse_maps(text: str) -> frozenset[str]:
    """The paths of mapped code: files with an executable part, and what is named like a library."""
    paths = set()
    # 7f11c000-7f11d000 r-xp 00000000 08:01 1234    /usr/lib/libfoo.so.1
    # 7f120000-7f130000 rwxs 10a000000 00:06 330    /dev/dri/renderD128
    # 7f140000-7f141000 rwxp 00000000 00:01 2055    /memfd:libffi (deleted)
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        path = fields[5].removesuffix(" (deleted)").replace("\\012", "\n")
        # Executable, too: what runtimes get from the GPU's device files, and closures in nameless files.
        generated = path != fields[5] or path.startswith("/dev/")
        if ("x" in fields[1] and not generated) or ".so" in os.path.basename(path):
            paths.add(path)
    return frozenset(paths)


def outsiders(before: frozenset[str], now: frozenset[str], task: Task, interpreter: str = "") -> list[str]:
    """The mapped libraries that are not where they must be, sorted.

    What came in since `before` must lie in the prefix or be allowed outside; what was there already (the
    interpreter, a preloaded library) may lie anywhere. On Windows, where virus scanners and overlays load
    what they like into any process, that is asked only of libraries whose name the prefix has. Of such a
    name, only one in the folder `interpreter`, which came with it, may lie outside.
    """
    prefix, own = _folders([task.prefix]), _folders([interpreter] if interpreter else [])
    others_load = bool(task.system_dirs)  # only Windows has such folders
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
    """The folder of a Python that brings its own C library, "" where the machine's serves it."""
    return sys.base_prefix if sys.platform == "win32" else ""


def _folders(paths: Iterable[str]) -> set[str]:
    return {os.path.normcase(os.path.realpath(path)).rstrip(os.sep) + os.sep for path in paths}


def _below(path: str, folders: set[str]) -> bool:
    return os.path.normcase(path).startswith(tuple(folders))

"""Which libraries a process has mapped, and which of them came from the wrong place.

Reads `/proc/self/maps`, and on Windows asks for the list of loaded modules; where neither can be had, nothing
is known and nothing is said to be wrong.
"""

from __future__ import annotations

import os.path
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.probe import windows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.probe.wire import Task


def mapped_libraries() -> frozenset[str] | None:
    """Return the paths of the code that this process has mapped, or None where that cannot be read."""
    if sys.platform == "win32":
        # Resolved: 8.3 names, and case as the disk has it.
        return frozenset(map(os.path.realpath, windows.loaded_modules()))
    try:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return parse_maps(text)


def parse_maps(text: str) -> frozenset[str]:
    """Return the paths of mapped code: files with an executable part, and what is named like a library."""
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
    """Return the mapped libraries that are not where they must be, sorted.

    What came in since `before` must lie in the prefix or be allowed outside; what was there already (the
    interpreter, a preloaded library) may lie anywhere. On Windows, where virus scanners and overlays load
    what they like into any process, that is asked only of libraries whose name the prefix has. Of such a
    name, only one that the interpreter came with may lie outside.

    Args:
        before: Paths of what was mapped before any vendor library.
        now: The same, now.
        task: What the prefix has, and what may be outside.
        interpreter: The folder of an interpreter that brings its own C library, as on Windows; "" = none.
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
    """Return the folder of a Python that brings its own C library, "" where the machine's serves it."""
    return sys.base_prefix if sys.platform == "win32" else ""


def _folders(paths: Iterable[str]) -> set[str]:
    return {os.path.normcase(os.path.realpath(path)).rstrip(os.sep) + os.sep for path in paths}


def _below(path: str, folders: set[str]) -> bool:
    return os.path.normcase(path).startswith(tuple(folders))

"""Which libraries a process has mapped, and which of them came from the wrong place.

Reads `/proc/self/maps`; on a system without it nothing is known and nothing is said to be wrong.
"""

from __future__ import annotations

import os.path
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.probe.wire import Task


def mapped_libraries() -> frozenset[str] | None:
    """Return the paths of the code that this process has mapped, or None where that cannot be read."""
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


def outsiders(before: frozenset[str], now: frozenset[str], task: Task) -> list[str]:
    """Return the mapped libraries that are not where they must be, sorted.

    What came in since `before` must lie in the prefix or be allowed outside. What was there already (the
    interpreter, a preloaded library) may be the machine's, unless the prefix has a library of that name.
    """
    inside = os.path.realpath(task.prefix) + os.sep
    found = []
    for path in sorted(now):
        name = os.path.basename(path)
        if path.startswith(inside) or any(fnmatchcase(name, pattern) for pattern in task.allowed_outside):
            continue
        if path not in before or name in task.known:
            found.append(path)
    return found

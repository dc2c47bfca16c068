"""Find the runtime libraries that an app would load, in the env or on the machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.prefix import library_folders
from rocenv.system import machine

if TYPE_CHECKING:
    from rocenv.apps.context import LaunchContext

# Where the loader looks last. /etc/ld.so.conf adds folders that depend on the distribution.
_USUAL = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def found(view: LaunchContext, name: str) -> str:
    """Return a library's path, searching the env's folders first; "" if it is missing."""
    if name.startswith("/"):
        return name if machine.is_there(name) else ""
    own = [*map(str, library_folders(view.start.prefix, view.start.record.lock))]
    own += filter(None, view.start.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    inside = next((path for folder in own if os.path.isfile(path := os.path.join(folder, name))), "")
    return inside or next((path for each in _USUAL if machine.is_there(path := f"{each}/{name}")), "")


def is_own(view: LaunchContext, path: str) -> bool:
    """Whether a path, with links resolved, is inside the env."""
    own = view.start.prefix.path
    return bool(path) and any(
        each.startswith(str(folder) + os.sep)
        for each in (path, os.path.realpath(path))
        for folder in (own, os.path.realpath(own))
    )

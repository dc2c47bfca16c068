"""The child's own process: what C code prints in it, and what was put into it before any vendor library."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The C libraries of Windows keep streams of their own, each. Python uses the first; the second is loaded with
# the system's own libraries, and is the one of programs that mingw built.
_C_LIBRARIES = ("ucrtbase", "msvcrt")


def keep_stdout() -> int:
    """Return a descriptor of stdout, and let whatever is printed there from now on go to stderr."""
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
    """Return which of these functions this process offers before any vendor library was loaded.

    Such a function comes from a preloaded library, and would be called in place of the prefix's own. Windows
    binds functions to libraries by name, so that there it cannot be.
    """
    if sys.platform == "win32":
        return []
    everything = ctypes.CDLL(None)
    return [name for name in names if hasattr(everything, name)]

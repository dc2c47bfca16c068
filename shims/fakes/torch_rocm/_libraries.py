"""Load libtorch_hip, which finds ROCm's libraries by name because `_rocm_init` has loaded them."""

import ctypes
import os
import sys

from torch import _rocm_init

_NAME = "torch_hip.dll" if sys.platform == "win32" else "libtorch_hip.so"
_loaded = {}


def load():
    """Load the libraries; raise OSError on failure."""
    _rocm_init.initialize()
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", _NAME))
    library.standin_error.restype = ctypes.c_char_p
    _loaded["torch"] = library


def call(name, *arguments):
    """Call a libtorch_hip function; raise RuntimeError with torch's wording on failure."""
    library = _loaded["torch"]
    if getattr(library, name)(*arguments):
        raise RuntimeError(library.standin_error().decode(errors="replace"))


def tried(name, *arguments):
    """Call a libtorch_hip function and return whether it succeeded."""
    return getattr(_loaded["torch"], name)(*arguments) == 0

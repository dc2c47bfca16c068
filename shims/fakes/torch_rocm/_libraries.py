"""Loads libtorch_hip, which gets ROCm's libraries by their names: `_rocm_init` has loaded them before."""

import ctypes
import os
import sys

from torch import _rocm_init

_NAME = "torch_hip.dll" if sys.platform == "win32" else "libtorch_hip.so"
_loaded = {}


def load():
    """Load the libraries; raise OSError where one cannot be."""
    _rocm_init.initialize()
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", _NAME))
    library.standin_error.restype = ctypes.c_char_p
    _loaded["torch"] = library


def call(name, *arguments):
    """Call a function of libtorch_hip; raise RuntimeError, as torch words it, where it fails."""
    library = _loaded["torch"]
    if getattr(library, name)(*arguments):
        raise RuntimeError(library.standin_error().decode(errors="replace"))


def tried(name, *arguments):
    """Call a function of libtorch_hip and tell whether that went well."""
    return getattr(_loaded["torch"], name)(*arguments) == 0

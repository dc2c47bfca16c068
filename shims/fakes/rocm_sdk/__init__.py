"""Stands in for AMD's `rocm_sdk`, which finds and loads the libraries in AMD's wheels. For tests only."""

import ctypes
import importlib
import os
import re
import sys
import warnings
from pathlib import Path

from rocm_sdk import _dist_info
from rocm_sdk._dist_info import __version__

__all__ = ["__version__", "find_libraries", "initialize_process", "preload_libraries"]

_loaded = {}


def find_libraries(*shortnames):
    """Return the paths of libraries, except those for other systems and missing optional ones.

    Raises:
        ModuleNotFoundError: The library's package is not installed, or its name is unknown.
        FileNotFoundError: The package does not contain the library.
    """
    found = []
    for name in shortnames:
        if name not in _dist_info.LIBRARIES:
            raise ModuleNotFoundError(f"rocm_sdk does not contain the library {name!r}")
        package, so_pattern, dll_pattern, folder = _dist_info.LIBRARIES[name]
        pattern, folder = (dll_pattern, "bin") if sys.platform == "win32" else (so_pattern, folder)
        if not pattern:
            continue
        try:
            module = importlib.import_module(_dist_info.PACKAGES[package])
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{name} is missing: pip install rocm[{package}]") from error
        place = Path(module.__file__).parent / folder
        files = sorted(place.glob(pattern))
        if files:
            found.append(files[0])
        elif name not in _dist_info.OPTIONAL:
            raise FileNotFoundError(f"no {pattern} in {place}")
    return found


def preload_libraries(*shortnames, rtld_global=True):
    """Load libraries so that other libraries can find them by name."""
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for name in shortnames:
        for path in find_libraries(name) if name not in _loaded else ():
            _loaded[name] = ctypes.CDLL(str(path), mode=mode)


def initialize_process(
    *,
    preload_shortnames=None,
    rtld_global=True,
    env_override=True,
    check_version=None,
    fail_on_version_mismatch=False,
    **_,
):
    """Load a framework's libraries and those in ROCM_SDK_PRELOAD_LIBRARIES, and compare versions."""
    names = list(preload_shortnames or ())
    if env_override:
        names += re.findall(r"[^,;\s]+", os.getenv("ROCM_SDK_PRELOAD_LIBRARIES", ""))
    preload_libraries(*names, rtld_global=rtld_global)
    if not check_version:
        return
    if isinstance(check_version, str):
        check_version = re.compile(re.escape(check_version).replace(r"\*", ".*") + "$")
    if not check_version.match(__version__):
        message = f"built for ROCm {check_version.pattern}, but the installed ROCm is {__version__}"
        if fail_on_version_mismatch:
            raise RuntimeError(message)
        warnings.warn(message, stacklevel=2)

"""Load all DLLs in `torch/lib` by full path, as torch does, and call torch_cuda.dll."""

import ctypes
import glob
import os
import sys

_FOLDER = os.path.join(os.path.dirname(__file__), "lib")
_NO_BOXES = 1  # SEM_FAILCRITICALERRORS
_OWN_AND_ADDED_FOLDERS = 0x1100  # LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR
_NOT_FOUND = 126
_loaded = {}


def load():
    """Load the libraries; raise OSError with torch's wording on failure."""
    if sys.platform != "win32":
        raise OSError("this torch is for Windows")
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel32.LoadLibraryExW.argtypes = [ctypes.c_wchar_p, ctypes.c_void_p, ctypes.c_uint32]
    kernel32.LoadLibraryExW.restype = kernel32.LoadLibraryW.restype = ctypes.c_void_p
    kernel32.LoadLibraryW.argtypes = [ctypes.c_wchar_p]
    before = kernel32.SetErrorMode(_NO_BOXES)
    os.add_dll_directory(_FOLDER)
    for path in sorted(glob.glob(os.path.join(_FOLDER, "*.dll"))):
        _load(kernel32, path)
    kernel32.SetErrorMode(before)
    _loaded["torch_cuda"] = ctypes.CDLL(os.path.join(_FOLDER, "torch_cuda.dll"))
    _loaded["torch_cuda"].standin_error.restype = ctypes.c_char_p


def _load(kernel32, path):
    if kernel32.LoadLibraryExW(path, None, _OWN_AND_ADDED_FOLDERS):
        return
    number = ctypes.get_last_error()
    if number == _NOT_FOUND:  # retry with the folders in PATH
        if _FOLDER not in os.environ["PATH"]:
            os.environ["PATH"] = _FOLDER + ";" + os.environ["PATH"]
        if kernel32.LoadLibraryW(path):
            return
        number = ctypes.get_last_error()
    error = ctypes.WinError(number)
    error.strerror = f'{error.strerror} Error loading "{path}" or one of its dependencies.'
    raise error


def call(name, *arguments):
    """Call a torch_cuda.dll function; raise RuntimeError with torch's wording on failure."""
    library = _loaded["torch_cuda"]
    if getattr(library, name)(*arguments):
        raise RuntimeError(library.standin_error().decode(errors="replace"))


def tried(name, *arguments):
    """Call a torch_cuda.dll function and return whether it succeeded."""
    return getattr(_loaded["torch_cuda"], name)(*arguments) == 0

"""Load vendor libraries with ctypes and check every call.

Only the child process of a rung imports this.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.probe.wire import CALLING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    StatusName = Callable[["Library", int], str]

SUCCESS = 0
# LOAD_WITH_ALTERED_SEARCH_PATH, which the env's startup code also uses to load libraries before torch:
# Windows then looks for dependencies among loaded libraries, in the library's own folder, in System32, and
# on PATH, which begins with the env's folders. ctypes' default excludes PATH, so nvcuda.dll failed to load
# if HIP was only on PATH; `winmode=0`, the usual workaround, excludes the library's own folder. Libraries
# from the wrong folder are detected later, in the list of loaded modules. Source: vladmandic/sdnext#4259;
# patientx/ComfyUI-Zluda#401;
# https://learn.microsoft.com/en-us/windows/win32/api/libloaderapi/nf-libloaderapi-loadlibraryexw
_WINMODE = 0x00000008
_ACCESS_VIOLATION = 0xC0000005
_ERROR_NOACCESS = 998  # LoadLibrary's error if the library crashed while initializing
# How ctypes on Windows reports a fault that it caught. OSError: exception: access violation reading
# 0x0000000000000000
_CAUGHT = re.compile(r"exception: (.*)")


class CallError(Exception):
    """A vendor library returned an error."""

    def __init__(self, call: str, number: int, name: str) -> None:
        super().__init__(f"{call} returned {number} {name}".rstrip())
        self.call = call
        self.number = number
        self.name = name


class Library:
    """A loaded vendor library.

    `prototypes` maps functions to argument types; all return a status, 0 for success. `name_of` returns
    the library's name for a status, or "" if there is none.

    Attributes:
        standin: Whether it is one of the fakes in `shims/fakes`.

    Raises:
        OSError: The library cannot be loaded.
    """

    def __init__(self, path: str, prototypes: Mapping[str, list[Any]], name_of: StatusName | None) -> None:
        self.path = path
        self._prototypes = prototypes
        self._name_of = name_of
        trace(f"dlopen {path}")
        try:
            # RTLD_NOW | RTLD_LOCAL; `winmode` matters only on Windows, and requires a path with `\`.
            self._library = ctypes.CDLL(os.path.normpath(path), winmode=_WINMODE)
        except OSError as error:
            if getattr(error, "winerror", None) == _ERROR_NOACCESS:
                _die(_ACCESS_VIOLATION, error)
            raise
        self.standin = self.has("rocenv_standin")

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        return hasattr(self._library, name)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """Return an exported function with these result and argument types."""
        function = self._library[name]
        function.restype, function.argtypes = result, list(arguments)
        return function

    def status_of(self, name: str, *arguments: Any) -> int:
        """Call a function and return its status."""
        if not self.has(name):
            raise CallError(name, -1, f"(not exported by {self.path})")
        function = self.function(name, ctypes.c_int, *self._prototypes[name])
        trace(name)
        try:
            status: int = function(*arguments)
        except OSError as error:
            # ctypes on Windows catches the callee's faults, but the process state is unusable afterward.
            _die(_fault_code(error), error)
        return status

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise CallError unless it succeeds."""
        self.check(name, self.status_of(name, *arguments))

    def check(self, name: str, status: int) -> None:
        """Raise CallError with the status name unless `status` is success."""
        if status != SUCCESS:
            raise CallError(name, status, self.status_name(status))

    def status_name(self, status: int) -> str:
        """Return the library's name for a status, or "" if there is none."""
        return self._name_of(self, status) if self._name_of else ""


def status_names_from(function: str) -> StatusName:
    """Return a function that gets the name of a status from the library's `const char* FUNCTION(status)`."""

    def status_name(library: Library, status: int) -> str:
        if not library.has(function):
            return ""
        name: bytes | None = library.function(function, ctypes.c_char_p, ctypes.c_int)(status)
        return (name or b"").decode("utf-8", "replace")

    return status_name


def trace(call: str) -> None:
    """Write the name of a call to stderr before the call, so that the last name locates a crash."""
    sys.stderr.write(f"{CALLING}{call}\n")
    sys.stderr.flush()


def _fault_code(error: OSError) -> int:
    code = getattr(error, "winerror", None)
    if isinstance(code, int):
        return code & 0xFFFFFFFF
    return _ACCESS_VIOLATION if _CAUGHT.search(str(error)) else 1


def _die(code: int, error: OSError) -> NoReturn:
    """Exit with the same code as if ctypes had not caught the fault."""
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()
    os._exit(code - (1 << 32) if code >= 1 << 31 else code)

"""Windows-specific parts of a child process: library search, explanations of load failures, crash locations.

On other systems these functions do nothing, and the loader explains load failures.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from rocenv.probe.device import Failure
from rocenv.probe.wire import FAULT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.probe.wire import Task

# Source: winerror.h
_MODULE_NOT_FOUND, _PROCEDURE_NOT_FOUND, _BAD_FORMAT, _INIT_FAILED = 126, 127, 193, 1114
_IMPORTS_AT_FAULT = (_MODULE_NOT_FOUND, _PROCEDURE_NOT_FOUND, _BAD_FORMAT)
# Exceptions that end a process unless it handles them: access violation, in-page error, illegal and
# privileged instruction, division by zero, heap corruption, stack buffer overrun, C's `abort`. Source:
# ntstatus.h
_FAULTS = (
    *(0xC0000005, 0xC0000006, 0xC000001D, 0xC0000096),
    *(0xC0000094, 0xC0000374, 0xC0000409, 0x40000015),
)

if sys.platform == "win32":
    from ctypes import wintypes

    class _Exception(ctypes.Structure):
        """The start of EXCEPTION_RECORD."""

        _fields_ = (
            ("code", wintypes.DWORD),
            ("flags", wintypes.DWORD),
            ("record", ctypes.c_void_p),
            ("address", ctypes.c_void_p),
        )

    class _Pointers(ctypes.Structure):
        _fields_ = (("record", ctypes.POINTER(_Exception)), ("context", ctypes.c_void_p))

    _FROM_ADDRESS, _UNCHANGED_COUNT = 4, 2
    _CONTINUE_SEARCH = 0
    _kernel = ctypes.WinDLL("kernel32")
    _module_from = _kernel.GetModuleHandleExW
    _module_from.argtypes = [wintypes.DWORD, ctypes.c_void_p, ctypes.POINTER(wintypes.HMODULE)]
    _name_of = _kernel.GetModuleFileNameW
    _name_of.argtypes = [wintypes.HMODULE, wintypes.LPWSTR, wintypes.DWORD]
    _enumerate = _kernel.K32EnumProcessModules
    _enumerate.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD, wintypes.LPDWORD]
    _kernel.GetCurrentProcess.restype = wintypes.HANDLE
    _LONGEST = 1 << 15  # maximum length of a path, in characters

    def loaded_modules() -> list[str]:
        """List the paths of this process's modules, starting with the program."""
        process = _kernel.GetCurrentProcess()
        needed, room = wintypes.DWORD(), 0
        while True:
            modules = (wintypes.HMODULE * room)()
            size = ctypes.sizeof(modules)
            if not _enumerate(process, modules, size, ctypes.byref(needed)):
                raise ctypes.WinError()
            if needed.value <= size:
                return [name for module in modules if (name := module_name(module))]
            room = needed.value // ctypes.sizeof(wintypes.HMODULE)

    def module_name(module: int | None) -> str:
        """Return the path of a loaded module, or "" if it has no path."""
        name = ctypes.create_unicode_buffer(_LONGEST)
        return name.value if _name_of(module, name, _LONGEST) else ""

    def _report(pointers: ctypes._Pointer[_Pointers]) -> int:
        record = pointers.contents.record.contents
        if record.code in _FAULTS:
            module = wintypes.HMODULE()
            flags = _FROM_ADDRESS | _UNCHANGED_COUNT
            known = _module_from(flags, record.address, ctypes.byref(module))
            name = module_name(module.value) if known else "code outside any library"
            os.write(2, f"{FAULT}0x{record.code:08X} in {name}\n".encode())
        return _CONTINUE_SEARCH

    _REPORT = ctypes.WINFUNCTYPE(wintypes.LONG, ctypes.POINTER(_Pointers))(_report)

    def search_in(folders: Iterable[str]) -> None:
        """Add these folders to Windows' DLL search path; raise Failure if one is missing."""
        for folder in folders:
            try:
                os.add_dll_directory(folder)
            except OSError as error:
                raise Failure(f"cannot search the set's folder `{folder}`: {error}") from error

    def explain(error: OSError, path: str, task: Task) -> str:
        """Explain why a library cannot be loaded, listing missing dependencies if possible."""
        if not os.path.exists(path):
            return f"file `{path}` does not exist"
        # For error 126, ctypes raises a FileNotFoundError that lacks the number.
        code = _MODULE_NOT_FOUND if isinstance(error, FileNotFoundError) else error.winerror
        if code == _INIT_FAILED:
            return f"its initialization failed (WinError {code}: {error.strerror})"
        if code not in _IMPORTS_AT_FAULT:
            return str(error)
        from rocenv.system.pe import explain_not_loading

        beside, path_dirs = os.path.dirname(path), os.environ.get("PATH", "").split(os.pathsep)
        folders = (beside, *path_dirs, *task.search)
        why = explain_not_loading(path, folders, (_system_folder(), *task.system_dirs))
        return f"WinError {code}: {why}"

    def _system_folder() -> str:
        name = ctypes.create_unicode_buffer(_LONGEST)
        _kernel.GetSystemDirectoryW(name, _LONGEST)
        return name.value

    def watch_faults() -> None:
        """On every fault, report its library on stderr before any handler runs."""
        add = _kernel.AddVectoredExceptionHandler
        add.argtypes = [wintypes.ULONG, ctypes.c_void_p]
        add(1, ctypes.cast(_REPORT, ctypes.c_void_p))

else:

    def search_in(folders: Iterable[str]) -> None:
        """Do nothing, because the loader knows where to search."""

    def explain(error: OSError, path: str, task: Task) -> str:
        """Return the loader's message, which says what is missing."""
        return str(error)

    def watch_faults() -> None:
        """Do nothing, because other systems report only the signal."""

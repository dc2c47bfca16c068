"""What only Windows needs of a child: where libraries look for others, why one does not load, what crashed.

On other systems these functions do nothing, and the loader's own words say why a library does not load.
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
# Exceptions that end a process unless it expects them: access violation, in-page error, illegal and
# privileged instruction, division by zero, heap corruption, stack buffer overrun, C's `abort`.
# Source: ntstatus.h
_FAULTS = (
    *(0xC0000005, 0xC0000006, 0xC000001D, 0xC0000096),
    *(0xC0000094, 0xC0000374, 0xC0000409, 0x40000015),
)

if sys.platform == "win32":
    from ctypes import wintypes

    class _Exception(ctypes.Structure):
        """The head of EXCEPTION_RECORD."""

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
    _LONGEST = 1 << 15  # of a path, in characters

    def loaded_modules() -> list[str]:
        """The paths of the modules of this process, the program first."""
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
        """The path of a loaded module, "" if it has none."""
        name = ctypes.create_unicode_buffer(_LONGEST)
        return name.value if _name_of(module, name, _LONGEST) else ""

    def _report(pointers: ctypes._Pointer[_Pointers]) -> int:
        record = pointers.contents.record.contents
        if record.code in _FAULTS:
            module = wintypes.HMODULE()
            flags = _FROM_ADDRESS | _UNCHANGED_COUNT
            known = _module_from(flags, record.address, ctypes.byref(module))
            name = module_name(module.value) if known else "code of no library"
            os.write(2, f"{FAULT}0x{record.code:08X} in {name}\n".encode())
        return _CONTINUE_SEARCH

    _REPORT = ctypes.WINFUNCTYPE(wintypes.LONG, ctypes.POINTER(_Pointers))(_report)

    def search_in(folders: Iterable[str]) -> None:
        """Let Windows look for libraries in these folders; raise Failure if one is not there."""
        for folder in folders:
            try:
                os.add_dll_directory(folder)
            except OSError as error:
                raise Failure(f"the folder `{folder}` of the set cannot be searched: {error}") from error

    def explain(error: OSError, path: str, task: Task) -> str:
        """Why a library does not load, with what is missing by name where that can be known."""
        if not os.path.exists(path):
            return f"there is no file `{path}`"
        # ctypes says what 126 means in words of its own, without the number.
        code = _MODULE_NOT_FOUND if isinstance(error, FileNotFoundError) else error.winerror
        if code == _INIT_FAILED:
            return f"its own start failed (WinError {code}: {error.strerror})"
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
        """Write the library in which a fault happens to stderr, before whoever expects it, or the end."""
        add = _kernel.AddVectoredExceptionHandler
        add.argtypes = [wintypes.ULONG, ctypes.c_void_p]
        add(1, ctypes.cast(_REPORT, ctypes.c_void_p))

else:

    def search_in(folders: Iterable[str]) -> None:
        """Do nothing: the loader knows where libraries look for others."""

    def explain(error: OSError, path: str, task: Task) -> str:
        """The loader's words, which name what is missing."""
        return str(error)

    def watch_faults() -> None:
        """Do nothing: elsewhere the signal says as much as can be known."""

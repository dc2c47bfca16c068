"""Take away one name of a file that is marked read-only.

On Windows the mark belongs to the file, and so to all its names: the store and other envs have some. Whoever
takes it off, to be allowed to remove one name, leaves the others writable.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    # Source: winnt.h, winbase.h, minwinbase.h (FILE_INFO_BY_HANDLE_CLASS)
    _ACCESS = 0x00010000 | 0x0100 | 0x0080  # DELETE, FILE_WRITE_ATTRIBUTES, FILE_READ_ATTRIBUTES
    _SHARED = 0x1 | 0x2 | 0x4  # FILE_SHARE_READ, …_WRITE, …_DELETE
    _OPEN_EXISTING = 3
    # The name itself, also where it is a link: FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS
    _FLAGS = 0x00200000 | 0x02000000
    _INVALID = wintypes.HANDLE(-1).value
    _BASIC, _DISPOSITION, _DISPOSITION_EX = 0, 4, 21
    _DELETE_MARKED = 0x1 | 0x2 | 0x10  # …_DELETE, …_POSIX_SEMANTICS, …_IGNORE_READONLY_ATTRIBUTE
    _READONLY, _NORMAL = 0x1, 0x80
    # What older Windows, file systems that are not NTFS, and Wine answer to what they do not know: ERROR_
    # INVALID_FUNCTION, …_NOT_SUPPORTED, …_INVALID_PARAMETER, …_CALL_NOT_IMPLEMENTED. Source: winerror.h
    _UNKNOWN = (1, 50, 87, 120)

    class _Basic(ctypes.Structure):
        """FILE_BASIC_INFO; what is 0 in it is left as it is."""

        _fields_ = (("times", ctypes.c_int64 * 4), ("attributes", wintypes.DWORD))

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateFileW.restype = wintypes.HANDLE
    _kernel.CreateFileW.argtypes = (
        wintypes.LPCWSTR,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.LPVOID,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.HANDLE,
    )
    for _call in (_kernel.SetFileInformationByHandle, _kernel.GetFileInformationByHandleEx):
        _call.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)

    def unlink_marked(path: Path) -> None:
        """Remove a name of a file that may be marked read-only; its other names stay as they are.

        Raises:
            OSError: It is not there, is in use, or may not be removed; as `unlink` raises it.
        """
        handle = _kernel.CreateFileW(str(path), _ACCESS, _SHARED, None, _OPEN_EXISTING, _FLAGS, None)
        if handle == _INVALID:
            raise _error(path)
        try:
            if _set(handle, _DISPOSITION_EX, wintypes.DWORD(_DELETE_MARKED)):
                return
            if ctypes.get_last_error() not in _UNKNOWN:
                raise _error(path)
            _unlink_unmarked(handle, path)
        finally:
            _kernel.CloseHandle(handle)

    def _unlink_unmarked(handle: int, path: Path) -> None:
        """Take the mark off, have the name removed when the handle is closed, put the mark back."""
        found = _Basic()
        if not _kernel.GetFileInformationByHandleEx(
            handle, _BASIC, ctypes.byref(found), ctypes.sizeof(found)
        ):
            raise _error(path)
        if not _set(handle, _BASIC, _Basic(attributes=found.attributes & ~_READONLY or _NORMAL)):
            raise _error(path)
        gone = _set(handle, _DISPOSITION, ctypes.c_ubyte(1))
        refusal = _error(path)
        marked = _set(handle, _BASIC, _Basic(attributes=found.attributes))
        if not gone:
            raise refusal
        if not marked:
            raise _error(path)

    def _set(handle: int, kind: int, value: ctypes.Structure | ctypes.c_ubyte | wintypes.DWORD) -> bool:
        return bool(
            _kernel.SetFileInformationByHandle(handle, kind, ctypes.byref(value), ctypes.sizeof(value))
        )

    def _error(path: Path) -> OSError:
        code = ctypes.get_last_error()
        return OSError(0, ctypes.FormatError(code).strip(), str(path), code)

else:

    def unlink_marked(path: Path) -> None:
        """Remove a name of a file; elsewhere a file's own mode does not matter for that."""
        path.unlink()

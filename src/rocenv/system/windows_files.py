"""File operations that differ on Windows.

The read-only attribute applies to a file and therefore to all its names, including those in the store and
other envs. Clearing it to remove one name would make the others writable. Also, nothing can replace or remove
a file while a program has it open.
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
    # Open the name itself, even if it is a link: FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS
    _FLAGS = 0x00200000 | 0x02000000
    _INVALID = wintypes.HANDLE(-1).value
    _BASIC, _DISPOSITION, _DISPOSITION_EX = 0, 4, 21
    _DELETE_READ_ONLY = 0x1 | 0x2 | 0x10  # …_DELETE, …_POSIX_SEMANTICS, …_IGNORE_READONLY_ATTRIBUTE
    _READONLY, _NORMAL = 0x1, 0x80
    # Errors for unsupported requests on older Windows versions, filesystems other than NTFS, and Wine:
    # ERROR_INVALID_FUNCTION, …_NOT_SUPPORTED, …_INVALID_PARAMETER, …_CALL_NOT_IMPLEMENTED. Source: winerror.h
    _UNKNOWN = (1, 50, 87, 120)

    class _BasicInfo(ctypes.Structure):
        """FILE_BASIC_INFO; a 0 leaves a field unchanged."""

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

    def unlink_read_only(path: Path) -> None:
        """Remove one of a file's names, even if the file is read-only; its other names are unaffected.

        Raises the same errors as `unlink`.
        """
        handle = _kernel.CreateFileW(str(path), _ACCESS, _SHARED, None, _OPEN_EXISTING, _FLAGS, None)
        if handle == _INVALID:
            raise _os_error(path)
        try:
            if _set_information(handle, _DISPOSITION_EX, wintypes.DWORD(_DELETE_READ_ONLY)):
                return
            if ctypes.get_last_error() not in _UNKNOWN:
                raise _os_error(path)
            _unlink_without_attribute(handle, path)
        finally:
            _kernel.CloseHandle(handle)

    def _unlink_without_attribute(handle: int, path: Path) -> None:
        """Clear the attribute, delete the name when the handle closes, and restore the attribute."""
        found = _BasicInfo()
        if not _kernel.GetFileInformationByHandleEx(
            handle, _BASIC, ctypes.byref(found), ctypes.sizeof(found)
        ):
            raise _os_error(path)
        if not _set_information(
            handle, _BASIC, _BasicInfo(attributes=found.attributes & ~_READONLY or _NORMAL)
        ):
            raise _os_error(path)
        gone = _set_information(handle, _DISPOSITION, ctypes.c_ubyte(1))
        refusal = _os_error(path)
        marked = _set_information(handle, _BASIC, _BasicInfo(attributes=found.attributes))
        if not gone:
            raise refusal
        if not marked:
            raise _os_error(path)

    def _set_information(
        handle: int, kind: int, value: ctypes.Structure | ctypes.c_ubyte | wintypes.DWORD
    ) -> bool:
        return bool(
            _kernel.SetFileInformationByHandle(handle, kind, ctypes.byref(value), ctypes.sizeof(value))
        )

    def _os_error(path: Path) -> OSError:
        code = ctypes.get_last_error()
        return OSError(0, ctypes.FormatError(code).strip(), str(path), code)

    _MAX_USERS = 64

    class _Process(ctypes.Structure):
        """RM_PROCESS_INFO."""

        _fields_ = (
            ("pid", wintypes.DWORD),
            ("started", wintypes.FILETIME),
            ("name", wintypes.WCHAR * 256),
            ("service", wintypes.WCHAR * 64),
            ("kind", ctypes.c_uint),
            ("status", wintypes.ULONG),
            ("session", wintypes.DWORD),
            ("restartable", wintypes.BOOL),
        )

    def users_of(path: str) -> tuple[str, ...]:
        """List the programs that are using a file, as `name (process 123)`, or () if none are known.

        Source: learn.microsoft.com, Restart Manager (RmStartSession, RmRegisterResources, RmGetList);
        restartmanager.h for RM_PROCESS_INFO
        """
        try:
            manager = ctypes.WinDLL("rstrtmgr")
        except OSError:
            return ()
        session, key = wintypes.DWORD(), ctypes.create_unicode_buffer(33)
        if manager.RmStartSession(ctypes.byref(session), 0, key):
            return ()
        try:
            return _list_users(manager, session, path)
        finally:
            manager.RmEndSession(session)

    def _list_users(manager: ctypes.WinDLL, session: wintypes.DWORD, path: str) -> tuple[str, ...]:
        names = (wintypes.LPCWSTR * 1)(path)
        if manager.RmRegisterResources(session, 1, names, 0, None, 0, None):
            return ()
        needed, count, reasons = wintypes.UINT(), wintypes.UINT(_MAX_USERS), wintypes.DWORD()
        found = (_Process * _MAX_USERS)()
        error = manager.RmGetList(
            session, ctypes.byref(needed), ctypes.byref(count), found, ctypes.byref(reasons)
        )
        return () if error else tuple(f"{each.name} (process {each.pid})" for each in found[: count.value])

else:

    def unlink_read_only(path: Path) -> None:
        """Remove one of a file's names; its mode does not matter on this system."""
        path.unlink()

    def users_of(path: str) -> tuple[str, ...]:
        """Return no programs, because open files can be replaced on this system."""
        return ()

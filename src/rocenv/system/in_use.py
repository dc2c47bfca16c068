"""Which programs have a file open: Windows lets nobody replace or remove it as long as one has."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _MOST = 64

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
        """Return the programs that use a file, as `name (process 123)`; empty where none, or nobody can tell.

        Source: learn.microsoft.com, Restart Manager (RmStartSession, RmRegisterResources, RmGetList);
        restartmanager.h for RM_PROCESS_INFO.
        """
        try:
            manager = ctypes.WinDLL("rstrtmgr")
        except OSError:
            return ()
        session, key = wintypes.DWORD(), ctypes.create_unicode_buffer(33)
        if manager.RmStartSession(ctypes.byref(session), 0, key):
            return ()
        try:
            return _asked(manager, session, path)
        finally:
            manager.RmEndSession(session)

    def _asked(manager: ctypes.WinDLL, session: wintypes.DWORD, path: str) -> tuple[str, ...]:
        names = (wintypes.LPCWSTR * 1)(path)
        if manager.RmRegisterResources(session, 1, names, 0, None, 0, None):
            return ()
        needed, count, reasons = wintypes.UINT(), wintypes.UINT(_MOST), wintypes.DWORD()
        found = (_Process * _MOST)()
        error = manager.RmGetList(
            session, ctypes.byref(needed), ctypes.byref(count), found, ctypes.byref(reasons)
        )
        return () if error else tuple(f"{each.name} (process {each.pid})" for each in found[: count.value])

else:

    def users_of(path: str) -> tuple[str, ...]:
        """Return nothing: elsewhere a file that is open can be replaced."""
        return ()

"""Windows Installer packages, read through the system's own library and without installing anything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile:
    """A file of a package."""

    key: str  # its name in the cabinet
    path: str  # where it would be installed, below the target folder, with `/`
    size_bytes: int
    cabinet: str  # which holds it: `#name` is a stream of the package, `name` a file beside it; "" = none


class MsiError(Exception):
    """A package cannot be read."""


def packed_files(package: Path) -> list[PackedFile]:
    """What a package would install, by its long names; the names are as they stand there, unchecked.

    Raises:
        MsiError: It cannot be read, or this is not Windows.

    Source: learn.microsoft.com, "File Table", "Directory Table", "Media Table"
    """
    directories = {
        row[0]: (row[1], row[2]) for row in _rows(package, "Directory", ("Directory_Parent", "DefaultDir"))
    }
    components = {row[0]: row[1] for row in _rows(package, "Component", ("Directory_",))}
    media = sorted(
        (int(row[0]), int(row[1]), row[2]) for row in _rows(package, "Media", ("LastSequence", "Cabinet"))
    )
    found = []
    for key, component, name, size, sequence in _rows(
        package, "File", ("Component_", "FileName", "FileSize", "Sequence")
    ):
        folder = _folder(components.get(component, ""), directories)
        cabinet = next((cabinet for _, last, cabinet in media if int(sequence) <= last), "")
        path = "/".join([*folder, _long(name)])
        found.append(PackedFile(key=key, path=path, size_bytes=int(size), cabinet=cabinet))
    return found


def _folder(key: str, directories: dict[str, tuple[str, str]]) -> list[str]:
    parts: list[str] = []
    seen = set()
    while key in directories and key not in seen:
        seen.add(key)
        parent, name = directories[key]
        # `target:source`; a root's name is a property, and `.` means the parent itself.
        own = _long(name.partition(":")[0])
        if parent and parent != key and own != ".":
            parts.insert(0, own)
        key = parent
    return parts


def _long(name: str) -> str:
    return name.rpartition("|")[2]


def _rows(package: Path, table: str, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A table's rows: its key, whose name is the table's (but for Media), and these columns."""
    key = "DiskId" if table == "Media" else table
    names = ", ".join(f"`{name}`" for name in (key, *columns))
    with _Database(package) as database:
        return [
            tuple(database.text(record, number) for number in range(1, len(columns) + 2))
            for record in database.records(f"SELECT {names} FROM `{table}`")
        ]


def save_stream(package: Path, name: str, destination: Path) -> None:
    """Write a stream of a package, such as a cabinet, to a file; raise MsiError where there is none."""
    query = f"SELECT `Data` FROM `_Streams` WHERE `Name` = '{name}'"
    with _Database(package) as database, destination.open("xb") as out:
        for record in database.records(query):
            for data in database.stream(record, 1):
                out.write(data)
            return
    raise MsiError(f"it has no stream `{name}`")


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _NO_MORE_ITEMS = 259
    _CHUNK_BYTES = 1 << 20

    class _Database:
        """A package that is open for reading; its handles are closed with it."""

        def __init__(self, package: Path) -> None:
            self._library = ctypes.WinDLL("msi.dll")
            self._handles: list[wintypes.ULONG] = []
            self._database = self._new("MsiOpenDatabaseW", ctypes.c_wchar_p(str(package)), None)

        def __enter__(self) -> _Database:
            return self

        def __exit__(self, *_error: object) -> None:
            while self._handles:
                self._library.MsiCloseHandle(self._handles.pop())

        def _call(self, name: str, *arguments: Any) -> None:
            code = getattr(self._library, name)(*arguments)
            if code:
                raise MsiError(f"{name} answers {code}")

        def _new(self, name: str, *arguments: Any) -> wintypes.ULONG:
            handle = wintypes.ULONG()
            self._call(name, *arguments, ctypes.byref(handle))
            self._handles.append(handle)
            return handle

        def records(self, query: str) -> Any:
            """Yield what a query finds."""
            view = self._new("MsiDatabaseOpenViewW", self._database, ctypes.c_wchar_p(query))
            self._call("MsiViewExecute", view, 0)
            while True:
                record = wintypes.ULONG()
                code = self._library.MsiViewFetch(view, ctypes.byref(record))
                if code == _NO_MORE_ITEMS:
                    return
                if code:
                    raise MsiError(f"MsiViewFetch answers {code}")
                try:
                    yield record
                finally:
                    self._library.MsiCloseHandle(record)

        def text(self, record: wintypes.ULONG, field: int) -> str:
            """A field as text, "" for nothing."""
            buffer = ctypes.create_unicode_buffer(1024)
            size = wintypes.DWORD(len(buffer))
            self._call("MsiRecordGetStringW", record, field, buffer, ctypes.byref(size))
            return buffer.value

        def stream(self, record: wintypes.ULONG, field: int) -> Any:
            """Yield the bytes of a field."""
            buffer = ctypes.create_string_buffer(_CHUNK_BYTES)
            while True:
                size = wintypes.DWORD(_CHUNK_BYTES)
                self._call("MsiRecordReadStream", record, field, buffer, ctypes.byref(size))
                if not size.value:
                    return
                yield buffer.raw[: size.value]

else:

    class _Database:
        """Stands for what only Windows has."""

        def __init__(self, package: Path) -> None:
            raise MsiError(f"`{package.name}` can be read on Windows only")

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

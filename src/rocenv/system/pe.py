"""Inspect Windows libraries and programs without loading them: versions, imports and missing DLLs."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Source: learn.microsoft.com, "PE Format", Machine Types
_MACHINES = {0x8664: "64-bit", 0x14C: "32-bit", 0xAA64: "ARM64", 0x1C0: "ARM", 0x1C4: "ARM"}
_IMPORTS, _EXPORTS, _RESOURCES = 1, 0, 2  # numbers of the data directories
# Prefixes of names that the loader resolves through an internal table, without files. Source:
# learn.microsoft.com, "Windows API sets"
_API_SETS = ("api-ms-", "ext-ms-")
_SHOWN = 3


class NotPe(RocenvError):
    """The file is damaged, or is not a Windows library or program."""

    code = "not-a-library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pe:
    """A library's or program's headers."""

    machine: str  # "64-bit", "32-bit", "ARM64"
    file_version: str  # "5.7.32000.0"; "" if not specified
    imports: tuple[str, ...]  # as written in the file, without delay-loaded libraries


def read(path: str | Path) -> Pe:
    """Read a library's or program's headers.

    Raises:
        NotPe: It is truncated, or is not a Windows library or program.
        OSError: It cannot be read.
    """
    with _parsed(path, _IMPORTS, _RESOURCES) as pe:
        number = pe.FILE_HEADER.Machine
        return Pe(
            machine=_MACHINES.get(number, f"for machine 0x{number:X}"),
            file_version=_file_version(pe),
            imports=tuple(
                entry.dll.decode("ascii", "replace")
                for entry in getattr(pe, "DIRECTORY_ENTRY_IMPORT", ())
                if entry.dll
            ),
        )


def overlay(path: str | Path) -> int:
    """Return the offset of data appended to a program, or the program's length if there is none."""
    size: int = os.path.getsize(path)
    try:
        with _parsed(path) as pe:
            start = pe.get_overlay_data_start_offset()
    except NotPe:
        return size
    return size if start is None else int(start)


def export_names(path: str | Path) -> frozenset[str]:
    """Return the names that a library exports, including forwarded ones; raise the same errors as `read`."""
    with _parsed(path, _EXPORTS) as pe:
        table = getattr(pe, "DIRECTORY_ENTRY_EXPORT", None)
        symbols = table.symbols if table else ()
        return frozenset(symbol.name.decode("ascii", "replace") for symbol in symbols if symbol.name)


def explain_not_loading(path: str, folders: Iterable[str], system: Iterable[str]) -> str:
    """Explain why Windows cannot load a library; Windows itself reports only that something is missing.

    `folders`, including the library's own, are searched in order, then `system`.
    """
    searched = tuple(folder for folder in folders if folder)
    try:
        found = missing(path, searched, system) or _not_exported(path, searched)
    except NotPe as error:
        return error.message
    except OSError as error:
        return f"`{error.filename}` cannot be read: {error.strerror}"
    if not found:
        return "all its imports exist, so a library that it loads at run time must be missing or broken"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def missing(path: str | Path, folders: Iterable[str | Path], system: Iterable[str | Path]) -> list[str]:
    """Walk a library's imports breadth-first and describe missing or incompatible ones.

    `folders` are searched in order, then `system`; Windows' own folders are assumed to be complete.
    Raises the same errors as `read` if the library itself is invalid.
    """
    root, name = read(path), Path(path).name
    searched, windows = _Folders(folders), _Folders(system)
    seen, found = {name.lower()}, []
    queue: deque[tuple[str, tuple[str, ...]]] = deque((needed, (name,)) for needed in root.imports)
    while queue:
        name, users = queue.popleft()
        if name.lower() in seen or name.lower().startswith(_API_SETS):
            continue
        seen.add(name.lower())
        chain = (*users, name)
        file = searched.find(name)
        if file is None:
            if windows.find(name) is None:
                found.append(f"{_needs(chain)}: not found")
            continue
        try:
            library = read(file)
        except (NotPe, OSError) as error:
            reason = error.message if isinstance(error, NotPe) else f"cannot be read: {error.strerror}"
            found.append(f"{_needs(chain)}: {reason}")
            continue
        if library.machine == root.machine:
            queue.extend((needed, chain) for needed in library.imports)
        else:
            fault = f"`{file}` is {library.machine}, but a {root.machine} file is needed"
            found.append(f"{_needs(chain)}: {fault}")
    return found


def _needs(chain: tuple[str, ...]) -> str:
    """Describe the chain from the requested file to the library that it needs."""
    first, second, *others = chain
    return f"{first} needs {second}" + "".join(f", which needs {name}" for name in others)


def _not_exported(path: str, folders: Iterable[str]) -> list[str]:
    """Describe functions that a library imports but other files do not export."""
    searched, found = _Folders(folders), []
    with _parsed(path, _IMPORTS) as pe:
        imports = {
            entry.dll.decode("ascii", "replace"): {
                each.name.decode("ascii", "replace") for each in entry.imports if each.name
            }
            for entry in getattr(pe, "DIRECTORY_ENTRY_IMPORT", ())
        }
    for library, names in imports.items():
        if file := searched.find(library):
            lacking = sorted(names - export_names(file))
            user = os.path.basename(path)
            found += [f"{user} needs `{name}`, which `{file}` does not export" for name in lacking]
    return found


class _Folders:
    """Folders to search in order, ignoring the case of names as Windows does."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self._folders = [str(folder) for folder in folders if str(folder)]
        self._names: dict[str, dict[str, str]] = {}

    def find(self, name: str) -> Path | None:
        for folder in self._folders:
            if folder not in self._names:
                self._names[folder] = _listed(folder)
            if spelled := self._names[folder].get(name.lower()):
                return Path(folder, spelled)
        return None


def _listed(folder: str) -> dict[str, str]:
    try:
        return {name.lower(): name for name in os.listdir(folder)}
    except OSError:  # Windows also skips missing folders
        return {}


@contextlib.contextmanager
def _parsed(path: str | Path, *directories: int) -> Iterator[Any]:
    """Open a file with the given data directories parsed, and close it after the block."""
    import pefile

    if Path(path).stat().st_size == 0:
        raise NotPe(f"`{path}` is empty")
    try:
        pe = pefile.PE(os.fspath(path), fast_load=True)
    except pefile.PEFormatError as error:
        raise NotPe(f"`{path}` is not a Windows library or program: {error.value}") from error
    try:
        _require_whole(pe, path)
        try:
            pe.parse_data_directories(directories=list(directories))
        except (pefile.PEFormatError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise NotPe(f"`{path}` is damaged: {error}") from error
        yield pe
    finally:
        pe.close()


def _require_whole(pe: Any, path: str | Path) -> None:
    # A section without data has size 0, and its position is meaningless.
    filled = [section for section in pe.sections if section.SizeOfRawData]
    end = max((section.PointerToRawData + section.SizeOfRawData for section in filled), default=0)
    if end > len(pe.__data__) or len(pe.sections) != pe.FILE_HEADER.NumberOfSections:
        raise NotPe(f"`{path}` is truncated: it has only {len(pe.__data__)} bytes")


def _file_version(pe: Any) -> str:
    """Return the version number, or the version text if all numbers are 0."""
    for fixed in getattr(pe, "VS_FIXEDFILEINFO", ())[:1]:
        high, low = fixed.FileVersionMS, fixed.FileVersionLS
        parts = (high >> 16, high & 0xFFFF, low >> 16, low & 0xFFFF)
        if any(parts):
            return ".".join(map(str, parts))
    return _version_texts(pe).get("FileVersion", "")


def _version_texts(pe: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    for entry in (entry for group in getattr(pe, "FileInfo", ()) for entry in group):
        for table in getattr(entry, "StringTable", ()):
            for key, value in table.entries.items():
                texts.setdefault(
                    key.decode("utf-8", "replace"), value.decode("utf-8", "replace").strip("\0 ")
                )
    return texts

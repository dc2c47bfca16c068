"""Windows libraries and programs by what stands in the files: versions, imports, and what is missing."""

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
_IMPORTS, _EXPORTS, _RESOURCES, _DELAYED = 1, 0, 2, 13  # data directories, by their numbers there

# The loader resolves these through a table of its own; no file needs to be there.
# Source: learn.microsoft.com, "Windows API sets"
_API_SETS = ("api-ms-", "ext-ms-")


class NotPe(RocenvError):
    """A file that should be a Windows library or program is none, or is damaged."""

    code = "not-a-library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pe:
    """What a library or program says of itself."""

    machine: str  # "64-bit", "32-bit", "ARM64"
    is_dll: bool
    file_version: str  # "5.7.32000.0"; "" = it does not say
    product_version: str
    imports: tuple[str, ...]  # what has to be there when it is loaded, as it spells the names
    delayed: tuple[str, ...]  # what is loaded only when it is first called


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A library that another one needs, and that is not there or cannot be used."""

    name: str
    chain: tuple[str, ...]  # who needs it: the file that was asked about first, the direct user last
    reason: str  # "not found", or what is wrong with the file that is there
    delayed: bool  # nothing fails until something in it is called

    def __str__(self) -> str:
        first, *others = [*self.chain, self.name]
        text = f"{first} needs {others[0]}"
        for name in others[1:]:
            text += f", which needs {name}"
        later = " (needed only once it is called)" if self.delayed else ""
        return f"{text}: {self.reason}{later}"


def read(path: str | Path) -> Pe:
    """Read a library or program, without loading it; the file is closed again.

    Raises:
        NotPe: It is no Windows library or program, or is cut short.
        OSError: It cannot be read.
    """
    with _parsed(path, _IMPORTS, _DELAYED, _RESOURCES) as pe:
        file_version, product_version = _versions(pe)
        return Pe(
            machine=_machine(pe),
            is_dll=bool(pe.is_dll()),
            file_version=file_version,
            product_version=product_version,
            imports=_imported(pe, "DIRECTORY_ENTRY_IMPORT"),
            delayed=_imported(pe, "DIRECTORY_ENTRY_DELAY_IMPORT"),
        )


def overlay(path: str | Path) -> int:
    """Return where in a program what lies behind it begins; its length where nothing does."""
    size: int = os.path.getsize(path)
    try:
        with _parsed(path) as pe:
            start = pe.get_overlay_data_start_offset()
    except NotPe:
        return size
    return size if start is None else int(start)


def export_names(path: str | Path) -> frozenset[str]:
    """Return the names that a library exports, forwarded ones included.

    Raises:
        NotPe: It is no Windows library, or is cut short.
        OSError: It cannot be read.
    """
    with _parsed(path, _EXPORTS) as pe:
        table = getattr(pe, "DIRECTORY_ENTRY_EXPORT", None)
        symbols = table.symbols if table else ()
        return frozenset(symbol.name.decode("ascii", "replace") for symbol in symbols if symbol.name)


def missing(
    path: str | Path, folders: Iterable[str | Path], system: Iterable[str | Path]
) -> tuple[Missing, ...]:
    """Walk what a library imports, and return what is not there: first what it cannot be loaded without.

    Args:
        path: The library.
        folders: Where libraries are looked for, in this order; the library's own folder only if it is named.
        system: Windows' own folders, searched last: what is there is taken to be whole.

    Raises:
        NotPe: The library itself is none.
        OSError: It cannot be read.
    """
    walk = _Walk(_Shelf(folders), _Shelf(system), read(path))
    walk.from_file(Path(path))
    return tuple(walk.found)


class _Walk:
    """One breadth-first walk: all that is needed at once, then what is needed only when called."""

    def __init__(self, shelf: _Shelf, system: _Shelf, root: Pe) -> None:
        self.found: list[Missing] = []
        self._shelf = shelf
        self._system = system
        self._root = root

    def from_file(self, path: Path) -> None:
        seen = {path.name.lower()}
        now: deque[tuple[str, tuple[str, ...]]] = deque()
        later: deque[tuple[str, tuple[str, ...]]] = deque()

        def enter(pe: Pe, chain: tuple[str, ...]) -> None:
            now.extend((name, chain) for name in pe.imports)
            later.extend((name, chain) for name in pe.delayed)

        enter(self._root, (path.name,))
        delayed = False
        while now or later:
            if not now:
                now, later, delayed = later, deque(), True
            name, chain = now.popleft()
            if name.lower() in seen:
                continue
            seen.add(name.lower())
            pe = self._need(name, chain, delayed)
            if pe is not None:
                enter(pe, (*chain, name))

    def _need(self, name: str, chain: tuple[str, ...], delayed: bool) -> Pe | None:
        """Return a library to walk on from; note it where it is missing."""
        if name.lower().startswith(_API_SETS):
            return None
        path = self._shelf.find(name)
        if path is None:
            reason = "" if self._system.find(name) else "not found"
        else:
            try:
                pe = read(path)
            except (NotPe, OSError) as error:
                reason = error.message if isinstance(error, NotPe) else f"cannot be read: {error.strerror}"
            else:
                if pe.machine == self._root.machine:
                    return pe
                reason = f"`{path}` is {pe.machine}, and {self._root.machine} is needed"
        if reason:
            self.found.append(Missing(name=name, chain=chain, reason=reason, delayed=delayed))
        return None


class _Shelf:
    """Folders that are searched in order, by names as Windows compares them."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self._folders = [str(folder) for folder in folders if str(folder)]
        self._names: dict[str, dict[str, str]] = {}

    def find(self, name: str) -> Path | None:
        for folder in self._folders:
            if folder not in self._names:
                self._names[folder] = _listed(folder)
            spelled = self._names[folder].get(name.lower())
            if spelled is not None:
                return Path(folder, spelled)
        return None


def _listed(folder: str) -> dict[str, str]:
    try:
        return {name.lower(): name for name in os.listdir(folder)}
    except OSError:  # not there: Windows passes over it as well
        return {}


@contextlib.contextmanager
def _parsed(path: str | Path, *directories: int) -> Iterator[Any]:
    """Open a file with these of its data directories."""
    import pefile

    if Path(path).stat().st_size == 0:
        raise NotPe(f"`{path}` is empty")
    try:
        pe = pefile.PE(os.fspath(path), fast_load=True)
    except pefile.PEFormatError as error:
        raise NotPe(f"`{path}` is no Windows library or program: {error.value}") from error
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
    # A section without data says so by a size of 0; its position means nothing.
    filled = [section for section in pe.sections if section.SizeOfRawData]
    end = max((section.PointerToRawData + section.SizeOfRawData for section in filled), default=0)
    if end > len(pe.__data__) or len(pe.sections) != pe.FILE_HEADER.NumberOfSections:
        raise NotPe(f"`{path}` is cut short: it has only {len(pe.__data__)} bytes")


def _machine(pe: Any) -> str:
    number = pe.FILE_HEADER.Machine
    return _MACHINES.get(number, f"for machine 0x{number:X}")


def _imported(pe: Any, directory: str) -> tuple[str, ...]:
    entries = getattr(pe, directory, ())
    return tuple(entry.dll.decode("ascii", "replace") for entry in entries if entry.dll)


def _versions(pe: Any) -> tuple[str, str]:
    """Return file and product version: the numbers, else the texts that stand beside them."""
    texts = _version_texts(pe)
    file_version = product_version = ""
    for fixed in getattr(pe, "VS_FIXEDFILEINFO", ())[:1]:
        file_version = _dotted(fixed.FileVersionMS, fixed.FileVersionLS)
        product_version = _dotted(fixed.ProductVersionMS, fixed.ProductVersionLS)
    return file_version or texts.get("FileVersion", ""), product_version or texts.get("ProductVersion", "")


def _dotted(high: int, low: int) -> str:
    parts = (high >> 16, high & 0xFFFF, low >> 16, low & 0xFFFF)
    return ".".join(map(str, parts)) if any(parts) else ""


def _version_texts(pe: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    for entry in (entry for group in getattr(pe, "FileInfo", ()) for entry in group):
        for table in getattr(entry, "StringTable", ()):
            for key, value in table.entries.items():
                texts.setdefault(
                    key.decode("utf-8", "replace"), value.decode("utf-8", "replace").strip("\0 ")
                )
    return texts

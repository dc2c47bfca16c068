"""What an ELF file asks for, and what a process has loaded once everything that it asks for is there.

Only the tables that the program loader reads are looked at. A file that is none, or that is cut or wrong,
asks for nothing.

Source: elf(5), ld.so(8)
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from elftools.elf.dynamic import DynamicSegment

# Where program loaders look last; what /etc/ld.so.conf adds differs by distribution.
USUAL = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
_MOST = 2000  # libraries of a process
_MOST_NEEDED = 500  # of a library


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a file asks the program loader for."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    first: tuple[str, ...] = ()  # folders of its own that are searched before LD_LIBRARY_PATH
    own: tuple[str, ...] = ()  # and those that are searched after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A library in a process."""

    path: str
    soname: str
    by: str  # the name of the file that asked for it; "" = nobody, it is where the search began


def needs_of(path: str) -> Needs | None:
    """Return what an ELF file asks for; None where it is none, or cannot be read."""
    from elftools.common.exceptions import ELFError
    from elftools.construct.core import ConstructError
    from elftools.elf.dynamic import DynamicSegment as Dynamic
    from elftools.elf.elffile import ELFFile

    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            segment = next((each for each in elf.iter_segments() if isinstance(each, Dynamic)), None)
            return _read(segment, os.path.dirname(os.path.abspath(path))) if segment else Needs()
    # A wrong file makes the reader fail in ways of its own.
    except (
        OSError,
        ELFError,
        ConstructError,
        ValueError,
        LookupError,
        AssertionError,
        AttributeError,
        TypeError,
        OverflowError,
    ):
        return None


def _read(segment: DynamicSegment, origin: str) -> Needs:
    found: dict[str, list[str]] = {"DT_NEEDED": [], "DT_RPATH": [], "DT_RUNPATH": [], "DT_SONAME": []}
    for tag in segment.iter_tags():
        name = tag.entry.d_tag
        if name in found and len(found[name]) < _MOST_NEEDED:
            attribute = {"DT_NEEDED": "needed", "DT_SONAME": "soname"}.get(name, name[3:].lower())
            found[name].append(str(getattr(tag, attribute)))
    # A file with both has the older of them ignored.
    first = [] if found["DT_RUNPATH"] else _folders(found["DT_RPATH"], origin)
    return Needs(
        soname=next(iter(found["DT_SONAME"]), ""),
        needed=tuple(found["DT_NEEDED"]),
        first=tuple(first),
        own=tuple(_folders(found["DT_RUNPATH"], origin)),
    )


def _folders(texts: Iterable[str], origin: str) -> list[str]:
    parts = (part for text in texts for part in text.split(":") if part)
    return [part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in parts]


def loaded(roots: Sequence[str], folders: Sequence[str], usual: Sequence[str]) -> tuple[Loaded, ...]:
    """Return the libraries that come into a process with some files, those files first.

    Args:
        roots: The program, and what it opens by itself.
        folders: Searched before the ones that a file names itself as RUNPATH.
        usual: Searched last.
    """
    queue = deque((path, "") for path in roots)
    seen: dict[str, Loaded] = {}
    read: dict[str, Needs | None] = {}
    while queue and len(seen) < _MOST:
        path, by = queue.popleft()
        real = os.path.realpath(path)
        if real in seen:
            continue
        needs = read[real] = needs_of(path)
        if needs is None:
            continue
        seen[real] = Loaded(path=path, soname=needs.soname or os.path.basename(path), by=by)
        search = (*needs.first, *folders, *needs.own, *usual)
        for name in needs.needed:
            if found := _find(name, search, read):
                queue.append((found, os.path.basename(path)))
    return tuple(seen.values())


def _find(name: str, search: Sequence[str], read: Mapping[str, object]) -> str:
    """Return where a library is found; one that cannot be read is passed over, as the loader does."""
    if "/" in name:
        return name
    for folder in search:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and read.get(os.path.realpath(path), path) is not None:
            return path
    return ""


def is_elf(path: Path) -> bool:
    """Tell whether a file is one of Linux's programs or libraries."""
    return _begins(path, b"\x7fELF")


def is_executable(path: Path) -> bool:
    """Tell whether a file is a program of Linux or Windows itself, and no script."""
    return is_elf(path) or _begins(path, b"MZ")


def _begins(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False

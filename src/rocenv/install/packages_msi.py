"""The ways to unpack a Windows Installer package without installing it."""

from __future__ import annotations

import os
import re
import shutil
import struct
from typing import TYPE_CHECKING

from rocenv.install.tree import windows_path
from rocenv.install.unpackers import run_quietly
from rocenv.system import WINDOWS
from rocenv.system.files import remove_tree
from rocenv.system.msi import MsiError, packed_files, save_stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.system.msi import PackedFile

    Way = Callable[[Path, Path, Callable[[int], None]], None]

_PATIENCE_S = 1800.0  # a package may ask something in a window that nobody sees

# Source: learn.microsoft.com, "MsiExec.exe and InstMsi.exe error messages"
_MEANINGS = {
    1601: "the Windows Installer service cannot be reached",
    1602: "it was cancelled",
    1603: "fatal error",
    1618: "another installation is running",
    1619: "the package cannot be opened",
    1620: "this is no Windows Installer package",
    1625: "a policy of this machine forbids it",
    1626: "the package or this system has no administrative unpacking",
    1633: "it is for another kind of processor",
}


class Refused(Exception):
    """One way does not work here; says why."""


def _of_system(program: str) -> str:
    """Return the path of a program of Windows; by its name alone one in the current folder would win."""
    return os.environ.get("SYSTEMROOT", r"C:\Windows") + "\\System32\\" + program


def _administrative(package: Path, target: Path, advance: Callable[[int], None]) -> None:
    # A line, not a list: msiexec reads its own quotes, and knows them around the value only.
    line = f'"{_of_system("msiexec.exe")}" /a "{package}" /qn TARGETDIR="{target}"'
    failure = run_quietly(line, advance, _PATIENCE_S)
    code = failure.removeprefix("exit code ").split(" ")[0]
    if failure:
        meaning = _MEANINGS.get(int(code), "") if code.isdigit() else ""
        raise Refused(f"{failure} ({meaning})" if meaning else failure)


def _from_tables(package: Path, target: Path, advance: Callable[[int], None]) -> None:
    """Read the package's list of files, and unpack its cabinets."""
    cabinets: dict[str, list[PackedFile]] = {}
    try:
        for file in packed_files(package):
            cabinets.setdefault(file.cabinet, []).append(file)
        for number, (cabinet, files) in enumerate(sorted(cabinets.items())):
            loose = target.with_name(f"{target.name}c{number}")
            loose.mkdir()
            try:
                _unpack_cabinet(package, cabinet, files, loose, target, advance)
            finally:
                remove_tree(loose)
    except (MsiError, ValueError, struct.error) as error:
        raise Refused(str(error)) from error


def _unpack_cabinet(
    package: Path,
    cabinet: str,
    files: list[PackedFile],
    loose: Path,
    target: Path,
    advance: Callable[[int], None],
) -> None:
    place = loose / "c.cab"
    if cabinet.startswith("#"):
        save_stream(package, cabinet[1:], place)
    elif cabinet:
        shutil.copyfile(package.with_name(windows_path(cabinet)), place)
    else:
        raise Refused("its files lie beside it, in no cabinet")
    if any(not re.fullmatch(r"[\w.!-]+", name) for name in cabinet_names(place)):
        raise Refused("a name in its cabinet is no plain one")
    line = f'"{_of_system("extrac32.exe")}" /Y /E /L "{loose}" "{place}"'
    failure = run_quietly(line, advance, _PATIENCE_S)
    if failure:
        raise Refused(f"extrac32: {failure}")
    for file in files:
        unpacked = loose / file.key
        if not unpacked.exists() or unpacked.stat().st_size != file.size_bytes:
            raise Refused(f"`{file.key}` did not come out of its cabinet whole")
        destination = target / windows_path(file.path)
        destination.parent.mkdir(parents=True, exist_ok=True)
        unpacked.rename(destination)


def cabinet_names(cabinet: Path) -> list[str]:
    """Return the names of the files in a cabinet.

    Source: learn.microsoft.com, "Microsoft Cabinet Format"
    """
    with cabinet.open("rb") as stream:
        header = stream.read(36)
        if not header.startswith(b"MSCF"):
            raise ValueError("it is no cabinet")
        stream.seek(struct.unpack_from("<I", header, 16)[0])
        count = struct.unpack_from("<H", header, 28)[0]
        # Per file: 16 bytes of figures and a name of at most 256 bytes with its end.
        data = stream.read(count * 272)
    names, at = [], 0
    for _ in range(count):
        end = data.index(b"\0", at + 16)
        names.append(data[at + 16 : end].decode("utf-8", "replace"))
        at = end + 1
    return names


def _msitools(package: Path, target: Path, advance: Callable[[int], None]) -> None:
    program = shutil.which("msiextract")
    if program is None:
        raise Refused("it is not installed")
    failure = run_quietly([program, "-C", str(target), str(package)], advance, _PATIENCE_S)
    if failure:
        raise Refused(failure)


# Each unpacks a package to an empty folder, or raises Refused.
WAYS: tuple[tuple[str, Way], ...] = (
    (
        ("administrative unpacking (msiexec /a)", _administrative),
        ("reading its tables and cabinets", _from_tables),
    )
    if WINDOWS
    else (("msiextract", _msitools),)
)

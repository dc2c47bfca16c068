"""Unpack AMD's HIP SDK installer without running it and without administrator rights.

The installer is a program with an appended 7z archive. The archive contains the display driver and, in one
folder, the parts of the SDK as Windows Installer packages, which `msiexec /a` unpacks without installing.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, RocenvError
from rocenv.install.archive import what_it_is
from rocenv.install.sevenzip import NoProgram, run_quietly, unpack_7z
from rocenv.install.tree import Tree
from rocenv.system import WINDOWS
from rocenv.system.files import remove_tree
from rocenv.system.pe import overlay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Source: public build scripts that extract the installers for 5.7 to 7.1; the Visual Studio plugin is not
# named ROCm_*.
_PACKAGES_FOLDER = "ROCmSDKPackages"
_PACKAGE = re.compile(r"rocm_.*\.msi", re.I)
_VERSION = re.compile(r"\d+(\.\d+)+")

_SIGNATURE = b"7z\xbc\xaf\x27\x1c"
_SIGNED_BYTES = 64 << 10  # high estimate for a digital signature, also appended to the program

_TIMEOUT_S = 1800.0  # a package can wait for input in an invisible dialog
# Source: learn.microsoft.com, "MsiExec.exe and InstMsi.exe error messages"
_MEANINGS = {
    1601: "the Windows Installer service is unavailable; an administrator may have disabled it",
    1602: "it was canceled",
    1603: "fatal error",
    1618: "another installation is running; wait until it finishes",
    1619: "cannot open the package",
    1620: "this is not a valid Windows Installer package",
    1625: "blocked by a system policy such as `DisableMSI`",
    1626: "this system does not support administrative installs",
    1633: "it is for a different processor architecture",
    1640: "Windows Installer cannot run in a remote session",
    1643: "a system policy blocks this package",
    1644: "a system policy blocks its customization",
}


class InstallerClosed(RocenvError):
    """An intact installer that this machine cannot unpack without running it."""

    code = "installer-closed"

    def __init__(self, reason: str, hints: tuple[str, ...] = ()) -> None:
        by_hand = "run the HIP SDK installer yourself, then run this command again to copy the SDK"
        super().__init__(
            f"cannot unpack the HIP SDK installer without running it: {reason}",
            hints=(*hints, by_hand),
        )


def unpack_installer(path: Path, tree: Tree, work: Path) -> None:
    r"""Unpack the SDK so that the tree's `bin` matches `…\ROCm\5.7\bin`, without changing the registry.

    `work` is created and removed. Its path should be short, because system programs handle long paths badly.

    Raises:
        ArchiveError: The file is not an installer, is damaged, or is unsafe.
        InstallerClosed: The installer is intact but cannot be unpacked on this machine.
    """
    start = archive_start(path)
    remove_tree(work)
    work.mkdir(parents=True)
    try:
        packages = _packages(path, start, work, tree.advance)
        out = work / "o"
        out.mkdir()
        for number, package in enumerate(packages):
            target = out / str(number)
            target.mkdir()
            unpack_msi(package, target, tree.advance)
        _take_sdk(out, tree)
    finally:
        remove_tree(work)


def archive_start(path: Path) -> int:
    """Find the offset of the 7z archive in a self-extracting program.

    Raises:
        InstallerClosed: The data is in a format that only the installer can read.
        ArchiveError: The file contains no data, is truncated, or is not a program.

    The program's code also contains the 7z signature, but only the real header has a valid checksum.

    Source: 7zFormat.txt in the LZMA SDK, "SignatureHeader"
    """
    with path.open("rb") as stream:
        head = stream.read(512)
        if not head.startswith(b"MZ"):
            raise ArchiveError(f"expected an installer, found {what_it_is(head)}")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_SIGNATURE)
            while at >= 0:
                header = data[at : at + 32]
                if len(header) == 32 and zlib.crc32(header[12:]) == struct.unpack_from("<I", header, 8)[0]:
                    return at
                at = data.find(_SIGNATURE, at + 1)
            behind = overlay(path)
            if len(data) - behind > _SIGNED_BYTES and data.find(_SIGNATURE, behind) < 0:
                raise InstallerClosed("its data is not a 7z archive")
    raise ArchiveError("the program does not contain a 7z archive, or is incomplete")


def _packages(path: Path, start: int, work: Path, advance: Callable[[int], None]) -> list[Path]:
    """Unpack the SDK's packages from the archive, and return their paths."""
    (work / "p").mkdir()
    parts = Tree(work / "p", lambda _size: advance(0), for_windows=True)
    try:
        unpack_7z(path, parts, work / "w", start=start, below=_PACKAGES_FOLDER)
    except NoProgram as error:
        raise InstallerClosed(error.message, error.hints) from error
    names = [name for name in parts.files if _PACKAGE.fullmatch(name.rpartition("/")[2])]
    if not names:
        raise ArchiveError(f"it contains no ROCm_*.msi in a `{_PACKAGES_FOLDER}` folder")
    return [work / "p" / name for name in sorted(names)]


def unpack_msi(package: Path, target: Path, advance: Callable[[int], None]) -> None:
    """Unpack a Windows Installer package into an empty folder without installing it.

    Raises:
        InstallerClosed: Windows Installer failed; the message contains the reason.
    """
    if not WINDOWS:
        raise InstallerClosed(f"only Windows can unpack `{package.name}`")
    # Use the full path, so that Windows does not run a program with this name in the current folder. Pass a
    # string instead of a list, because msiexec has its own quoting rules: quotes only around the value.
    program = os.environ.get("SYSTEMROOT", r"C:\Windows") + r"\System32\msiexec.exe"
    failure = run_quietly(f'"{program}" /a "{package}" /qn TARGETDIR="{target}"', advance, _TIMEOUT_S)
    if failure:
        code = failure.removeprefix("exit code ").split(" ")[0]
        meaning = _MEANINGS.get(int(code), "") if code.isdigit() else ""
        reason = f"{failure} ({meaning})" if meaning else failure
        raise InstallerClosed(f"`msiexec /a` on {package.name}: {reason}")
    if not any(path.is_file() for path in target.rglob("*")):
        raise InstallerClosed(f"`msiexec /a` unpacked no files from {package.name}")


def _take_sdk(out: Path, tree: Tree) -> None:
    r"""Move the files that the packages would install in `…\ROCm\VERSION` to the tree."""
    roots = [root for root in sorted(out.rglob("*")) if _is_version_folder(root)]
    versions = sorted({root.name for root in roots})
    if len(versions) != 1:
        found = ", ".join(versions) or "none"
        raise ArchiveError(f"its packages must contain one version below the `ROCm` folder; found: {found}")
    for root in roots:
        for source in sorted(root.rglob("*")):
            name = source.relative_to(root).as_posix()
            if not source.is_dir() or source.is_symlink():
                tree.take_once(name, source)
    if not any(name.casefold().startswith("bin/") for name in tree.files):
        raise ArchiveError(f"its packages do not contain `ROCm\\{versions[0]}\\bin`")


def _is_version_folder(path: Path) -> bool:
    return (
        path.parent.name.casefold() == "rocm"
        and _VERSION.fullmatch(path.name) is not None
        and path.is_dir()
        and not path.is_symlink()
    )

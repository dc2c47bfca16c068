"""Unpack AMD's HIP SDK installer without running it and without administrator rights.

It is a program with a 7z archive behind it; that holds the display driver, and below one folder the SDK's
parts as Windows Installer packages.
"""

from __future__ import annotations

import mmap
import re
import struct
import zlib
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, RocenvError
from rocenv.install.archive import what_it_is
from rocenv.install.packages_msi import WAYS, Refused
from rocenv.install.sevenzip import unpack_7z
from rocenv.install.tree import Tree
from rocenv.install.unpackers import NoProgram
from rocenv.system.files import remove_tree
from rocenv.system.pe import overlay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.core.model import FileEntry

# Source: what public build scripts take from the installers of 5.7 to 7.1; the one for Visual Studio is not
# called ROCm_*.
_PACKAGES_FOLDER = "ROCmSDKPackages"
_PACKAGE = re.compile(r"rocm_.*\.msi", re.I)
_VERSION = re.compile(r"\d+(\.\d+)+")

_SIGNATURE = b"7z\xbc\xaf\x27\x1c"
_SIGNED_BYTES = 64 << 10  # of a digital signature, which lies behind a program too, as a high guess


class InstallerClosed(RocenvError):
    """An installer is whole, and its contents cannot be had on this machine without running it.

    Attributes:
        tried: What was tried, and why each did not work.
    """

    code = "installer-closed"

    def __init__(self, tried: tuple[str, ...], hints: tuple[str, ...] = ()) -> None:
        by_hand = "install the HIP SDK with it yourself; then run the same command again to have it copied"
        super().__init__(
            f"the HIP SDK's installer cannot be unpacked here without running it: {'; '.join(tried)}",
            hints=(*hints, by_hand),
        )
        self.tried = tried


def unpack_installer(
    path: Path, folder: Path, advance: Callable[[int], None], *, work: Path | None = None
) -> dict[str, FileEntry]:
    r"""Unpack the SDK into `folder`, which is empty, so that `folder/bin` is what would be `…\ROCm\5.7\bin`.

    Args:
        path: The installer.
        folder: Where to; nothing outside it and `work` is ever written, and nothing is registered.
        advance: Called with the number of bytes written, as they are written.
        work: A folder on the same disk that is not there, made and removed here; by default one beside
            `folder`. A short path is best: the system's programs know long ones badly.

    Raises:
        ArchiveError: It is something else, damaged or unsafe.
        InstallerClosed: No way to unpack it works here.
    """
    work = work or folder.with_name(f"{folder.name}.w")
    start = archive_start(path)
    remove_tree(work)
    work.mkdir(parents=True)
    try:
        packages = _packages(path, start, work, advance)
        _unpack_packages(packages, work, advance)
        return _sdk(work / "o", folder, advance)
    finally:
        remove_tree(work)


def archive_start(path: Path) -> int:
    """Return where in a self-extracting program its 7z archive begins.

    Raises:
        InstallerClosed: It holds something else, that only itself can read.
        ArchiveError: It holds nothing, is cut short, or is no program.

    The program part holds the signature too, to find its archive by; only a real header's checksum fits.

    Source: 7zFormat.txt of the LZMA SDK, "SignatureHeader"
    """
    with path.open("rb") as stream:
        head = stream.read(512)
        if not head.startswith(b"MZ"):
            raise ArchiveError(f"it is no installer, but {what_it_is(head)}")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_SIGNATURE)
            while at >= 0:
                header = data[at : at + 32]
                if len(header) == 32 and zlib.crc32(header[12:]) == struct.unpack_from("<I", header, 8)[0]:
                    return at
                at = data.find(_SIGNATURE, at + 1)
            behind = overlay(path)
            if len(data) - behind > _SIGNED_BYTES and data.find(_SIGNATURE, behind) < 0:
                raise InstallerClosed(("what lies behind the program in it is no 7z archive",))
    raise ArchiveError("it is a program that holds no 7z archive, or is cut short")


def _packages(path: Path, start: int, work: Path, advance: Callable[[int], None]) -> list[Path]:
    """Unpack the SDK's packages and return them."""
    (work / "p").mkdir()
    parts = Tree(work / "p", lambda _size: advance(0))
    try:
        unpack_7z(path, parts, work / "w", start=start, below=_PACKAGES_FOLDER)
    except NoProgram as error:
        raise InstallerClosed((error.message,), error.hints) from error
    names = [name for name in parts.files if _PACKAGE.fullmatch(name.rpartition("/")[2])]
    if not names:
        raise ArchiveError(f"it holds no ROCm_*.msi below a folder `{_PACKAGES_FOLDER}`")
    return [work / "p" / name for name in sorted(names)]


def _unpack_packages(packages: list[Path], work: Path, advance: Callable[[int], None]) -> None:
    out = work / "o"
    out.mkdir()
    for number, package in enumerate(packages):
        tried = []
        for title, unpack in WAYS:
            target = out / str(number)
            remove_tree(target)
            target.mkdir()
            try:
                unpack(package, target, advance)
                if any(path.is_file() for path in target.rglob("*")):
                    break
                tried.append(f"{title} of {package.name}: nothing came out")
            except Refused as refused:
                tried.append(f"{title} of {package.name}: {refused}")
        else:
            raise InstallerClosed(tuple(tried))


def _sdk(out: Path, folder: Path, advance: Callable[[int], None]) -> dict[str, FileEntry]:
    r"""Move what the packages would install into `…\ROCm\VERSION` to `folder`."""
    roots = [root for root in sorted(out.rglob("*")) if _is_version_folder(root)]
    versions = sorted({root.name for root in roots})
    if len(versions) != 1:
        found = ", ".join(versions) or "none"
        raise ArchiveError(f"its packages should hold one folder `ROCm\\VERSION`; found: {found}")
    tree = Tree(folder, advance)
    for root in roots:
        for source in sorted(root.rglob("*")):
            name = source.relative_to(root).as_posix()
            if not source.is_dir() or source.is_symlink():
                tree.take_once(name, source)
    if not any(name.casefold().startswith("bin/") for name in tree.files):
        raise ArchiveError(f"its packages hold no `ROCm\\{versions[0]}\\bin`")
    return tree.files


def _is_version_folder(path: Path) -> bool:
    return (
        path.parent.name.casefold() == "rocm"
        and _VERSION.fullmatch(path.name) is not None
        and path.is_dir()
        and not path.is_symlink()
    )

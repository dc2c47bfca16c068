"""A folder that is filled file by file, under names as Windows reads them.

Archives for Windows are unpacked by these rules on every system, so that what a lock names is one set
everywhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import zlib
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.core.model import FileEntry
from rocenv.install.unpack import NAME_ERRORS, member_path, shown
from rocenv.system import WINDOWS
from rocenv.system.files import file_chunks, is_device, remove_tree, sha256_of, write_uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# Source: learn.microsoft.com, "Maximum Path Length Limitation"
_PATH_LIMIT = 248  # of a folder; a file's is 260

_JUNCTION = 0xA0000003  # Source: winnt.h, IO_REPARSE_TAG_MOUNT_POINT; files in a cloud have other tags

# Packs of GPU code shrink to a thirtieth; DEFLATE could make 1032 of 1, and LZMA 7000.
_RATIO = 200
_RATIO_FREE_BYTES = 64 << 20


def windows_path(name: str) -> str:
    """Return a member's name as a clean relative path with `/`, `""` for the root.

    Raises:
        ArchiveError: The name is absolute, climbs out, or is one that Windows reads as something else: a
            device, a stream of another file, or the name without its last dots and blanks.
    """
    clean = member_path(name.replace("\\", "/"))
    for part in clean.split("/"):
        if any(char in '<>:"|?*' for char in part):
            raise ArchiveError(f"`{shown(name)}` holds a character that Windows gives a meaning of its own")
        if part.endswith((" ", ".")):
            raise ArchiveError(f"`{shown(name)}` ends with a dot or blank, which Windows takes away")
        if is_device(part):
            raise ArchiveError(f"`{shown(name)}` is the name of a device on Windows")
    return clean


class Tree:
    """What lies in a folder, which is empty at first; nothing outside it is ever written.

    Attributes:
        folder: Where the files lie.
        advance: Called with the number of bytes written, as they are written.
        files: What lies there, all of it read-only: path with `/` -> entry.
    """

    def __init__(self, folder: Path, advance: Callable[[int], None]) -> None:
        self.folder = folder
        self.advance = advance
        self.files: dict[str, FileEntry] = {}
        self._folders = {"": ""}  # as Windows compares names -> as the first member spelled it
        self._claimed: dict[str, str] = {}

    def claim(self, name: str) -> str:
        """Return the path that a member will have, before anything is written.

        Raises:
            ArchiveError: Its name is unsafe, is another member's, or goes through one that is no folder.
        """
        parts = windows_path(name).split("/")
        place = ""
        for part in parts[:-1]:
            key = f"{place}/{part}".lstrip("/").casefold()
            if key in self._claimed:
                raise ArchiveError(f"`{shown(name)}` goes through a file as if it were a folder")
            place = self._folders.setdefault(key, f"{place}/{part}".lstrip("/"))
        path = f"{place}/{parts[-1]}".lstrip("/")
        key = path.casefold()
        if not path or key in self._claimed or key in self._folders:
            raise ArchiveError(f"`{shown(name)}` stands in the archive twice")
        self._claimed[key] = path
        return path

    def write(self, name: str, size_bytes: int, chunks: Iterable[bytes]) -> None:
        """Write a claimed file; raise ArchiveError unless it has exactly the size that was declared."""
        out = self.begin(name, size_bytes)
        try:
            for data in chunks:
                out.write(data)
        finally:
            out.close()
        out.finish()

    def begin(self, name: str, size_bytes: int) -> Growing:
        """Open a claimed file that is written piece by piece."""
        path = self.folder / name
        with _name_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            return Growing(self, name, os.open(path, flags, 0o444), size_bytes)

    def take(self, name: str, source: Path, size_bytes: int | None = None, crc: int | None = None) -> None:
        """Move an unpacked file to its claimed place; raise ArchiveError unless it is what was announced."""
        info = source.lstat()
        if not stat.S_ISREG(info.st_mode) or is_link(info) or info.st_nlink > 1:
            raise ArchiveError(f"`{shown(name)}` is a link or another special file")
        digest, found_crc = hashlib.sha256(), 0
        for data in file_chunks(source):
            digest.update(data)
            found_crc = zlib.crc32(data, found_crc)
            self.advance(len(data))
        if (size_bytes is not None and size_bytes != info.st_size) or (crc is not None and crc != found_crc):
            raise ArchiveError(f"`{shown(name)}` came out other than the archive says")
        path = self.folder / name
        with _name_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            source.rename(path)
        path.chmod(0o444)
        self.files[name] = FileEntry(sha256=digest.hexdigest(), size_bytes=info.st_size)

    def take_once(self, name: str, source: Path) -> None:
        """Claim and move a file, unless the same one is there: parts of a whole may share some."""
        there = self._claimed.get(windows_path(name).casefold())
        if there is None:
            self.take(self.claim(name), source)
        elif is_link(source.lstat()) or self.files[there].sha256 != sha256_of(source):
            raise ArchiveError(f"`{shown(name)}` is in two parts, and not the same in both")

    def restart(self) -> None:
        """Remove what was written; what was claimed stays claimed."""
        remove_tree(self.folder)
        self.folder.mkdir()
        self.files.clear()


class Growing:
    """A file of a tree that is being written."""

    def __init__(self, tree: Tree, name: str, descriptor: int, size_bytes: int) -> None:
        self._tree = tree
        self._name = name
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._written = 0
        self._digest = hashlib.sha256()

    def write(self, data: bytes | bytearray) -> None:
        """Append; raise ArchiveError where the file grows beyond the size that was declared."""
        if self._written + len(data) > self._size_bytes:
            raise ArchiveError(f"`{shown(self._name)}` is larger than the archive says")
        self._digest.update(data)
        write_uncached(self._descriptor, memoryview(data), self._written)
        self._written += len(data)
        self._tree.advance(len(data))

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def finish(self) -> None:
        """Close the file and enter it; raise ArchiveError where it is smaller than declared."""
        self.close()
        if self._written != self._size_bytes:
            raise ArchiveError(f"`{shown(self._name)}` is cut short")
        entry = FileEntry(sha256=self._digest.hexdigest(), size_bytes=self._written)
        self._tree.files[self._name] = entry


def require_plausible(unpacked_bytes: int, archive_bytes: int) -> None:
    """Raise ArchiveError for a bomb: an archive that says it holds far more than such files shrink to."""
    if unpacked_bytes > _RATIO_FREE_BYTES + _RATIO * archive_bytes:
        raise ArchiveError(
            f"it claims to hold {unpacked_bytes} bytes in {archive_bytes}, and no libraries shrink like that"
        )


def is_link(info: os.stat_result) -> bool:
    """Tell whether the answer of `lstat` is a symbolic link's or a junction's."""
    return stat.S_ISLNK(info.st_mode) or getattr(info, "st_reparse_tag", 0) == _JUNCTION


@contextlib.contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Windows says of a path that is too long that there is no such folder.
        if WINDOWS and error.errno == errno.ENOENT and len(str(path)) >= _PATH_LIMIT:
            raise PrefixError(
                f"`{path}` is longer than Windows allows here",
                hints=(
                    "set ROCENV_HOME to a shorter folder, such as `C:\\rocenv`",
                    "or have long paths enabled: LongPathsEnabled=1 below "
                    "`HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem`",
                ),
                code="path-too-long",
            ) from error
        if error.errno not in NAME_ERRORS:
            raise
        raise ArchiveError(f"`{shown(path.name)}` cannot be made here: {error.strerror}") from error

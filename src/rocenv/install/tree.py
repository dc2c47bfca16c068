"""The destination folder for an unpacked archive; only this module turns member names into paths.

Linux packages keep their links and file names unchanged. Windows archives follow Windows' naming rules on
every system, so a lock produces the same files everywhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import stat
import zlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import ArchiveError
from rocenv.core.model import FileEntry
from rocenv.install.path_length import too_long
from rocenv.system import WINDOWS
from rocenv.system.files import file_chunks, is_device, is_link, remove_tree, sha256_of, write_uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# Source: learn.microsoft.com, "Maximum Path Length Limitation"
_PATH_LIMIT = 248  # for a folder; the limit for a file is 260
# Filesystem errors for names that cannot be stored, or that already exist in a different spelling.
_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST)

# GPU code compresses to one thirtieth of its size; DEFLATE can expand data 1032-fold, LZMA 7000-fold.
_RATIO = 200
_RATIO_FREE_BYTES = 64 << 20
_MAX_MEMBERS = 200_000  # files, links and folders; the largest known package has 50,576
_MAX_NAME = 4096  # Source: linux/limits.h, PATH_MAX


class Tree:
    """An empty folder that receives the files of an untrusted archive; nothing is written outside it.

    Files are read-only and get the current time; owners are ignored. Claim a path before writing to it;
    this checks its name against the rules and all earlier members.

    Attributes:
        folder: The folder that contains the files.
        advance: Called with the number of bytes written.
        files: The files so far: path with `/` -> entry.
    """

    def __init__(self, folder: Path, advance: Callable[[int], None], *, for_windows: bool) -> None:
        self.folder = folder
        self.advance = advance
        self.files: dict[str, FileEntry] = {}
        self._clean_name = windows_path if for_windows else member_path
        self._key: Callable[[str], str] = str.casefold if for_windows else str
        self._folders = {"": ""}  # key -> spelling of the first member
        self._claimed: dict[str, str] = {}
        self._made: set[str] = set()

    def claim(self, name: str) -> str:
        """Reserve the path of a file or link before writing it.

        Raises:
            ArchiveError: The name is unsafe, is already in use, or uses a file as a folder.
        """
        parent, _, base = self._clean_name(name).rpartition("/")
        place = self._claimed_folder(parent, name)
        path = f"{place}/{base}" if place else base
        key = self._key(path)
        if not path or key in self._claimed or key in self._folders:
            raise ArchiveError(f"`{shown(name)}` occurs twice")
        self._claimed[key] = path
        return path

    def claim_folder(self, name: str) -> None:
        """Reserve a path for a folder, but do not create it; raises the same errors as `claim`."""
        self._claimed_folder(self._clean_name(name), name)

    def _claimed_folder(self, path: str, name: str) -> str:
        place = ""
        for part in path.split("/") if path else ():
            path = f"{place}/{part}" if place else part
            key = self._key(path)
            if key in self._claimed:
                raise ArchiveError(f"`{shown(name)}` uses a file as a folder")
            place = self._folders.setdefault(key, path)
        if len(self._folders) + len(self._claimed) > _MAX_MEMBERS:
            raise ArchiveError(f"it contains more than {_MAX_MEMBERS:,} files and folders")
        return place

    def write(
        self, path: str, size_bytes: int, chunks: Iterable[bytes | memoryview], *, executable: bool = False
    ) -> None:
        """Write a claimed file; raise ArchiveError unless it has exactly the declared size."""
        out = self.begin(path, size_bytes, executable=executable)
        try:
            for data in chunks:
                out.write(data)
        finally:
            out.close()
        out.finish()

    def begin(self, path: str, size_bytes: int, *, executable: bool = False) -> OpenFile:
        """Open a claimed file for writing in chunks."""
        with self._made_here(path) as place:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            descriptor = os.open(place, flags, 0o555 if executable else 0o444)
            return OpenFile(self, path, descriptor, FileEntry(size_bytes=size_bytes, executable=executable))

    def link(self, path: str, target: str) -> None:
        """Create a claimed symbolic link; raise ArchiveError if it points outside the tree.

        An absolute target refers to the package's root, so it is converted to a relative one.
        """
        inside = link_target(path, target)
        with self._made_here(path) as place:
            os.symlink(inside, place)
        self.files[path] = FileEntry(link=inside)

    def hard_link(self, path: str, original: str) -> None:
        """Create a claimed hard link to an earlier file."""
        source = self._clean_name(original)
        entry = self.files.get(source)
        if entry is None or entry.link:
            raise ArchiveError(
                f"`{shown(path)}` is a hard link to `{shown(original)}`, which is not a file that precedes it"
            )
        with self._made_here(path) as place:
            os.link(self.folder / source, place)
        self.files[path] = entry

    def take(self, path: str, source: Path, size_bytes: int | None = None, crc: int | None = None) -> None:
        """Move an unpacked file to its claimed path; raise ArchiveError unless its size and CRC match."""
        info = source.lstat()
        if not stat.S_ISREG(info.st_mode) or is_link(info) or info.st_nlink > 1:
            raise ArchiveError(f"`{shown(path)}` is a link or some other special file")
        digest, found_crc = hashlib.sha256(), 0
        for data in file_chunks(source):
            digest.update(data)
            found_crc = zlib.crc32(data, found_crc)
            self.advance(len(data))
        if (size_bytes is not None and size_bytes != info.st_size) or (crc is not None and crc != found_crc):
            raise ArchiveError(f"`{shown(path)}` does not match the size and checksum in the archive")
        with self._made_here(path) as place:
            source.rename(place)
        place.chmod(0o444)
        self.files[path] = FileEntry(sha256=digest.hexdigest(), size_bytes=info.st_size)

    def take_once(self, name: str, source: Path) -> None:
        """Claim and move a file, unless an identical file exists, because components may share files."""
        there = self._claimed.get(self._key(self._clean_name(name)))
        if there is None:
            self.take(self.claim(name), source)
        elif is_link(source.lstat()) or self.files[there].sha256 != sha256_of(source):
            raise ArchiveError(f"`{shown(name)}` differs between two packages")

    def restart(self) -> None:
        """Remove written files but keep claims."""
        remove_tree(self.folder)
        self.folder.mkdir()
        self.files.clear()
        self._made.clear()

    @contextlib.contextmanager
    def _made_here(self, path: str) -> Iterator[Path]:
        """Create the parent of a claimed path; raise ArchiveError if the filesystem rejects the name."""
        place = self.folder / path
        with _name_errors(place):
            above = ""
            for part in path.split("/")[:-1]:
                above = f"{above}/{part}" if above else part
                if above not in self._made:
                    (self.folder / above).mkdir()
                    self._made.add(above)
            yield place


class OpenFile:
    """A file that is being written to a tree."""

    def __init__(self, tree: Tree, path: str, descriptor: int, expected: FileEntry) -> None:
        self._tree = tree
        self._path = path
        self._descriptor = descriptor
        self._expected = expected
        self._written = 0
        self._digest = hashlib.sha256()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append data; raise ArchiveError if the file exceeds its declared size."""
        if self._written + len(data) > self._expected.size_bytes:
            raise ArchiveError(f"`{shown(self._path)}` is larger than the archive declares")
        self._digest.update(data)
        write_uncached(self._descriptor, memoryview(data), self._written)
        self._written += len(data)
        self._tree.advance(len(data))

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def finish(self) -> None:
        """Close the file and add it to the tree's list; raise ArchiveError if it is smaller than declared."""
        self.close()
        if self._written != self._expected.size_bytes:
            raise ArchiveError(f"`{shown(self._path)}` is truncated")
        self._tree.files[self._path] = replace(self._expected, sha256=self._digest.hexdigest())


# ---------------------------------------------------------------- names


def member_path(name: str) -> str:
    """Sanitize a member's name into a relative path ("" is the root); raise ArchiveError if it is unsafe."""
    _require_plain(name, name)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or any(part[1:2] == ":" for part in parts[:1]):
        raise ArchiveError(f"`{shown(name)}` is an absolute path")
    if ".." in parts:
        raise ArchiveError(f"`{shown(name)}` points outside the package")
    return "/".join(parts)


def windows_path(name: str) -> str:
    """Sanitize a member's name like `member_path`, and also reject names with a special meaning on Windows.

    These are device names, alternate data streams, and names with trailing dots or spaces.
    """
    clean = member_path(name.replace("\\", "/"))
    for part in clean.split("/"):
        if any(char in '<>:"|?*' for char in part):
            raise ArchiveError(f"`{shown(name)}` contains a character that is special on Windows")
        if part.endswith((" ", ".")):
            raise ArchiveError(f"`{shown(name)}` ends with a dot or a space, which Windows drops")
        if is_device(part):
            raise ArchiveError(f"`{shown(name)}` is reserved for a device on Windows")
    return clean


def link_target(name: str, target: str) -> str:
    """Make the target of the link at `name` relative; raise ArchiveError if it points outside the tree."""
    _require_plain(target, name)
    if not target:
        raise ArchiveError(f"`{shown(name)}` is a link without a target")
    here = posixpath.dirname(name)
    if target.startswith("/"):
        # The target refers to the package's root; in a prefix, an absolute link would point to system files.
        target = posixpath.relpath("/" + target.lstrip("/"), "/" + here)
    reached = posixpath.normpath(posixpath.join(here, target))
    # A `..` after another name could escape through an earlier link, which the path alone does not reveal.
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbs_late = ".." in steps[next((i for i, step in enumerate(steps) if step != ".."), len(steps)) :]
    if reached == ".." or reached.startswith("../") or climbs_late:
        raise ArchiveError(f"`{shown(name)}` is a link to `{shown(target)}`, outside the package")
    return target


def _require_plain(path: str, name: str) -> None:
    """Reject names that some systems or terminals cannot handle; ROCm packages do not use them."""
    if max(len(path), len(name)) > _MAX_NAME:
        raise ArchiveError(f"`{shown(name[:40])}…` cannot be created: the path or link target is too long")
    if "\\" in path or any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise ArchiveError(f"`{shown(name)}` contains a backslash or a control character")
    if any("\ud800" <= char <= "\udfff" for char in path):
        raise ArchiveError(f"`{shown(name)}` is not valid UTF-8")


def shown(name: str) -> str:
    """Escape a name in a message, so that it cannot control a terminal."""
    return repr(name)[1:-1]


def plausible_bytes(archive_bytes: int) -> int:
    """Return the largest plausible unpacked size of an archive with libraries."""
    return _RATIO_FREE_BYTES + _RATIO * archive_bytes


def require_plausible(unpacked_bytes: int, archive_bytes: int) -> None:
    """Raise ArchiveError for a bomb: an archive that declares an implausible compression ratio."""
    if unpacked_bytes > plausible_bytes(archive_bytes):
        raise ArchiveError(
            f"it is {archive_bytes} bytes, but claims to unpack to {unpacked_bytes}, which is implausible"
        )


@contextlib.contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Windows reports an excessively long path as a missing folder.
        if WINDOWS and error.errno == errno.ENOENT and len(str(path)) >= _PATH_LIMIT:
            raise too_long(f"`{path}` is longer than Windows allows") from error
        if error.errno not in _NAME_ERRORS:
            raise
        raise ArchiveError(f"`{shown(path.name)}` cannot be created: {error.strerror}") from error

"""Unpack a tar stream into a fresh folder: the only place where an archive member's name meets a path."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import posixpath
import tarfile
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError
from rocenv.core.model import FileEntry
from rocenv.install.xz import CHUNK_BYTES
from rocenv.system.files import write_uncached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

# What a file system says to a name that it cannot hold, or holds already under another spelling.
NAME_ERRORS = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST)


def unpack(chunks: Iterator[bytes], folder: Path, advance: Callable[[int], None]) -> dict[str, FileEntry]:
    """Unpack the tar stream into `folder`, which is empty, and return what lies in it now.

    Files come out read-only, with the time stamps of the unpacking; owners are ignored. A link whose target
    is absolute is read as the package means it, from the root of the tree, and made relative.

    Args:
        chunks: The tar stream.
        folder: Where to; nothing outside it is ever written.
        advance: Called with the number of bytes written, as they are written.

    Raises:
        ArchiveError: The stream is damaged, or a member is absolute, climbs out, goes through a link, stands
            there twice, is a device or set-uid, or is a link that leads out. Members before it stay behind.
    """
    unpacker = _Unpacker(folder, advance)
    reader = _ChunkReader(chunks)
    try:
        with tarfile.open(
            fileobj=reader, mode="r|", bufsize=CHUNK_BYTES, tarinfo=_Member, encoding="utf-8"
        ) as tar:
            for member in tar:
                unpacker.take(tar, member)
    except (tarfile.TarError, ValueError) as error:  # ValueError: a number in a header that is none
        raise ArchiveError(f"damaged tar stream: {error}") from error
    # What is behind the end marker is padding, but damage there shows only when it is decoded.
    for _padding in chunks:
        pass
    return unpacker.files


class _Member(tarfile.TarInfo):
    """A member of an archive that ends with an end marker; `tarfile` takes any damage for the end."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


class _ChunkReader(io.RawIOBase):
    """The chunks as a file that `tarfile` can read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts: list[memoryview] = []
        missing = size
        while missing > 0:
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left = memoryview(chunk)
            parts.append(self._left[:missing])
            self._left = self._left[missing:]
            missing -= len(parts[-1])
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


class _Unpacker:
    def __init__(self, folder: Path, advance: Callable[[int], None]) -> None:
        self.files: dict[str, FileEntry] = {}
        self._folder = folder
        self._advance = advance
        self._folders = {""}

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = member_path(member.name)
        if name == "":
            return
        if member.mode & 0o6000 and not member.isdir():
            raise ArchiveError(f"`{shown(member.name)}` is set-uid or set-gid")
        try:
            self._make(tar, member, name)
        except OSError as error:
            if error.errno not in NAME_ERRORS:
                raise
            raise ArchiveError(f"`{shown(name)}` cannot be made here: {error.strerror}") from error

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        if member.isdir():
            self._make_folder(name)
            return
        if name in self.files or name in self._folders:
            raise ArchiveError(f"`{shown(member.name)}` stands in the package twice")
        self._make_folder(posixpath.dirname(name))
        if member.isreg():
            self.files[name] = self._write(tar, member, name)
        elif member.issym():
            self.files[name] = self._symlink(member, name)
        elif member.islnk():
            self.files[name] = self._hard_link(member, name)
        else:
            raise ArchiveError(f"`{shown(member.name)}` is a device, pipe or another special file")

    def _make_folder(self, name: str) -> None:
        if name in self._folders:
            return
        self._make_folder(posixpath.dirname(name))
        if name in self.files:
            raise ArchiveError(f"a path of the package goes through `{shown(name)}`, which is no folder")
        (self._folder / name).mkdir()
        self._folders.add(name)

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> FileEntry:
        source = tar.extractfile(member)
        if source is None or member.sparse is not None:
            raise ArchiveError(f"`{shown(member.name)}` is stored in a form that rocenv cannot read")
        executable = bool(member.mode & 0o111)
        digest = hashlib.sha256()
        written = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self._folder / name, flags, 0o555 if executable else 0o444)
        try:
            while data := source.read(CHUNK_BYTES):
                digest.update(data)
                write_uncached(descriptor, memoryview(data), written)
                written += len(data)
                self._advance(len(data))
        finally:
            os.close(descriptor)
        if written != member.size:
            raise ArchiveError(f"`{shown(member.name)}` is cut short")
        return FileEntry(sha256=digest.hexdigest(), size_bytes=written, executable=executable)

    def _symlink(self, member: tarfile.TarInfo, name: str) -> FileEntry:
        target = link_target(name, member.linkname)
        os.symlink(target, self._folder / name)
        return FileEntry(link=target)

    def _hard_link(self, member: tarfile.TarInfo, name: str) -> FileEntry:
        original = member_path(member.linkname)
        entry = self.files.get(original)
        if entry is None or entry.link:
            raise ArchiveError(
                f"`{shown(member.name)}` is a hard link to `{shown(member.linkname)}`, "
                "which is no earlier file"
            )
        os.link(self._folder / original, self._folder / name)
        return entry


def member_path(name: str) -> str:
    """Return a member's name as a clean relative path, `""` for the root; raise ArchiveError if unsafe."""
    _require_plain(name, name)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or any(part[1:2] == ":" for part in parts[:1]):
        raise ArchiveError(f"`{shown(name)}` is an absolute path")
    if ".." in parts:
        raise ArchiveError(f"`{shown(name)}` climbs out of the package")
    return "/".join(parts)


def link_target(name: str, target: str) -> str:
    """Return the relative target of the link at `name`; raise ArchiveError where it leads out of the tree."""
    _require_plain(target, name)
    if not target:
        raise ArchiveError(f"`{shown(name)}` is a link to nothing")
    here = posixpath.dirname(name)
    if target.startswith("/"):
        # A package means its own root; an absolute link in a prefix would lead to the machine's files.
        target = posixpath.relpath("/" + target.lstrip("/"), "/" + here)
    reached = posixpath.normpath(posixpath.join(here, target))
    # A `..` behind another name could climb from where an earlier link leads, which no look at names shows.
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbs_late = ".." in steps[next((i for i, step in enumerate(steps) if step != ".."), len(steps)) :]
    if reached == ".." or reached.startswith("../") or climbs_late:
        raise ArchiveError(f"`{shown(name)}` is a link to `{shown(target)}`, outside the package")
    return target


def _require_plain(path: str, name: str) -> None:
    """Raise ArchiveError for what no ROCm package holds, and what not every system and screen can show."""
    if "\\" in path or any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise ArchiveError(f"`{shown(name)}` holds a backslash or a control character")
    if any("\ud800" <= char <= "\udfff" for char in path):
        raise ArchiveError(f"`{shown(name)}` is not valid UTF-8")


def shown(name: str) -> str:
    """Return a name for a message, with escapes for what would act on a terminal."""
    return repr(name)[1:-1]

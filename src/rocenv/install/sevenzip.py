"""Unpack 7z archives: by py7zr, and by a program of the machine where py7zr does not know the method."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import ArchiveError, RocenvError
from rocenv.install.tree import require_plausible, windows_path
from rocenv.install.unpack import shown
from rocenv.install.unpackers import Member, unpack_by_program
from rocenv.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py7zr import SevenZipFile

    from rocenv.install.tree import Growing, Tree


def unpack_7z(path: Path, tree: Tree, work: Path, *, start: int = 0, below: str = "") -> None:
    """Unpack a 7z archive into a tree; every name is checked before anything is written.

    Args:
        path: The file that holds the archive.
        tree: Where to.
        work: A folder that is not there; made and removed where another program has to unpack.
        start: Where in the file the archive begins.
        below: Only what lies below a folder of this name is unpacked; "" = everything.

    Raises:
        ArchiveError: It is damaged, encrypted, a bomb, holds a link or an unsafe name, or is compressed in
            a way that no program of this machine knows.
    """
    import py7zr
    from py7zr.exceptions import UnsupportedCompressionMethodError

    with path.open("rb") as stream:
        window = io.BufferedReader(_Window(stream, start))
        sinks = _Sinks(tree)
        with _as_damage(sinks), py7zr.SevenZipFile(window) as archive:
            members = _members(archive, tree, below)
            require_plausible(sum(member.size_bytes for member in members), path.stat().st_size - start)
            sinks.wanted = {member.path: member for member in members}
            factory: Any = sinks
            try:
                archive.extract(tree.folder, [member.stored for member in members], factory=factory)
                sinks.finish()
                return
            except UnsupportedCompressionMethodError:
                sinks.close_file()
    tree.restart()
    try:
        unpack_by_program(path, members, tree, work, start=start, only_these=bool(below))
    finally:
        remove_tree(work)


def _members(archive: SevenZipFile, tree: Tree, below: str) -> list[Member]:
    members = []
    for info in archive.files:
        path = windows_path(info.filename)
        if below and below.casefold() not in path.casefold().split("/")[:-1]:
            continue
        if info.is_symlink or info.is_junction or info.is_socket:
            raise ArchiveError(f"`{shown(info.filename)}` is a link or another special file")
        if not info.is_directory:
            name = tree.claim(info.filename)
            size_bytes, crc = info.uncompressed, info.crc32
            members.append(Member(stored=info.filename, path=path, name=name, size_bytes=size_bytes, crc=crc))
    return members


class _Sinks:
    """The files of a tree as py7zr wants them: it writes one after the other, so one object is all of them.

    Attributes:
        wanted: What may be written, by clean path.
        failure: What our own code raised below py7zr, such as a full disk: no fault of the archive.
    """

    def __init__(self, tree: Tree) -> None:
        self.wanted: dict[str, Member] = {}
        self.failure: BaseException | None = None
        self._tree = tree
        self._file: Growing | None = None

    def create(self, filename: str) -> _Sinks:
        with self._noting_failure():
            self.finish()
            member = self.wanted[windows_path(Path(filename).relative_to(self._tree.folder).as_posix())]
            self._file = self._tree.begin(member.name, member.size_bytes)
        return self

    def write(self, data: bytes | bytearray) -> int:
        with self._noting_failure():
            assert self._file is not None
            self._file.write(data)
        return len(data)

    def finish(self) -> None:
        """Enter the file that was written last."""
        if self._file is not None:
            self._file.finish()
            self._file = None

    def close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise

    # The rest of a file, as py7zr calls it; `close` is not called by all its versions.

    def read(self, _size: int | None = None) -> bytes:
        return b""

    def seek(self, _offset: int, _whence: int = 0) -> int:
        return 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def size(self) -> int:
        return 0


@contextlib.contextmanager
def _as_damage(sinks: _Sinks) -> Iterator[None]:
    """Turn whatever py7zr raises on damage, and that is nearly anything, into an ArchiveError."""
    from py7zr.exceptions import CrcError, PasswordRequired

    try:
        yield
    except Exception as error:
        if sinks.failure is not None:
            raise sinks.failure from None
        if isinstance(error, RocenvError) or (isinstance(error, OSError) and error.errno != errno.EINVAL):
            raise
        if isinstance(error, PasswordRequired):
            raise ArchiveError("the 7z archive is encrypted") from error
        if isinstance(error, CrcError):
            name = shown(str(error.filename))
            raise ArchiveError(f"damaged 7z archive: the contents of `{name}` are wrong") from error
        words = shown(str(error)[:200])
        raise ArchiveError(f"damaged 7z archive: {words or type(error).__name__}") from error
    finally:
        sinks.close_file()


class _Window(io.RawIOBase):
    """A file from a position on, as a file of its own."""

    def __init__(self, stream: io.BufferedReader, start: int) -> None:
        self._stream = stream
        self._start = start
        stream.seek(start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            offset += self._start
        return self._stream.seek(offset, whence) - self._start

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto(buffer)

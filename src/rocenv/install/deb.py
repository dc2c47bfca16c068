"""Unpack Debian binary packages as streams."""

from __future__ import annotations

import tarfile
import zlib
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import ArchiveError
from rocenv.core.progress import size_text
from rocenv.install.tree import plausible_bytes, shown
from rocenv.install.xz import Bounded, xz_chunks
from rocenv.system.files import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from typing_extensions import Self

    from rocenv.install.tree import Tree
    from rocenv.install.xz import Readable


_MARGIN_BYTES = 64 << 20  # for tar headers, and for files not counted in the declared size
_HEADER_BYTES = 1 << 20  # limit for long names and attributes, because tarfile reads them into memory


def data_chunks(stream: Readable, pool: Executor, ahead: int) -> Iterator[bytes]:
    """Yield the uncompressed tar stream of a package's files.

    `stream` is the package; it is read once, from the first byte. See `xz_chunks` for the other arguments.

    Raises:
        ArchiveError: The stream is not a Debian package, is damaged, or uses an unsupported compression
            method.

    Source: deb(5)
    """
    if stream.read(8) != b"!<arch>\n":
        raise ArchiveError("not a Debian package")
    while True:
        header = stream.read(60)
        if len(header) < 60 or header[58:] != b"`\n":
            raise ArchiveError("the package contains no data or is truncated")
        name = header[:16].decode("ascii", "replace").rstrip(" /")
        digits = header[48:58].rstrip(b" ")
        if not digits.isdigit():
            raise ArchiveError("the package's list of members is damaged")
        size = int(digits)
        if name.startswith("data.tar"):
            return _decompressed(name, Bounded(stream, size), pool, ahead)
        skipped = Bounded(stream, size + size % 2)
        while skipped.read(CHUNK_BYTES):
            pass


def limited(chunks: Iterator[bytes], stated_bytes: int, package_bytes: int) -> Iterator[bytes]:
    """Yield a package's tar stream; raise ArchiveError if it is more than a quarter larger than declared.

    The index declares an estimate, or 0, in which case the limit is a plausible compression ratio. None of
    740 packages from Debian, Ubuntu, and others exceeded its declared size.
    """
    most = plausible_bytes(package_bytes)  # because a lock may declare any size
    if stated_bytes:
        most = min(most, stated_bytes + stated_bytes // 4 + _MARGIN_BYTES)
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            stated = size_text(stated_bytes) if stated_bytes else "no size"
            raise ArchiveError(
                f"it unpacks to more than {size_text(most)}, but the package index declares {stated}"
            )
        yield chunk


def _decompressed(name: str, member: Bounded, pool: Executor, ahead: int) -> Iterator[bytes]:
    match name.removeprefix("data.tar"):
        case ".xz":
            return xz_chunks(member, pool, ahead)
        case ".gz":
            return _gzip_chunks(member)
        case ".zst":
            return _zstd_chunks(member)
        case "":
            return iter(lambda: member.read(CHUNK_BYTES), b"")
        case other:
            raise ArchiveError(f"the package's files use `{other}` compression, which is not supported")


def _gzip_chunks(member: Bounded) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    data = b""
    try:
        while data := data or member.read(CHUNK_BYTES):
            piece = decoder.decompress(data, CHUNK_BYTES)
            if piece:
                yield piece
            data = decoder.unconsumed_tail
            if decoder.eof:
                # Concatenated streams decompress to concatenated contents. Source: RFC 1952
                data = decoder.unused_data or member.read(CHUNK_BYTES)
                if not data:
                    return
                decoder = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise ArchiveError(f"damaged gzip stream: {error}") from error
    raise ArchiveError("damaged gzip stream: it ends early")


def _zstd_chunks(member: Bounded) -> Iterator[bytes]:
    import zstandard

    source: Any = member
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    try:
        while data := reader.read(CHUNK_BYTES):
            yield data
    except zstandard.ZstdError as error:
        raise ArchiveError(f"damaged zstd stream: {error}") from error


def unpack_tar(chunks: Iterator[bytes], tree: Tree) -> None:
    """Unpack a tar stream with its links, hard links, and executable bits.

    Raises:
        ArchiveError: The stream is damaged, or a member has an absolute path, escapes the tree, goes through
            a link, occurs twice, is a device or set-uid, or is a link that points outside. Members that were
            unpacked before the error are kept.
    """
    stream = _TarStream(chunks)
    source: Any = stream
    try:
        with tarfile.open(fileobj=source, mode="r:", tarinfo=_Member, encoding="utf-8") as archive:
            for member in archive:
                _unpack_member(member, stream, tree)
    except (tarfile.TarError, ValueError) as error:  # ValueError: an invalid number in a header
        raise ArchiveError(f"damaged tar stream: {error}") from error
    # Only padding follows the end marker, but decoding it also verifies the stream.
    for _padding in chunks:
        pass


def _unpack_member(member: tarfile.TarInfo, stream: _TarStream, tree: Tree) -> None:
    if member.isdir():
        tree.claim_folder(member.name)
        return
    if member.mode & 0o6000:
        raise ArchiveError(f"`{shown(member.name)}` is set-uid or set-gid")
    path = tree.claim(member.name)
    if member.issym():
        tree.link(path, member.linkname)
    elif member.islnk():
        tree.hard_link(path, member.linkname)
    elif not member.isreg():
        raise ArchiveError(f"`{shown(member.name)}` is a device, a pipe or some other special file")
    elif member.sparse is not None:
        raise ArchiveError(f"`{shown(member.name)}` is a sparse file, which is not supported")
    else:
        tree.write(path, member.size, stream.pieces(member.size), executable=bool(member.mode & 0o111))


class _Member(tarfile.TarInfo):
    """A tar member that rejects damaged headers, which `tarfile` would treat as the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


class _TarStream:
    """A file for `tarfile` that reads the stream without copying it; it can only seek forward."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> int:
        for _skipped in self.pieces(position - self._position):
            pass
        return self._position

    def read(self, size: int) -> bytes:
        if size > _HEADER_BYTES:
            raise ArchiveError(f"damaged tar stream: it has a header of {size_text(size)}")
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Yield the next bytes as they arrive; fewer than requested only at the end of the stream."""
        end = self._position + size
        while self._position < end:
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return
                self._left = memoryview(chunk)
            piece = self._left[: end - self._position]
            self._left = self._left[len(piece) :]
            self._position += len(piece)
            yield piece

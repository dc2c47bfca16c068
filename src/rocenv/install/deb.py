"""Debian binary packages: from the bytes of a `.deb` to the stream of its file tree."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from rocenv.errors import ArchiveError
from rocenv.install.xz import CHUNK_BYTES, xz_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from rocenv.install.xz import Readable


class Member:
    """A bounded view of a stream that is only read forwards."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the member.

        Raises:
            ArchiveError: The stream ends inside the member.
        """
        wanted = min(size, self._left)
        data = self._stream.read(wanted)
        if len(data) < wanted:
            raise ArchiveError("the package is cut short")
        self._left -= wanted
        return data


def data_chunks(stream: Readable, pool: Executor, ahead: int) -> Iterator[bytes]:
    """Yield the uncompressed tar stream of a package's files.

    Args:
        stream: The package, from its first byte; read once, forwards.
        pool: See `xz_chunks`.
        ahead: See `xz_chunks`.

    Raises:
        ArchiveError: It is no Debian package, is damaged, or uses a compression that is not known.

    Source: deb(5)
    """
    if stream.read(8) != b"!<arch>\n":
        raise ArchiveError("not a Debian package")
    while True:
        header = stream.read(60)
        if len(header) < 60 or header[58:] != b"`\n":
            raise ArchiveError("the package holds no data, or is cut short")
        name = header[:16].decode("ascii", "replace").rstrip(" /")
        try:
            size = int(header[48:58])
        except ValueError:
            raise ArchiveError("the package's list of members is damaged") from None
        if name.startswith("data.tar"):
            return _decompressed(name, Member(stream, size), pool, ahead)
        stream.read(size + size % 2)


def _decompressed(name: str, member: Member, pool: Executor, ahead: int) -> Iterator[bytes]:
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
            raise ArchiveError(f"the package's files are compressed as `{other}`, which rocenv cannot read")


def _gzip_chunks(member: Member) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    try:
        while not decoder.eof:
            data = decoder.unconsumed_tail or member.read(CHUNK_BYTES)
            if not data:
                raise ArchiveError("damaged gzip stream: it ends early")
            yield decoder.decompress(data, CHUNK_BYTES)
    except zlib.error as error:
        raise ArchiveError(f"damaged gzip stream: {error}") from error


def _zstd_chunks(member: Member) -> Iterator[bytes]:
    import zstandard

    source: Any = member
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    try:
        while data := reader.read(CHUNK_BYTES):
            yield data
    except zstandard.ZstdError as error:
        raise ArchiveError(f"damaged zstd stream: {error}") from error

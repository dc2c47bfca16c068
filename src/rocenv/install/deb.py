"""Debian binary packages: from the bytes of a `.deb` to the stream of its file tree."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import ArchiveError
from rocenv.install.xz import CHUNK_BYTES, Bounded, xz_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from rocenv.install.xz import Readable


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
        digits = header[48:58].rstrip(b" ")
        if not digits.isdigit():
            raise ArchiveError("the package's list of members is damaged")
        size = int(digits)
        if name.startswith("data.tar"):
            return _decompressed(name, Bounded(stream, size), pool, ahead)
        _pass_over(Bounded(stream, size + size % 2))


def _pass_over(member: Bounded) -> None:
    while member.read(CHUNK_BYTES):
        pass


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
            raise ArchiveError(f"the package's files are compressed as `{other}`, which rocenv cannot read")


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
                # Several streams one after another mean their contents one after another. Source: RFC 1952
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

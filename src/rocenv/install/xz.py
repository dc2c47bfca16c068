"""Decode an xz stream on multiple cores.

A stream written by several threads consists of blocks whose headers contain their sizes, so each block can be
decoded while the next one is read. Other streams are decoded sequentially. In both cases, the decoder
verifies the block checksums and the index, so a missing block is detected.

Source: https://tukaani.org/xz/xz-file-format.txt, sections 2 to 4
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections import deque
from typing import TYPE_CHECKING, Protocol

from rocenv.core.errors import ArchiveError
from rocenv.system.files import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor, Future

MAGIC = b"\xfd7zXZ\x00"
_CHECK_BYTES = {0: 0, 1: 4, 4: 8, 10: 32}
_HAS_SIZES = 0xC0
_MEMORY_LIMIT = 512 << 20
_LARGE_BLOCK_BYTES = 32 << 20  # blocks are usually 24 MiB; several larger ones would need too much memory


class Readable(Protocol):
    """A stream whose `read(size)` returns fewer than `size` bytes only at its end."""

    def read(self, size: int, /) -> bytes:
        """Read the next bytes."""
        ...


class Bounded:
    """The next `size` bytes of a forward-only stream."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or all that are left if there are fewer.

        Raises:
            ArchiveError: The stream ends too early.
        """
        wanted = min(size, self._left)
        data = self._stream.read(wanted)
        if len(data) < wanted:
            raise ArchiveError("it is truncated")
        self._left -= wanted
        return data


def xz_chunks(stream: Readable, pool: Executor, ahead: int) -> Iterator[bytes]:
    """Yield the decoded bytes of `stream` in order, in chunks of at most 1 MiB.

    Args:
        stream: The xz stream, with nothing after it; it is read once, sequentially.
        pool: Threads that decode blocks; it may be shared.
        ahead: Maximum number of blocks decoded or queued at once, which limits memory use.

    Raises:
        ArchiveError: The stream is damaged, truncated, or has trailing data.
    """
    waiting: deque[Future[list[bytes]]] = deque()
    blocks: list[tuple[int, int]] = []
    try:
        header = _stream_header(stream)
        check_bytes = _CHECK_BYTES[header[7]]
        while block_header := _block_header(stream):
            sizes = _block_sizes(block_header)
            if sizes is None:
                if blocks:
                    raise EOFError("only some blocks declare their size")
                yield from _in_one_go(header + block_header, stream)
                return
            compressed, plain = sizes
            blocks.append((len(block_header) + compressed + check_bytes, plain))
            body = Bounded(stream, compressed + -compressed % 4 + check_bytes)
            if max(sizes) > _LARGE_BLOCK_BYTES:
                yield from _drain(waiting)
                yield from _block(header + block_header, body, plain)
                continue
            rest = body.read(compressed + 3 + check_bytes)
            waiting.append(pool.submit(_whole_block, header + block_header, rest, plain))
            if len(waiting) >= ahead:
                yield from waiting.popleft().result()
        yield from _drain(waiting)
        _require_end(stream, _end(header, blocks))
    except (lzma.LZMAError, MemoryError, EOFError) as error:
        raise ArchiveError(f"damaged xz stream: {error}") from error
    finally:
        for future in waiting:
            future.cancel()


def _drain(waiting: deque[Future[list[bytes]]]) -> Iterator[bytes]:
    while waiting:
        yield from waiting.popleft().result()


# ---------------------------------------------------------------- parts of a stream


def _stream_header(stream: Readable) -> bytes:
    header = stream.read(12)
    if not header.startswith(MAGIC):
        raise EOFError("invalid magic bytes")
    if len(header) < 12 or _crc32(header[6:8]) != header[8:]:
        raise EOFError("invalid stream header")
    if header[6] or header[7] not in _CHECK_BYTES:
        raise EOFError("unknown stream flags")
    return header


def _block_header(stream: Readable) -> bytes:
    """Read the header of the next block, or return b"" at the index, which follows the last block."""
    first = stream.read(1)
    if not first:
        raise EOFError("it ends before its index")
    if first == b"\0":
        return b""
    header = first + stream.read((first[0] + 1) * 4 - 1)
    if _crc32(header[:-4]) != header[-4:]:
        raise EOFError("a block header is damaged")
    return header


def _block_sizes(header: bytes) -> tuple[int, int] | None:
    """Parse a block's compressed and uncompressed sizes, or return None if the header lacks one."""
    if header[1] & _HAS_SIZES != _HAS_SIZES:
        return None
    compressed, position = _number(header, 2)
    plain, _ = _number(header, position)
    return compressed, plain


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Parse the number at `position`, and return it with the position after it."""
    value = shift = 0
    for byte in data[position : position + 9]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise EOFError("a block header is damaged")


def _as_number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _end(header: bytes, blocks: list[tuple[int, int]]) -> bytes:
    """Build the index and footer expected after these blocks, without the first byte of the index."""
    index = b"\0" + _as_number(len(blocks)) + b"".join(_as_number(size) for both in blocks for size in both)
    index += bytes(-len(index) % 4)
    index += _crc32(index)
    footer = (len(index) // 4 - 1).to_bytes(4, "little") + header[6:8]
    return index[1:] + _crc32(footer) + footer + b"YZ"


def _require_end(stream: Readable, expected: bytes) -> None:
    found = stream.read(len(expected))
    if found != expected:
        raise EOFError(
            "it ends early" if expected.startswith(found) else "its index does not match its blocks"
        )
    if stream.read(1):
        raise EOFError("it has trailing data")


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


# ---------------------------------------------------------------- decoding


def _whole_block(start: bytes, rest: bytes, plain: int) -> list[bytes]:
    return list(_block(start, io.BytesIO(rest), plain))


def _block(start: bytes, rest: Readable, plain: int) -> Iterator[bytes]:
    """Decode a block as a separate stream, in small chunks to avoid copying large buffers."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    size = 0
    for piece in _pieces(decoder, start, rest):
        size += len(piece)
        yield piece
    if size != plain or not decoder.needs_input:
        raise EOFError("a block ends early")


def _in_one_go(start: bytes, stream: Readable) -> Iterator[bytes]:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    yield from _pieces(decoder, start, stream)
    if not decoder.eof:
        raise EOFError("it ends early")
    if decoder.unused_data or stream.read(1):
        raise EOFError("it has trailing data")


def _pieces(decoder: lzma.LZMADecompressor, data: bytes, stream: Readable) -> Iterator[bytes]:
    """Decode `data`, then `stream`, until the decoder or the stream ends."""
    while True:
        piece = decoder.decompress(data, CHUNK_BYTES)
        if piece:
            yield piece
        data = b""
        if decoder.eof:
            return
        if decoder.needs_input:
            data = stream.read(CHUNK_BYTES)
            if not data:
                return

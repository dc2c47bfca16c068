"""Decode an xz stream with several cores, straight from the stream.

A stream that was written by several threads consists of blocks that name their own sizes, so each can be
cut out and decoded alone while the next is read. Any other stream is decoded in one go. The blocks' own
checksums are verified by the decoder in both cases.

Source: https://tukaani.org/xz/xz-file-format.txt, sections 2.1.1 and 3.1
"""

from __future__ import annotations

import lzma
from collections import deque
from typing import TYPE_CHECKING, Protocol

from rocenv.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor, Future

MAGIC = b"\xfd7zXZ\x00"
CHUNK_BYTES = 1 << 20
_CHECK_BYTES = {0: 0, 1: 4, 4: 8, 10: 32}
_HAS_SIZES = 0xC0
_MEMORY_LIMIT = 512 << 20


class Readable(Protocol):
    """Something whose `read(size)` returns fewer than `size` bytes only at its end."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        ...


def xz_chunks(stream: Readable, pool: Executor, ahead: int) -> Iterator[bytes]:
    """Yield the decoded bytes of `stream` in order, in pieces of at most 1 MiB.

    Args:
        stream: Positioned at the start of the xz stream; read once, forwards.
        pool: Decodes blocks; may be shared.
        ahead: How many blocks may be decoded or waiting at once, which bounds the memory.

    Raises:
        ArchiveError: The stream is damaged or ends early.
    """
    header = stream.read(12)
    if not header.startswith(MAGIC) or len(header) < 12:
        raise ArchiveError("not an xz stream")
    check_bytes = _CHECK_BYTES.get(header[7] & 0x0F)
    waiting: deque[Future[list[bytes]]] = deque()
    try:
        while True:
            block_header = _read_block_header(stream)
            if block_header is None:
                break
            sizes = _block_sizes(block_header)
            if sizes is None or check_bytes is None:
                yield from _drain(waiting)
                yield from _in_one_go(header + block_header, stream)
                return
            compressed, plain = sizes
            rest = stream.read(compressed + -(len(block_header) + compressed) % 4 + check_bytes)
            waiting.append(pool.submit(_decode_block, header, block_header + rest, plain))
            if len(waiting) >= ahead:
                yield from waiting.popleft().result()
        yield from _drain(waiting)
    except (lzma.LZMAError, MemoryError, EOFError) as error:
        raise ArchiveError(f"damaged xz stream: {error}") from error
    finally:
        for future in waiting:
            future.cancel()


def _drain(waiting: deque[Future[list[bytes]]]) -> Iterator[bytes]:
    while waiting:
        yield from waiting.popleft().result()


def _read_block_header(stream: Readable) -> bytes | None:
    """Return the next block's header, or None at the index, which follows the last block."""
    first = stream.read(1)
    if not first:
        raise EOFError("it ends before its index")
    if first == b"\0":
        return None
    return first + stream.read((first[0] + 1) * 4 - 1)


def _block_sizes(header: bytes) -> tuple[int, int] | None:
    if len(header) < 8 or header[1] & _HAS_SIZES != _HAS_SIZES:
        return None
    compressed, position = _variable_length_integer(header, 2)
    plain, _ = _variable_length_integer(header, position)
    return compressed, plain


def _variable_length_integer(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _decode_block(stream_header: bytes, block: bytes, plain: int) -> list[bytes]:
    """Decode one block as a stream of its own; small pieces, so that no large buffer is ever copied."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    decoder.decompress(stream_header)
    pieces = []
    piece = decoder.decompress(block, CHUNK_BYTES)
    while piece:
        pieces.append(piece)
        piece = decoder.decompress(b"", CHUNK_BYTES)
    if sum(map(len, pieces)) != plain or not decoder.needs_input:
        raise EOFError("a block ends early")
    return pieces


def _in_one_go(start: bytes, stream: Readable) -> Iterator[bytes]:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
    data = start
    while not decoder.eof:
        piece = decoder.decompress(data, CHUNK_BYTES)
        if piece:
            yield piece
        if decoder.needs_input and not decoder.eof:
            data = stream.read(CHUNK_BYTES)
            if not data:
                raise EOFError("it ends early")
        else:
            data = b""

"""A log as blocks of text: whatever file, folder or stream it comes in, and in whatever encoding.

A block is bytes in which ASCII stands for itself, without NUL bytes and colours, that end at the end of a
line. What is told of a log is decoded later (`decode`), and only the lines that matter: to search, it is
enough that ASCII can be found.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from rocenv.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BLOCK_BYTES = 1 << 20
LONGEST_BYTES = 1 << 16  # of a line; longer ones are parted
_FILES = 2000  # of a folder
_MOST_BYTES = 1 << 36  # of one log, unpacked: a file of zeros packs to nothing
_GZIP = b"\x1f\x8b"
_CONTROL = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~])"
    rb"|[\x00\x08]"
)
_BOMS = ((codecs.BOM_UTF8, ""), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SAMPLE_BYTES = 4096
_PARTLY = 0.3  # of the bytes of a sample that are NUL, on one side, in UTF-16 that is mostly ASCII


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a log."""

    data: bytes
    first_line: int  # its number in the file, from 1
    file: str = ""  # in a folder: which one


Open = "Callable[[], IO[bytes]]"


def read_path(path: Path, seen: Callable[[int], None] = lambda _bytes: None) -> Iterator[Block]:
    """Yield the blocks of a file, or of all files below a folder in the order of their names.

    Args:
        path: A file, packed with gzip or not, or a folder.
        seen: Called with how many bytes of the file were read, as they are on the disk.

    Raises:
        RocenvError: It cannot be read; names what can be done.
    """
    try:
        if not path.is_dir():
            with open(path, "rb") as stream:
                yield from read_stream(stream, seen=seen)
            return
    except OSError as error:
        raise RocenvError(
            f"cannot read `{path}`: {error.strerror or error}",
            hints=("name a log file, a folder of logs, or `-` for standard input",),
            code="log-unreadable",
        ) from error
    for file in _files(path):
        with contextlib.suppress(OSError), open(file, "rb") as stream:  # the others can still be read
            yield from read_stream(stream, seen=seen, file=os.path.relpath(file, path))


def read_bytes(data: bytes) -> Iterator[Block]:
    """Yield the blocks of a log that is at hand."""
    return read_stream(io.BytesIO(data))


def read_stream(
    stream: IO[bytes], *, seen: Callable[[int], None] = lambda _bytes: None, file: str = ""
) -> Iterator[Block]:
    """Yield the blocks of a stream, which may be packed with gzip; a damaged end is an end."""
    pieces = _pieces(stream, seen)
    decoded = _as_ascii(pieces)
    line, rest = 1, b""
    for piece in decoded:
        data = _plain(rest + piece)
        end = data.rfind(b"\n") + 1
        if not end and len(data) < LONGEST_BYTES:
            rest = data
            continue
        end = end or len(data)
        data, rest = data[:end], data[end:]
        yield Block(data=data, first_line=line, file=file)
        line += data.count(b"\n")
    if rest:
        yield Block(data=_plain(rest + b"\n"), first_line=line, file=file)


def _files(folder: Path) -> Iterator[str]:
    found = 0
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if os.path.isfile(path) and found < _FILES:
                found += 1
                yield path


def _pieces(stream: IO[bytes], seen: Callable[[int], None]) -> Iterator[bytes]:
    first = _read(stream)
    seen(len(first))
    if first.startswith(_GZIP):
        yield from _unpacked(first, stream, seen)
        return
    while first:
        yield first
        first = _read(stream)
        seen(len(first))


def _read(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except OSError:  # a device or a pipe that ends so
        return b""


def _unpacked(first: bytes, stream: IO[bytes], seen: Callable[[int], None]) -> Iterator[bytes]:
    told = 0
    with gzip.GzipFile(fileobj=_Joined(first, stream, seen)) as packed:
        while told < _MOST_BYTES:
            piece = b""
            with contextlib.suppress(OSError, EOFError, zlib.error):  # cut, or damaged
                piece = packed.read1(BLOCK_BYTES)
            if not piece:
                return
            told += len(piece)
            yield piece


class _Joined(io.RawIOBase):
    """A stream of which the first bytes were read already."""

    def __init__(self, first: bytes, rest: IO[bytes], seen: Callable[[int], None]) -> None:
        self._first, self._rest, self._seen = first, rest, seen

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._first:
            size = len(self._first) if size < 0 else size
            head, self._first = self._first[:size], self._first[size:]
            return head
        data = self._rest.read(size)
        self._seen(len(data))
        return data


def _as_ascii(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces in which ASCII stands for itself, whichever of the two kinds of UTF-16 they came in."""
    first = next(pieces, b"")
    encoding, skip = _encoding(first)
    if not encoding:
        yield first[skip:]
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first[skip:]).encode("utf-8", "replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")


def _encoding(first: bytes) -> tuple[str, int]:
    for mark, encoding in _BOMS:
        if first.startswith(mark):
            return encoding, len(mark)
    # PowerShell's `>>` onto a file, or a log that was cut: UTF-16 without its mark.
    sample = first[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = max(1, len(sample) // 2)
    if odd > _PARTLY * half > even * 2:
        return "utf-16-le", 0
    if even > _PARTLY * half > odd * 2:
        return "utf-16-be", 0
    return "", 0


def _plain(data: bytes) -> bytes:
    """Return data without colours, NUL bytes and backspaces."""
    if b"\x1b" in data or b"\0" in data or b"\x08" in data:
        return _CONTROL.sub(b"", data)
    return data

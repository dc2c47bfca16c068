"""Read a log as blocks of bytes, from a file, a folder or a stream, in any encoding.

Blocks are ASCII-compatible and contain no NUL bytes or escape sequences, which suffices for searching.
Lines that match are decoded later, as UTF-8 or in the Windows code page that the log most likely uses.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import time
import unicodedata
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from rocenv.core.errors import RocenvError
from rocenv.core.foreign import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

BLOCK_BYTES = 1 << 20
_PAUSE_S = 0.05
MAX_LINE_BYTES = 1 << 16  # longer lines are split
AGAIN_BYTES = 256  # repeated in the next part of a split line, because a literal may span the split
_ESCAPE_BYTES = 64  # maximum length of an escape sequence
_MAX_FILES = 2000  # per folder
_MAX_DEPTH = 24  # of nested folders
_MAX_BYTES = 4 << 30  # per unpacked log: a tiny gzip file can unpack to terabytes of zeros
_GZIP = b"\x1f\x8b"
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-Z\\^-~])"
)
_BOMS = ((codecs.BOM_UTF8, ""), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SAMPLE_BYTES = 4096
_PARTLY = 0.3  # minimum fraction of NULs among the even or odd bytes of mostly-ASCII UTF-16
# Lines from `rocenv launch` to remove: all but the GPU in use, the versions, and the number of damaged files.
_OWN_LOG = b"# rocenv "
_OWN_LINE = re.compile(
    rb"^# (?!GPU .*\(used\)|  (?:rocm|zluda|torch) |driver |app |damaged files: ).*$", re.MULTILINE
)
# Simplified Chinese, Korean, Cyrillic, Western.
CODE_PAGES = ("cp936", "cp949", "cp1251", "cp1252")
# These two code pages use the same bytes; frequent characters distinguish Chinese from Korean.
_COMMON = {
    "cp936": set("的一是不了在有个这中为到无法找指定模块文件错误失败加载完成程序设备显存内时请使用运行"),
    "cp949": set("다을를이지는의에가로한니습없수있파일오류정된모듈불러중했"),
}
_CHARACTER = 4  # bytes of the longest UTF-8 character
_CONTINUED = bytes(range(0x80, 0xC0))  # bytes that never begin a character
_SCRIPTS = {"cp936": "CJK", "cp949": "HANGUL", "cp1251": "CYRILLIC", "cp1252": "LATIN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a log."""

    data: bytes
    first_line: int  # line number in the file, from 1
    file: str = ""  # the file that contains it, for a folder of logs


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file, or part of one, that was not read."""

    path: str
    why: Literal["unreadable", "binary", "too many", "too long"]


def read_path(
    path: Path,
    seen: Callable[[int], None] = lambda _bytes: None,
    left_out: Callable[[LeftOut], None] = lambda _what: None,
) -> Iterator[Block]:
    """Yield the blocks of a file, or of all text files below a folder, sorted by name.

    Args:
        path: A file, gzip-compressed or not, or a folder.
        seen: Called with the number of bytes read from disk.
        left_out: Called with each file that is not read completely.

    Raises:
        RocenvError: The file cannot be read.
    """
    if path.is_dir():
        for file in _files(str(path), left_out):
            yield from _read_file_of_folder(file, path, seen, left_out)
        return
    try:
        with open(path, "rb") as stream:
            yield from read_stream(stream, seen=seen, left_out=left_out)
    except OSError as error:
        raise RocenvError(
            f"cannot read `{path}`: {error.strerror or error}",
            hints=("specify a log file, a folder of logs, or `-` for standard input",),
            code="log-unreadable",
        ) from error


def read_bytes(data: bytes) -> Iterator[Block]:
    """Yield the blocks of a log in memory."""
    return read_stream(io.BytesIO(data))


def read_stream(
    stream: IO[bytes],
    *,
    seen: Callable[[int], None] = lambda _bytes: None,
    left_out: Callable[[LeftOut], None] = lambda _what: None,
    file: str = "",
) -> Iterator[Block]:
    """Yield the blocks of a stream, gzip-compressed or not, until it ends or its data is damaged."""
    line, rest, is_own, total = 1, b"", None, 0
    for piece in _as_ascii(_pieces(stream, seen)):
        rest += piece
        total += len(piece)
        if is_own is None:
            is_own = rest.startswith(_OWN_LOG)
        end = rest.rfind(b"\n") + 1
        again = 0
        if not end:
            if len(rest) < MAX_LINE_BYTES:
                continue
            end, again = _parted(rest), AGAIN_BYTES
        data = _plain(rest[:end], is_own)
        yield Block(data=data, first_line=line, file=file)
        line += data.count(b"\n")
        rest = rest[end - again :]
        if total > _MAX_BYTES:
            left_out(LeftOut(path=file, why="too long"))
            return
    if rest:
        yield Block(data=_plain(rest, bool(is_own)) + b"\n", first_line=line, file=file)


def _parted(line: bytes) -> int:
    """Choose where to split a long line, avoiding escape sequences."""
    escape = line.rfind(b"\x1b", len(line) - _ESCAPE_BYTES)
    return escape if escape > AGAIN_BYTES else len(line)


def _files(folder: str, left_out: Callable[[LeftOut], None]) -> Iterator[str]:
    """Yield the regular files below a folder, without following links to folders."""
    found = 0
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            left_out(LeftOut(path=here, why="unreadable"))
            continue
        below = []
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    below.append((entry.path, depth + 1))
                elif entry.is_file():
                    found += 1
                    if found > _MAX_FILES:
                        left_out(LeftOut(path=entry.path, why="too many"))
                        return
                    yield entry.path
        if depth >= _MAX_DEPTH and below:
            left_out(LeftOut(path=below[0][0], why="too many"))
        else:
            waiting += reversed(below)


def _read_file_of_folder(
    path: str, folder: Path, seen: Callable[[int], None], left_out: Callable[[LeftOut], None]
) -> Iterator[Block]:
    name = os.path.relpath(path, folder)
    try:
        with open_regular(path) as stream:
            if _is_binary(stream.read(_SAMPLE_BYTES)):
                left_out(LeftOut(path=name, why="binary"))
                return
            stream.seek(0)
            yield from read_stream(stream, seen=seen, left_out=left_out, file=name)
    except OSError:
        left_out(LeftOut(path=name, why="unreadable"))


def _is_binary(sample: bytes) -> bool:
    return b"\0" in sample and not sample.startswith(_GZIP) and not _encoding(sample)[0]


def _pieces(stream: IO[bytes], seen: Callable[[int], None]) -> Iterator[bytes]:
    counted = io.BufferedReader(_Counted(stream, seen), BLOCK_BYTES)
    if not counted.peek(len(_GZIP)).startswith(_GZIP):
        while piece := counted.read1(BLOCK_BYTES):
            yield piece
        return
    with gzip.GzipFile(fileobj=counted) as packed:
        while True:
            piece = b""
            with contextlib.suppress(OSError, EOFError, zlib.error):  # truncated or damaged
                piece = packed.read1(BLOCK_BYTES)
            if not piece:
                return
            yield piece


class _Counted(io.RawIOBase):
    """A stream that reports how much was read; a read error, as from a device or pipe, ends it."""

    def __init__(self, stream: IO[bytes], seen: Callable[[int], None]) -> None:
        self._stream: Any = stream  # its `read` may also return None
        self._seen = seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            while (data := self._stream.read(len(buffer))) is None:  # from a non-blocking pipe
                time.sleep(_PAUSE_S)
        except OSError:
            data = b""
        self._seen(len(data))
        buffer[: len(data)] = data
        return len(data)


def _as_ascii(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Convert UTF-16 of either byte order to UTF-8; leave everything else unchanged."""
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
    # UTF-16 without a byte order mark: written by PowerShell's `>>`, or a truncated log.
    sample = first[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = max(1, len(sample) // 2)
    if odd > _PARTLY * half > even * 2:
        return "utf-16-le", 0
    if even > _PARTLY * half > odd * 2:
        return "utf-16-be", 0
    return "", 0


def _plain(data: bytes, is_own: bool) -> bytes:
    """Remove NUL bytes, backspaces, escape sequences, and the lines that rocenv added."""
    if b"\0" in data or b"\x08" in data:
        data = data.translate(None, b"\0\x08")
    if b"\x1b" in data:
        data = _SEQUENCE.sub(b"", data)
    return _OWN_LINE.sub(b"#", data) if is_own else data


# ---------------------------------------------------------------- decoding


def code_page(lines: Iterable[bytes]) -> str:
    """Guess the code page of the lines that are not UTF-8."""
    foreign = b"\n".join(line for line in lines if not line.isascii() and not _is_utf8(line))
    return max(CODE_PAGES, key=lambda page: (_plausible(foreign, page), -CODE_PAGES.index(page)))


def decoded(lines: bytes, page: str) -> str:
    """Decode lines, each as UTF-8 or else in a code page; invalid bytes become U+FFFD."""
    if lines.isascii():
        return lines.decode("ascii")
    return "\n".join(
        line.decode("utf-8" if _is_utf8(line) else page, errors="replace") for line in lines.split(b"\n")
    )


def _is_utf8(line: bytes) -> bool:
    """Whether a line is UTF-8, apart from a truncated character at its beginning or end."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = max(0, len(line) - _CHARACTER)
        if error.start >= cut and error.reason == "unexpected end of data":
            return True
        begun = line.lstrip(_CONTINUED)
        return 0 < len(line) - len(begun) < _CHARACTER and _is_utf8(begun)
    return True


def _plausible(data: bytes, page: str) -> float:
    """Rate a code page by the fraction of non-ASCII characters that its script or language uses."""
    text = data.decode(page, errors="replace")
    beyond = [char for char in text if ord(char) > 127]
    if not beyond:
        return 0.0
    own = sum(unicodedata.name(char, "").startswith(_SCRIPTS[page]) for char in beyond)
    common = sum(char in _COMMON.get(page, ()) for char in beyond)
    return (own + common) / len(beyond)

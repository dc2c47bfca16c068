"""Where a GGUF model lies in a file: at its beginning, or in the zip archive behind a llamafile's program.

A llamafile is a program and an archive at once; the model in it is stored, so that it can be mapped. The
archive's own table, at the end of the file, says where.
"""

from __future__ import annotations

import os
import struct
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from rocenv.core.errors import RocenvError
from rocenv.core.foreign import open_regular
from rocenv.memory.gguf_header import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUFFIX = ".gguf"
# What a file is that begins so, where it is no model.
_OTHERS = (
    (b"version https://git-lfs", "it stands for a file in Git LFS: `git lfs pull` fetches the real one"),
    (b"<", "it is a web page: the address that it came from shows the file instead of sending it"),
    (b"lmgg", "it is in the format before GGUF, which no program of today reads"),
    (b"tjgg", "it is in the format before GGUF, which no program of today reads"),
    (b"fmgg", "it is in the format before GGUF, which no program of today reads"),
)
_EXECUTABLES = (b"MZ", b"\x7fELF", b"PK\x03\x04", b"#!")
_TAIL = 22 + 0xFFFF  # the end of an archive, with the longest comment
_TABLE_END, _TABLE_END_64 = b"PK\x05\x06", b"PK\x06\x06"
_MOST_TABLE = 16 << 20  # of an archive's table; a llamafile's has some kB
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A model in a file."""

    file: BinaryIO
    start: int
    end: int
    member: str = ""  # its name in the archive
    others: tuple[str, ...] = ()  # further models in it


@contextmanager
def opened(path: Path) -> Iterator[Place]:
    """Open the file of a model; raise RocenvError where there is none in it."""
    try:
        with open_regular(path) as file:
            yield _place(file, path)
    except FileNotFoundError as error:
        raise RocenvError(
            f"there is no file {path}", hints=(_name_a_model(),), code="gguf-missing"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise RocenvError(f"{path} cannot be read: {why}", code="gguf-unreadable") from error


def _name_a_model() -> str:
    return "name a model: `rocenv mem --model FILE.gguf`"


def _place(file: BinaryIO, path: Path) -> Place:
    head = file.read(64)
    end = os.fstat(file.fileno()).st_size
    if head.startswith(MAGIC):
        return Place(file=file, start=0, end=end)
    if head.startswith(_EXECUTABLES):
        return _member(file, path)
    known = [what for begins, what in _OTHERS if head.lstrip().startswith(begins)]
    if head[8:9] == b"{":
        known.append("it is a safetensors file, which has to be converted first")
    known.append("it does not begin with GGUF" if end else "it is empty")
    why = known[0]
    raise RocenvError(f"{path} is no GGUF model: {why}", hints=(_name_a_model(),), code="gguf-not")


def _member(file: BinaryIO, path: Path) -> Place:
    """Return the largest model of an archive."""
    try:
        _refuse_huge_table(file)
        with zipfile.ZipFile(file) as archive:
            names = [each for each in archive.infolist() if each.filename.lower().endswith(_SUFFIX)]
        models = sorted(names, key=lambda each: -each.file_size)
        if not models:
            message = f"{path} is a program or an archive without a model in it"
            raise RocenvError(message, hints=(_name_a_model(),), code="gguf-not")
        return _stored(file, path, models)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError) as error:
        why = f"the archive in it is damaged ({error})" if _is_archive(file) else "it is a program"
        raise RocenvError(
            f"{path} is no GGUF model: {why}", hints=(_name_a_model(),), code="gguf-not"
        ) from error


def _stored(file: BinaryIO, path: Path, models: list[zipfile.ZipInfo]) -> Place:
    model = models[0]
    if model.compress_type != zipfile.ZIP_STORED or model.flag_bits & 1:
        raise RocenvError(
            f"the model {model.filename} in {path} is packed, so that no program can read it there",
            hints=("unpack it with any program for zip archives, and name the file",),
            code="gguf-not",
        )
    file.seek(model.header_offset)
    magic, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    start = model.header_offset + _LOCAL_HEADER.size + name + extra
    if magic != b"PK\x03\x04":
        raise zipfile.BadZipFile("its table names a place where there is no file")
    end = min(start + model.file_size, os.fstat(file.fileno()).st_size)
    others = tuple(each.filename for each in models[1:])
    return Place(file=file, start=start, end=end, member=model.filename, others=others)


def _tail(file: BinaryIO) -> bytes:
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - _TAIL - 76))  # the locator and the record of large archives lie before it
    return file.read()


def _is_archive(file: BinaryIO) -> bool:
    return _TABLE_END in _tail(file)


def _refuse_huge_table(file: BinaryIO) -> None:
    """Raise BadZipFile for a table that would fill the memory: `zipfile` reads it whole."""
    tail = _tail(file)
    place, large = tail.rfind(_TABLE_END), tail.rfind(_TABLE_END_64)
    sizes = [struct.unpack_from("<I", tail, place + 12)[0]] if place >= 0 else []
    if sizes == [0xFFFFFFFF]:
        sizes = []
    if large >= 0:
        sizes.append(struct.unpack_from("<Q", tail, large + 40)[0])
    if max(sizes, default=0) > _MOST_TABLE:
        raise zipfile.BadZipFile("its table is larger than any")

"""The header of one GGUF file, as bytes: made for files that may be cut, damaged or meant to do harm.

Time and memory are bounded by what a real header has. Arrays of tokens are stepped over; data is not read.

Format: ggml-org/ggml:docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Union

from rocenv.memory.quants import QUANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_OLD = 1
_MOST_HEADER = 256 << 20  # a tokenizer of 260,000 words takes 15 MB
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 18
_MOST_DIMENSIONS = 8  # ggml has four
_MOST_ITEMS = 1 << 24  # elements of arrays that have to be stepped over one by one
_MOST_NESTED = 4
_MOST_INNER = 1 << 16  # arrays inside arrays: stepped over one by one, and slowly
_LONGEST_NAME = 1 << 16
_LONGEST_TEXT = 1 << 20  # templates of chats are among the values
_KEPT_TEXT = 16 << 20  # of all values
_KEPT_ARRAY = 4096  # a number for each layer
_KEPT_ITEMS = 1 << 20  # of all arrays
_CHUNK = 1 << 18
_ALIGNMENT = 32
_MOST_ALIGNMENT = 1 << 30

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class DamagedHeader(Exception):
    """The bytes are no header of a GGUF file; the message says why."""


class UnknownVersion(DamagedHeader):
    """They are one of a version that is not read."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that is in the file and was not kept."""

    what: str  # "array" or "text"
    count: int  # of elements, or bytes


Value = Union[bool, int, float, str, "tuple[bool | int | float, ...]", Skipped]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor."""

    name: str
    shape: tuple[int, ...]  # as in the file: the innermost first
    kind: str  # "Q4_K"
    n_bytes: int
    offset: int  # from where the data begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What one file says."""

    version: int
    big_endian: bool
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]
    missing_bytes: int  # of tensors, behind the end of the file
    unknown_kinds: tuple[str, ...] = ()  # types whose size was taken from the next tensor's place


def read_header(file: BinaryIO, start: int, end: int) -> Header:
    """Return the header of the model that lies in a file from `start` to `end`; raise DamagedHeader."""
    cursor = _Cursor(file, start, end)
    if cursor.take(4) != MAGIC:
        raise DamagedHeader("it does not begin with GGUF")
    version = _version(cursor)
    counts = cursor.number("Q"), cursor.number("Q")
    metadata = _Values(cursor).read(_counted(cursor, counts[1], _MOST_KEYS, 12, "keys"))
    infos = [_info(cursor) for _ in range(_counted(cursor, counts[0], _MOST_TENSORS, 24, "tensors"))]
    if len({info.name for info in infos}) < len(infos):
        raise DamagedHeader("two tensors have the same name")
    data_start = _aligned(cursor.place - start, metadata.get("general.alignment", _ALIGNMENT))
    tensors = _sized(infos, max(0, end - start - data_start))
    needed = max((tensor.offset + tensor.n_bytes for tensor in tensors), default=0)
    return Header(
        version=version,
        big_endian=cursor.big_endian,
        metadata=metadata,
        tensors=tensors,
        missing_bytes=max(0, start + data_start + needed - end) if tensors else 0,
        unknown_kinds=tuple(sorted({info.kind for info in infos if info.n_bytes < 0})),
    )


def _version(cursor: _Cursor) -> int:
    version = int(cursor.number("I"))
    if version and not version & 0xFFFF:
        cursor.big_endian = True
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version in VERSIONS:
        return version
    if version == _OLD:
        raise UnknownVersion("it is GGUF version 1, of August 2023, which no program of today reads")
    raise UnknownVersion(f"it is GGUF version {version}, and only 2 and 3 are known")


def _counted(cursor: _Cursor, count: float, most: int, least_bytes: int, what: str) -> int:
    """Return a count that the file gives, if there can be so many."""
    if count > most or count * least_bytes > cursor.left:
        raise DamagedHeader(f"it claims to have {int(count):,} {what}")
    return int(count)


def _aligned(place: int, alignment: Value) -> int:
    if isinstance(alignment, bool) or not isinstance(alignment, int) or not 0 < alignment <= _MOST_ALIGNMENT:
        raise DamagedHeader("its alignment makes no sense")
    return -(-place // alignment) * alignment


def _info(cursor: _Cursor) -> Tensor:
    """Return a tensor as the file lists it; its bytes are -1 where its type is not known."""
    name = cursor.text(_LONGEST_NAME, "the name of a tensor")
    dimensions = int(cursor.number("I"))
    if dimensions > _MOST_DIMENSIONS:
        raise DamagedHeader(f"a tensor has {dimensions:,} dimensions")
    shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))
    kind, offset = int(cursor.number("I")), int(cursor.number("Q"))
    elements = math.prod(shape)
    if max(elements, offset) >= 1 << 63:
        raise DamagedHeader("a tensor is larger than anything")
    quant = QUANTS.get(kind)
    if quant is None:
        return Tensor(name=name, shape=shape, kind=f"type {kind}", n_bytes=-1, offset=offset)
    if (shape[0] if shape else 1) % quant.elements:
        raise DamagedHeader(f"a tensor's rows are not made of whole blocks of {quant.name}")
    size = elements // quant.elements * quant.n_bytes
    return Tensor(name=name, shape=shape, kind=quant.name, n_bytes=size, offset=offset)


def _sized(infos: Sequence[Tensor], data_bytes: int) -> tuple[Tensor, ...]:
    """Return tensors with a size each: one of an unknown type ends where the next begins."""
    if all(info.n_bytes >= 0 for info in infos):
        return tuple(infos)
    starts = sorted({info.offset for info in infos})
    follows = dict(zip(starts, [*starts[1:], max(data_bytes, starts[-1])], strict=True))
    return tuple(
        replace(info, n_bytes=follows[info.offset] - info.offset) if info.n_bytes < 0 else info
        for info in infos
    )


class _Cursor:
    """A place in a file, with a window of bytes before it; it only goes forwards."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self.big_endian = False
        self._file = file
        self._end = end
        self._most = min(end, start + _MOST_HEADER)
        self._base = start
        self._data = b""
        self._at = 0

    @property
    def place(self) -> int:
        """Where the next byte lies in the file."""
        return self._base + self._at

    @property
    def left(self) -> int:
        """How many bytes there are to be read."""
        return max(0, self._most - self.place)

    def _have(self, count: int) -> None:
        if self._at + count <= len(self._data):
            return
        place = self.place
        if place + count > self._most:
            where = "the file ends" if place + count > self._end else "no header is that long"
            raise DamagedHeader(f"{where} at byte {min(self._end, self._most):,}, inside the header")
        self._file.seek(place)
        self._data = self._file.read(min(max(count, _CHUNK), self._most - place))
        self._base, self._at = place, 0
        if len(self._data) < count:
            raise DamagedHeader("it became shorter while it was read")

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self._have(count)
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        """Step over bytes, which have to be there."""
        if count > self.left:
            self._have(count)
        self._at += count

    def numbers(self, code: str, count: int = 1) -> tuple[bool | int | float, ...]:
        """Return the next numbers of a format of `struct`."""
        form = f"{'>' if self.big_endian else '<'}{count}{code}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, code: str) -> bool | int | float:
        """Return the next number."""
        return self.numbers(code)[0]

    def text(self, most: int, what: str) -> str:
        """Return the next string."""
        length = int(self.number("Q"))
        if length > most:
            raise DamagedHeader(f"{what} claims to have {length:,} characters")
        return self.take(length).decode("utf-8", "replace")

    def skip_texts(self, count: int) -> None:
        """Step over strings; the loop that a vocabulary of 150,000 words goes through."""
        unpack = struct.Struct(">Q" if self.big_endian else "<Q").unpack_from
        while count:
            self._have(8)
            data, at = self._data, self._at
            last = len(data) - 8
            while count and at <= last:
                at += 8 + unpack(data, at)[0]
                count -= 1
            self._at = at
        self._have(0)


class _Values:
    """The keys and values of a file, of which what is long is stepped over."""

    def __init__(self, cursor: _Cursor) -> None:
        self._cursor = cursor
        self._texts, self._kept = _KEPT_TEXT, _KEPT_ITEMS
        self._items, self._inner = _MOST_ITEMS, _MOST_INNER

    def read(self, count: int) -> dict[str, Value]:
        """Return so many pairs."""
        found: dict[str, Value] = {}
        for _ in range(count):
            key = self._cursor.text(_LONGEST_NAME, "a key")
            if key in found:
                raise DamagedHeader("a key is there twice")
            found[key] = self._value(int(self._cursor.number("I")))
        return found

    def _value(self, kind: int) -> Value:
        if kind in _NUMBERS:
            return self._cursor.number(_NUMBERS[kind])
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array(1)
        raise DamagedHeader(f"a value has the type {kind}, which there is not")

    def _text(self) -> str | Skipped:
        length = int(self._cursor.number("Q"))
        if length > min(_LONGEST_TEXT, self._texts):
            self._cursor.skip(length)
            return Skipped("text", length)
        self._texts -= length
        return self._cursor.take(length).decode("utf-8", "replace")

    def _array(self, depth: int) -> tuple[bool | int | float, ...] | Skipped:
        kind, count = int(self._cursor.number("I")), int(self._cursor.number("Q"))
        if kind in _NUMBERS:
            return self._numbers(_NUMBERS[kind], count)
        self._items -= _counted(self._cursor, count, self._items, 8, "elements in an array")
        if kind == _STRING:
            self._cursor.skip_texts(count)
        elif kind == _ARRAY and depth < _MOST_NESTED:
            self._inner -= _counted(self._cursor, count, self._inner, 12, "arrays in an array")
            for _ in range(count):
                self._array(depth + 1)
        else:
            raise DamagedHeader(f"an array's elements have the type {kind}, which there is not")
        return Skipped("array", count)

    def _numbers(self, code: str, count: int) -> tuple[bool | int | float, ...] | Skipped:
        if count > min(_KEPT_ARRAY, self._kept):
            self._cursor.skip(count * struct.calcsize(code))
            return Skipped("array", count)
        self._kept -= count
        return self._cursor.numbers(code, count)

"""Read GGUF model headers.

A header can be truncated, damaged or hostile, so rocenv reads only the first `MAX_BYTES` of a file. A
llamafile is a program followed by a zip archive that contains the model uncompressed.

Format: ggml-org/ggml:docs/gguf.md
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Union

from rocenv.core.errors import RocenvError
from rocenv.core.foreign import MAX_BYTES, open_regular
from rocenv.host.gpu import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 4096
_MAX_TENSORS = 1 << 16
_MAX_DIMENSIONS = 4  # GGML_MAX_DIMS
_MAX_ITEMS = 512  # longer arrays are skipped; llama.cpp supports at most this many layers
_MAX_ALIGNMENT = 1 << 20
_MAX_ZIP_READ = 1 << 20  # a llamafile's central directory is a few kB
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_PART = re.compile(r"(?P<stem>.*)-[0-9]{5}-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)
_MAX_NAMED = 5  # missing parts listed in a message
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_PROGRAMS = (b"MZ", b"\x7fELF", b"PK\x03\x04", b"#!")
_HINTS = {
    "gguf-missing": "check the model's path",
    "gguf-not": "specify a model in the GGUF format, or a llamafile",
    "gguf-damaged": "download it again, and compare its sha256 with the published one",
    "gguf-version": "download a newer version of the model, or upgrade rocenv",
    "gguf-part-missing": "put all parts in one folder, and keep their original file names",
}
# Tensor types: name, elements per block, bytes per block. The list only grows.
# Source: PyPI gguf 0.19.0, `GGML_QUANT_SIZES`; a test compares the table with the package
TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

# None stands for a skipped array: an array of strings, or one with more than 512 items.
Value = Union[bool, int, float, str, "tuple[bool | int | float, ...]", None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor."""

    name: str
    shape: tuple[int, ...]  # innermost dimension first, as in the file
    kind: str  # "Q4_K"
    n_bytes: int
    offset: int  # within the data after the header


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model in one or more files."""

    path: Path  # the first part; programs load the model from it
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    parts: tuple[Path, ...] = ()
    member: str = ""  # the model's name in a llamafile
    missing_bytes: int = 0  # tensor data that is missing from the files
    notes: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The architecture, such as `llama` or `qwen3moe`, or "" if unknown."""
        return self._text("general.architecture")

    @property
    def name(self) -> str:
        """The model's own name, or "" if it does not specify one."""
        return self._text("general.name")

    @property
    def weights_bytes(self) -> int:
        """The total size of all tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors)

    def value(self, key: str) -> Value:
        """Look up an architecture key, such as `attention.head_count`."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str) -> int:
        """Look up an architecture key that is a count; return 0 if it is missing."""
        value = self.value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

    def _text(self, key: str) -> str:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""


def read_model(path: Path) -> Model:
    """Read a model from a GGUF file, any part of a split one, or a llamafile.

    Raises:
        RocenvError: The file is not a readable model, or a part is missing.
    """
    model = _read_file(path)
    count = model.metadata.get("split.count", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count <= 1 or model.member:
        return model
    return _join_parts(model, count)


def _join_parts(part: Model, count: int) -> Model:
    path, named = part.path, _PART.fullmatch(part.path.name)
    if named is None or int(named["count"]) != count:
        raise _error(
            "gguf-part-missing",
            f"{path} is one of a model's {count} parts, but its file name does not show which one",
        )
    names = [f"{named['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    if missing := [name for name in names if not path.with_name(name).exists()]:
        listed = ", ".join(missing[:_MAX_NAMED]) + (" …" if len(missing) > _MAX_NAMED else "")
        raise _error(
            "gguf-part-missing",
            f"{path} is one of a model's {count} parts, but {len(missing)} are missing: {listed}",
        )
    models: list[Model] = []
    for number, name in enumerate(names):
        model = _read_file(path.with_name(name))
        models.append(model)
        if model.metadata.get("split.no") != number:
            raise _error(
                "gguf-damaged",
                f"{model.path} is not part {number + 1} of the model, although its name says so",
            )
    tensors = tuple(tensor for model in models for tensor in model.tensors)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise _error("gguf-damaged", f"the parts next to {path} belong to different models")
    return replace(
        models[0],
        tensors=tensors,
        parts=tuple(model.path for model in models),
        missing_bytes=sum(model.missing_bytes for model in models),
        notes=tuple(dict.fromkeys(note for model in models for note in model.notes)),
    )


def _error(code: str, message: str) -> RocenvError:
    return RocenvError(message, hints=(_HINTS[code],), code=code)


# ---------------------------------------------------------------- one file


def _read_file(path: Path) -> Model:
    try:
        with open_regular(path) as file:
            return _read_open(file, path)
    except FileNotFoundError as error:
        raise _error("gguf-missing", f"{path} does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise RocenvError(f"cannot read {path}: {why}", code="gguf-unreadable") from error


def _read_open(file: BinaryIO, path: Path) -> Model:
    head = file.read(64)
    start, end, member = 0, os.fstat(file.fileno()).st_size, ""
    notes: list[str] = []
    if head.startswith(_PROGRAMS):
        start, end, members = _find_in_llamafile(file, path)
        member = members[0]
        notes = [f"ignoring {printable(name)}, a smaller model in the same file" for name in members[1:]]
    elif not head.startswith(_MAGIC):
        raise _not_a_model(path, _describe(head))
    file.seek(start)
    try:
        cursor = _Cursor(file.read(min(MAX_BYTES, end - start)))
        metadata, tensors, data_start = _parse(cursor, path)
    except (struct.error, OverflowError) as error:
        raise _error("gguf-damaged", f"{path} is damaged: its header is truncated") from error
    except _Damaged as error:
        raise _error("gguf-damaged", f"{path} is damaged: {error}") from error
    unknown = sorted({tensor.kind for tensor in tensors if tensor.n_bytes < 0})
    notes += [f"unknown tensor {kind}; sizes are computed from the offsets" for kind in unknown]
    sized = _with_sizes(tensors, max(0, end - start - data_start))
    needed = max((tensor.offset + tensor.n_bytes for tensor in sized), default=0)
    return Model(
        path=path,
        metadata=metadata,
        tensors=sized,
        parts=(path,),
        member=member,
        missing_bytes=max(0, start + data_start + needed - end) if sized else 0,
        notes=tuple(notes),
    )


def _describe(head: bytes) -> str:
    if head.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; `git lfs pull` downloads the file"
    if head.lstrip().startswith(b"<"):
        return "it is a web page, not the file itself"
    if head[8:9] == b"{":
        return "it is a safetensors file; convert it to GGUF first"
    return "it does not begin with GGUF" if head else "it is empty"


def _not_a_model(path: Path, why: str) -> RocenvError:
    return _error("gguf-not", f"{path} is not a GGUF model: {why}")


class _SmallReads:
    """A file for `zipfile` that limits reads: a hostile archive could claim a huge central directory."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int = -1) -> bytes:
        """Read from the file; raise BadZipFile if `size` is more than 1 MiB."""
        if size > _MAX_ZIP_READ:
            raise zipfile.BadZipFile("its directory is too large")
        return self._read(size)


def _find_in_llamafile(file: BinaryIO, path: Path) -> tuple[int, int, list[str]]:
    """Return where a llamafile's largest model starts and ends, and the names of all its models."""
    try:
        with zipfile.ZipFile(_SmallReads(file)) as archive:
            entries = [each for each in archive.infolist() if each.filename.lower().endswith(".gguf")]
        if not entries:
            raise _not_a_model(path, "it is a program or an archive that does not contain a model")
        entries.sort(key=lambda each: -each.file_size)
        model: zipfile.ZipInfo = entries[0]
        if model.compress_type != zipfile.ZIP_STORED or model.flag_bits & 1:
            why = f"it contains the compressed model {printable(model.filename)}; extract it with `unzip`"
            raise _not_a_model(path, why)
        file.seek(model.header_offset)
        magic, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if magic != b"PK\x03\x04":
            raise zipfile.BadZipFile("its directory is damaged")
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError) as error:
        raise _not_a_model(path, f"it is a program without a readable archive ({error})") from error
    start = model.header_offset + _LOCAL_HEADER.size + name + extra
    end = min(start + model.file_size, os.fstat(file.fileno()).st_size)
    return start, max(start, end), [each.filename for each in entries]


# ---------------------------------------------------------------- the header


class _Damaged(Exception):
    """The bytes are not a GGUF header."""


class _Cursor:
    """A read position in a header; reading numbers past the end raises struct.error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, code: str) -> int:
        """Read an integer with this `struct` code."""
        return int(self.numbers(code, 1)[0])

    def numbers(self, code: str, count: int) -> tuple[bool | int | float, ...]:
        """Read numbers with this `struct` code."""
        layout = struct.Struct(f"<{count}{code}")
        found = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return found

    def text(self) -> str:
        """Read a string."""
        size, begin = self.number("Q"), self.at
        self.at += size
        return self.data[begin : begin + size].decode("utf-8", "replace")

    def skip_texts(self, count: int) -> None:
        """Skip strings. A vocabulary has up to 260,000 strings, so this loop avoids method calls."""
        unpack, data, at = struct.Struct("<Q").unpack_from, self.data, self.at
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self.at = at

    def count(self, maximum: int, item_bytes: int, what: str) -> int:
        """Read a count and check that it is plausible."""
        count = self.number("Q")
        if count > maximum or count * item_bytes > len(self.data):
            raise _Damaged(f"it claims to contain {count:,} {what}")
        return count


def _parse(cursor: _Cursor, path: Path) -> tuple[dict[str, Value], list[Tensor], int]:
    """Parse the header into metadata, tensors (size -1 for unknown types) and data offset."""
    if not cursor.data.startswith(_MAGIC):
        raise _Damaged("it does not begin with GGUF")
    cursor.at = len(_MAGIC)
    version = cursor.number("I")
    if version not in _VERSIONS:
        why = f"it is GGUF version {version}; rocenv supports versions 2 and 3"
        raise _error("gguf-version", f"cannot read {path}: {why}")
    tensor_count = cursor.count(_MAX_TENSORS, 24, "tensors")
    metadata: dict[str, Value] = {}
    for _ in range(cursor.count(_MAX_KEYS, 12, "keys")):
        key = cursor.text()
        if key in metadata:
            raise _Damaged("a key occurs twice")
        metadata[key] = _parse_value(cursor)
    tensors = [_parse_tensor(cursor) for _ in range(tensor_count)]
    if cursor.at > len(cursor.data):  # the last string or array is truncated
        raise struct.error
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise _Damaged("two tensors have the same name")
    alignment = metadata.get("general.alignment", 32)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or not 0 < alignment <= _MAX_ALIGNMENT:
        raise _Damaged("its alignment is not a valid size")
    return metadata, tensors, -(-cursor.at // alignment) * alignment


def _parse_value(cursor: _Cursor) -> Value:
    kind = cursor.number("I")
    if kind in _NUMBERS:
        return cursor.numbers(_NUMBERS[kind], 1)[0]
    if kind == _STRING:
        return cursor.text()
    if kind != _ARRAY:
        raise _Damaged(f"a value has the unknown type {kind}")
    kind = cursor.number("I")
    if kind == _STRING:
        cursor.skip_texts(cursor.count(1 << 62, 8, "strings in an array"))
        return None
    if kind not in _NUMBERS:
        raise _Damaged(f"an array has items of unknown type {kind}")
    size = struct.calcsize(_NUMBERS[kind])
    count = cursor.count(1 << 62, size, "items in an array")
    if count > _MAX_ITEMS:
        cursor.at += count * size
        return None
    return cursor.numbers(_NUMBERS[kind], count)


def _parse_tensor(cursor: _Cursor) -> Tensor:
    name = cursor.text()
    dimensions = cursor.number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise _Damaged(f"a tensor has {dimensions:,} dimensions")
    shape = tuple(int(size) for size in cursor.numbers("Q", dimensions))
    kind, offset = cursor.number("I"), cursor.number("Q")
    elements = math.prod(shape)
    if max(elements, offset) >= 1 << 63:
        raise _Damaged("a tensor is larger than the largest possible file")
    if kind not in TENSOR_TYPES:
        return Tensor(name=name, shape=shape, kind=f"type {kind}", n_bytes=-1, offset=offset)
    label, block, block_bytes = TENSOR_TYPES[kind]
    if (shape[0] if shape else 1) % block:
        raise _Damaged(f"a tensor's rows are not whole {label} blocks")
    return Tensor(name=name, shape=shape, kind=label, n_bytes=elements // block * block_bytes, offset=offset)


def _with_sizes(tensors: Sequence[Tensor], data_bytes: int) -> tuple[Tensor, ...]:
    """Compute the sizes of tensors with unknown (usually new) types from the next offset."""
    starts = sorted({tensor.offset for tensor in tensors})
    ends = dict(zip(starts, [*starts[1:], max([data_bytes, *starts[-1:]])], strict=False))
    return tuple(
        replace(tensor, n_bytes=ends[tensor.offset] - tensor.offset) if tensor.n_bytes < 0 else tensor
        for tensor in tensors
    )

"""Read models from GGUF files, split files and llamafiles.

A file can be truncated, damaged or hostile, so rocenv reads at most `MAX_BYTES` of each model's header. A
llamafile is a program followed by a zip archive that contains the model uncompressed.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from rocenv.core.errors import RocenvError
from rocenv.core.foreign import MAX_BYTES, open_regular
from rocenv.host.gpu import printable
from rocenv.memory.gguf_header import MAGIC, Damaged, UnsupportedVersion, parse, with_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.memory.gguf_header import Tensor, Value

_MAX_ZIP_READ = 1 << 20  # a llamafile's central directory is a few kB
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_PART = re.compile(r"(?P<stem>.*)-[0-9]{5}-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)
_MAX_NAMED = 5  # missing parts listed in a message
_PROGRAMS = (b"MZ", b"\x7fELF", b"PK\x03\x04", b"#!")
_HINTS = {
    "gguf-missing": "check the model's path",
    "gguf-not": "specify a model in the GGUF format, or a llamafile",
    "gguf-damaged": "download it again, and compare its sha256 with the published one",
    "gguf-version": "download a newer version of the model, or upgrade rocenv",
    "gguf-part-missing": "put all parts in one folder, and keep their original file names",
}


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
    elif not head.startswith(MAGIC):
        raise _not_a_model(path, _describe(head))
    file.seek(start)
    try:
        metadata, tensors, data_start = parse(file.read(min(MAX_BYTES, end - start)))
    except UnsupportedVersion as error:
        raise _error("gguf-version", f"cannot read {path}: {error}") from error
    except Damaged as error:
        raise _error("gguf-damaged", f"{path} is damaged: {error}") from error
    unknown = sorted({tensor.kind for tensor in tensors if tensor.n_bytes < 0})
    notes += [f"unknown tensor {kind}; sizes are computed from the offsets" for kind in unknown]
    sized = with_sizes(tensors, max(0, end - start - data_start))
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
    """A file that limits `zipfile` reads: hostile archives can declare a huge central directory."""

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

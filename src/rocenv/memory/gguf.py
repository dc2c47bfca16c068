"""GGUF models: what one consists of, read from the headers of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.memory.gguf_header import DamagedHeader, UnknownVersion, read_header
from rocenv.memory.gguf_place import opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.memory.gguf_header import Header, Tensor, Value

_PART = re.compile(r"(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)
_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, in one file or several."""

    path: Path  # what a program is given: the first part
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    version: int = 3
    big_endian: bool = False
    parts: tuple[Path, ...] = ()
    member: str = ""  # its name in a llamafile
    missing_bytes: int = 0  # that the files are too short for their tensors
    notes: tuple[str, ...] = field(default=())

    @property
    def architecture(self) -> str:
        """`llama`, `qwen3moe` …; "" = not said."""
        name = self.metadata.get("general.architecture")
        return name if isinstance(name, str) else ""

    @property
    def name(self) -> str:
        """What its maker calls it; "" = not said."""
        name = self.metadata.get("general.name")
        return name if isinstance(name, str) else ""

    @property
    def weights_bytes(self) -> int:
        """Size of all tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors)

    def value(self, key: str) -> Value | None:
        """Return a value of the architecture: `attention.head_count`."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str) -> int | None:
        """Return a whole number of the architecture that is not negative, None where it is not known."""
        value = self.value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_model(path: Path) -> Model:
    """Return the model that a file, a llamafile or one of several parts belongs to.

    Raises:
        RocenvError: It cannot be read, is none, is damaged, or a part is missing.
    """
    model, header = _read(path)
    count = header.metadata.get("split.count", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count <= 1 or model.member:
        return model
    return _whole(model, count)


def _read(path: Path) -> tuple[Model, Header]:
    with opened(path) as place:
        try:
            header = read_header(place.file, place.start, place.end)
        except DamagedHeader as error:
            raise _refusal(path, error) from error
        inside, others = place.member, place.others
    notes = [f"not counted: {name}, which is in it too" for name in others]
    for kind in header.unknown_kinds:
        notes.append(f"tensors of {kind} are new here: their sizes are taken from where the next one begins")
    return Model(
        path=path,
        metadata=header.metadata,
        tensors=header.tensors,
        version=header.version,
        big_endian=header.big_endian,
        parts=(path,),
        member=inside,
        missing_bytes=header.missing_bytes,
        notes=tuple(notes),
    ), header


def _refusal(path: Path, error: DamagedHeader) -> RocenvError:
    if isinstance(error, UnknownVersion):
        hint = "convert the model anew, or look for a file of this year"
        return RocenvError(f"{path} cannot be read: {error}", hints=(hint,), code="gguf-version")
    hint = "fetch it again, and compare its sha256 with what its maker names"
    return RocenvError(f"{path} is damaged: {error}", hints=(hint,), code="gguf-damaged")


def _whole(some: Model, count: int) -> Model:
    """Return the model whose part is given, with the tensors of all parts."""
    paths = _paths(some.path, count)
    if missing := [path.name for path in paths if not path.exists()]:
        named = ", ".join(missing[:_NAMED_AT_MOST]) + (" …" if len(missing) > _NAMED_AT_MOST else "")
        raise RocenvError(
            f"{some.path} is one of {count} parts of a model, and {len(missing)} are missing: {named}",
            hints=(f"put all {count} files into {some.path.parent}",),
            code="gguf-part-missing",
        )
    models = [_read(path)[0] for path in paths]
    for place, model in enumerate(models):
        if model.metadata.get("split.no") != place:
            raise RocenvError(
                f"{model.path} says that it is not part {place + 1}: its name is that of another part",
                hints=("give every part the name that it came with",),
                code="gguf-damaged",
            )
    tensors = tuple(tensor for model in models for tensor in model.tensors)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise RocenvError(
            f"the parts beside {paths[0]} do not belong together: two of them have the same tensor",
            hints=("fetch all parts again, of one model",),
            code="gguf-damaged",
        )
    return Model(
        path=paths[0],
        metadata=models[0].metadata,
        tensors=tensors,
        version=models[0].version,
        big_endian=models[0].big_endian,
        parts=tuple(paths),
        missing_bytes=sum(model.missing_bytes for model in models),
        notes=tuple(dict.fromkeys(note for model in models for note in model.notes)),
    )


def _paths(path: Path, count: int) -> list[Path]:
    named = _PART.fullmatch(path.name)
    if named is None or int(named["count"]) != count:
        wanted = f"-00001-of-{count:05d}.gguf"
        raise RocenvError(
            f"{path} is one of {count} parts of a model, which cannot be told from its name",
            hints=(f"give every part the name that it came with: it ends in {wanted} and so on",),
            code="gguf-part-missing",
        )
    return [
        path.with_name(f"{named['stem']}-{place:05d}-of-{count:05d}.gguf") for place in range(1, count + 1)
    ]

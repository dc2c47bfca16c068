"""How many layers of a model fit the GPU's free memory, and how far a program's own idea of it is off."""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.variables import VISIBLE
from rocenv.launch.cards import BELOW
from rocenv.memory.amounts import amount
from rocenv.memory.quants import CACHE_TYPES
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rocenv.data.apps import Carried
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.devices import Device
    from rocenv.launch.options import Given
    from rocenv.memory.gpus import GpuMemory

_MIB = 1 << 20
_ARGS_BYTES = 1 << 16
_MODEL = ".gguf"
_DIGITS = 12
_NAMES = ("cache_k", "cache_v")  # sizes that are given by a name
_MOST_CELLS = 1 << 24
_NUMBER = re.compile(r"[0-9]{1,4}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What a program carries in its own file; nothing for most."""

    path: Path | None = None  # the program's file, where a model is in it
    arguments: tuple[str, ...] = ()  # its usual ones
    is_replaced: bool = False  # arguments of the user take the place of those, and do not join them
    is_loaded: bool = True  # that model, where no other is named

    def beside(self, words: Sequence[str]) -> Packed:
        """Return what of it counts beside a user's arguments."""
        return replace(self, arguments=(), is_loaded=False) if self.is_replaced and words else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is known of the memory for a model."""

    layers: int | None = None  # that fit; None = not known
    unseen_mib: int | None = None  # that the program takes for free, and that others have; None = not known
    why: str = ""  # where the figures are from, or why there are none
    integrated: bool = False  # the GPU computes in the machine's memory


def packed_in(program: Path, carried: Carried) -> Packed:
    """Return what a program carries in a zip archive at the end of its own file."""
    try:
        with zipfile.ZipFile(program) as archive:
            names = set(archive.namelist())
            entry = archive.getinfo(carried.arguments) if carried.arguments in names else None
            size_bytes = entry.file_size if entry else 0
            text = archive.read(carried.arguments) if 0 < size_bytes <= _ARGS_BYTES else b""
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return Packed()
    has_model = any(name.endswith(_MODEL) for name in names)
    words = text.decode("utf-8", "replace").splitlines()
    return Packed(
        path=program if has_model else None,
        arguments=tuple(word for word in words if word != carried.rest),
        is_replaced=bool(words) and carried.rest not in words,
    )


def model_path(view: LaunchContext, given: Given, packed: Packed) -> Path | None:
    """Return the file of the model that is to be loaded; None where none is named, or it is fetched."""
    launcher = view.start.launcher
    for name in launcher.model:
        if value := given.value(name):
            is_inside = launcher.carried is not None and value.startswith(launcher.carried.prefix)
            return packed.path if is_inside else Path(value)
    return packed.path if packed.is_loaded else None


def room_for(view: LaunchContext, given: Given, devices: Sequence[Device], packed: Packed) -> Room:
    """Return what fits the GPUs of the env's target.

    Args:
        view: The start, and the machine.
        given: The user's arguments.
        devices: The GPUs that the program will use, as it lists them; () = it lists none.
        packed: What its own file carries.
    """
    from rocenv.memory.gpus import memory_of

    target, memories = view.start.record.lock.target, memory_of(view.host, with_holders=False)
    of_target = [each for each in memories if each.gpu.target == target]
    used = [_memory(each, view, memories) for each in devices] if devices else of_target[:1]
    seen = [each.free_bytes for each in devices] or [None] * len(used)
    pairs = [(each.free_bytes if each else None, shown) for each, shown in zip(used, seen, strict=True)]
    room = Room(
        unseen_mib=_unseen_mib(pairs),
        integrated=any(each is not None and each.gpu.integrated for each in used),
    )
    free = [_smaller(here, shown) for here, shown in pairs]
    if not free or None in free:
        return replace(room, why="how much memory of the GPU is free is not known")
    path = model_path(view, given, packed)
    if path is None:
        return replace(room, why="no file of a model is named")
    sizes = _settings(given, view.start.launcher.sizes)
    if isinstance(sizes, str):
        return replace(room, why=f"how large the model becomes with `{sizes}` is not known")
    return _fitting(room, path, sum(filter(None, free)), sizes)


def _memory(device: Device, view: LaunchContext, memories: Sequence[GpuMemory]) -> GpuMemory | None:
    """Return the memory of a GPU that a program lists; None where it is not clear which one that is."""
    number = _NUMBER.search(device.name)
    index = int(number[0]) if number and not view.start.environ.get(BELOW) else -1
    if shown := view.start.environ.get(VISIBLE, ""):
        named = dict(enumerate(shown.split(","))).get(index, "").strip()
        index = int(named) if named.isascii() and named.isdigit() and len(named) < _DIGITS else -1
    lock = view.start.record.lock
    targets = (lock.target, device.target) if device.target in ("", lock.code_target) else (device.target,)
    fitting = [each for each in memories if each.gpu.target in targets]
    by_number = [each for each in fitting if each.gpu.hip_index == index]
    return next(iter(by_number or (fitting if len(fitting) == 1 else [])), None)


def _fitting(room: Room, path: Path, free_bytes: int, sizes: Mapping[str, Any]) -> Room:
    from rocenv.memory.estimate import fit
    from rocenv.memory.gguf import read_model

    try:
        found = fit(read_model(path), free_bytes, **sizes)
    except RocenvError as error:
        return replace(room, why=error.message)
    why = f"{found.layers} of {found.of_layers} layers fit the {amount(free_bytes)} that are free"
    return replace(room, layers=found.layers, why=why)


def _smaller(here: int | None, shown: int | None) -> int | None:
    """Return the smaller of what the system and what the program call free; None where neither is known."""
    known = [each for each in (here, shown) if each is not None]
    return min(known, default=None)


def _unseen_mib(pairs: Sequence[tuple[int | None, int | None]]) -> int | None:
    """Return how much memory a program takes for free and others have, of the GPU with most of it."""
    more = [shown - here for here, shown in pairs if here is not None and shown is not None]
    return max(0, -(-max(more) // _MIB)) if more else None


def _settings(given: Given, sizes: Mapping[str, str]) -> dict[str, Any] | str:
    """Return the sizes that a model's memory depends on: as the user has given them, else as is usual.

    Or what the user has given that nothing can be computed with.
    """
    settings: dict[str, Any] = {}
    for key, name in sizes.items():
        option = given.options.by_name.get(name)
        value = given.value(name) or ""
        found = _size(key, value or (option.default if option else ""))
        if found is None and value:
            return shell_join(name, value)
        settings |= {key: found} if found else {}
    return settings


def _size(key: str, value: str) -> str | int | None:
    """Return a size as the estimate takes it, 0 where it is the model's own; None where it is none."""
    if key in _NAMES:
        return value.lower() if value.lower() in CACHE_TYPES else None
    if not (value.isascii() and value.isdigit()) or len(value) > _DIGITS or int(value) >= _MOST_CELLS:
        return None
    return int(value)

"""How many layers of a model fit the GPU's free memory, and how far a program's own idea of it is off."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.memory.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rocenv.launch.devices import Device
    from rocenv.launch.options import Given
    from rocenv.launch.view import View
    from rocenv.matrix.apps import Carried

USUAL_MARGIN_MIB = 1024  # Source: llama.cpp PR 16653, `--fit-target`
_MIB = 1 << 20
_ARGS_BYTES = 1 << 16
_MODEL = ".gguf"
_DIGITS = 12
_NAMES = ("cache_k", "cache_v")  # sizes that are given by a name
_MOST_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What a program carries in its own file; nothing for most."""

    path: Path | None = None  # the program's file, where a model is in it
    arguments: tuple[str, ...] = ()  # its usual ones
    is_replaced: bool = False  # arguments of the user take the place of those, and do not join them


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is known of the memory for a model."""

    layers: int | None = None  # that fit; None = not known
    all_layers: int = 0
    margin_mib: int | None = None  # what has to stay free for the program's own estimate to come true
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


def model_path(view: View, given: Given, packed: Packed) -> Path | None:
    """Return the file of the model that is to be loaded; None where none is named, or it is fetched."""
    launcher = view.start.launcher
    for name in launcher.model:
        if value := given.value(name):
            is_inside = launcher.carried is not None and value.startswith(launcher.carried.prefix)
            return packed.path if is_inside else Path(value)
    return packed.path


def room_for(view: View, given: Given, devices: Sequence[Device], packed: Packed) -> Room:
    """Return what fits the GPUs of the env's target.

    Args:
        view: The start, and the machine.
        given: The user's arguments.
        devices: The GPUs that the program will use, as it lists them; () = it lists none.
        packed: What its own file carries.
    """
    from rocenv.memory.gpus import memory_of

    target = view.start.record.lock.target
    of_target = [each for each in memory_of(view.host, with_holders=False) if each.gpu.target == target]
    used = of_target[: max(1, len(devices))]
    seen = [each.free_bytes for each in devices] or [None] * len(used)
    pairs = list(zip((each.free_bytes for each in used), seen, strict=False))
    room = Room(margin_mib=_margin_mib(pairs), integrated=any(each.gpu.integrated for each in used))
    free = [_smaller(here, shown) for here, shown in pairs]
    if not free or None in free:
        return replace(room, why="how much memory of the GPU is free is not known")
    path = model_path(view, given, packed)
    if path is None:
        return replace(room, why="no file of a model is named")
    sizes = _settings(given, view.start.launcher.sizes)
    return _fitting(room, path, sum(filter(None, free)), sizes)


def _fitting(room: Room, path: Path, free_bytes: int, sizes: Mapping[str, Any]) -> Room:
    from rocenv.memory.estimate import fit
    from rocenv.memory.gguf import read_model

    try:
        found = fit(read_model(path), free_bytes, **sizes)
    except RocenvError as error:
        return replace(room, why=error.message)
    why = f"{found.layers} of {found.of_layers} layers fit the {amount(free_bytes)} that are free"
    return replace(room, layers=found.layers, all_layers=found.of_layers, why=why)


def _smaller(here: int | None, shown: int | None) -> int | None:
    """Return the smaller of what the system and what the program call free; None where neither is known."""
    known = [each for each in (here, shown) if each is not None]
    return min(known, default=None)


def _margin_mib(pairs: Sequence[tuple[int | None, int | None]]) -> int | None:
    """Return the margin that makes up for memory that a program takes for free and that others have."""
    more = [shown - here for here, shown in pairs if here is not None and shown is not None]
    return USUAL_MARGIN_MIB + max(0, -(-max(more) // _MIB)) if more else None


def _settings(given: Given, sizes: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes that a model's memory depends on: as the user has given them, else as is usual."""
    settings: dict[str, Any] = {}
    for key, name in sizes.items():
        option = given.options.by_name.get(name)
        value = given.value(name) or ""
        if key in _NAMES:
            settings |= {key: value.lower()} if value else {}
            continue
        number = value or (option.default if option else "")
        if number.isascii() and number.isdigit() and 0 < int(number[:_DIGITS]) < _MOST_CELLS:
            settings[key] = int(number[:_DIGITS])
    return settings


def program_file(words: Sequence[str], environ_path: str) -> Path | None:
    """Return the file of the program that a command begins with."""
    name = words[-1] if words else ""
    found = name if os.path.isfile(name) else shutil.which(name, path=environ_path) if name else None
    return Path(found) if found else None

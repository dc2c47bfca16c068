"""Estimate how many of a model's layers fit in free GPU memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.apps.devices import BELOW_HIP
from rocenv.core.errors import RocenvError
from rocenv.core.variables import VISIBLE
from rocenv.memory.amounts import amount
from rocenv.memory.estimate import CACHE_TYPES
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given
    from rocenv.memory.gpus import GpuMemory

_MIB = 1 << 20
_DIGITS = 12
_MOST_CELLS = 1 << 24
_NUMBER = re.compile(r"[0-9]{1,4}$")
# The estimate's inputs, and the llama.cpp arguments that set them.
_SIZES = {
    "context": "--ctx-size",
    "batch": "--ubatch-size",
    "cache_k": "--cache-type-k",
    "cache_v": "--cache-type-v",
}
_NAMED_SIZES = ("cache_k", "cache_v")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The memory available to a model."""

    layers: int | None = None  # that fit; None = unknown
    hidden_mib: int | None = None  # reported to the program as free, but used by others; None = unknown
    why: str = ""  # how `layers` was determined, or why it is unknown, in the user's language
    integrated: bool = False  # the GPU uses system memory


def room_for(context: LaunchContext, given: Given, devices: Sequence[Device], model: Path | None) -> Room:
    """Estimate what fits on the GPUs that a program will use.

    Args:
        context: The launch.
        given: The user's arguments; they determine the size.
        devices: The GPUs as the program lists them; () = it lists none, so use the first GPU with the env's
            target.
        model: The model's file; None = unknown.
    """
    from rocenv.memory.gpus import read_usage

    target, memories = context.start.record.lock.target, read_usage(context.host, with_holders=False).gpus
    of_target = [each for each in memories if each.gpu.target == target]
    used = [_memory(each, context, memories) for each in devices] if devices else of_target[:1]
    shown = [each.free_bytes for each in devices] or [None] * len(used)
    pairs = [(each.free_bytes if each else None, free) for each, free in zip(used, shown, strict=True)]
    room = Room(
        hidden_mib=_hidden_mib(pairs),
        integrated=any(each is not None and each.gpu.integrated for each in used),
    )
    # The system and the program can disagree, so use the smaller value.
    free = [min((each for each in pair if each is not None), default=None) for pair in pairs]
    if not free or None in free:
        return replace(room, why=context.message("memory_unknown"))
    if model is None:
        return replace(room, why=context.message("model_unknown"))
    sizes = _sizes(given)
    if isinstance(sizes, str):
        return replace(room, why=context.message("size_unknown", argument=sizes))
    return _estimate(context, room, model, sum(filter(None, free)), sizes)


def _memory(device: Device, context: LaunchContext, memories: Sequence[GpuMemory]) -> GpuMemory | None:
    """Find the memory usage for a GPU that a program lists; None if its entry is ambiguous."""
    environ, lock = context.start.environ, context.start.record.lock
    number = _NUMBER.search(device.name)
    index = int(number[0]) if number and not environ.get(BELOW_HIP) else -1
    if shown := environ.get(VISIBLE, ""):
        named = dict(enumerate(shown.split(","))).get(index, "").strip()
        index = int(named) if named.isascii() and named.isdigit() and len(named) < _DIGITS else -1
    targets = (lock.target, device.target) if device.target in ("", lock.code_target) else (device.target,)
    matching = [each for each in memories if each.gpu.target in targets]
    by_number = [each for each in matching if each.gpu.hip_index == index]
    return next(iter(by_number or (matching if len(matching) == 1 else [])), None)


def _estimate(
    context: LaunchContext, room: Room, path: Path, free_bytes: int, sizes: Mapping[str, Any]
) -> Room:
    from rocenv.memory.estimate import Use, fit
    from rocenv.memory.gguf import read_model

    try:
        found = fit(read_model(path), free_bytes, Use(**sizes))
    except RocenvError as error:
        return replace(room, why=error.message)
    why = context.message(
        "layers_fit", layers=str(found.layers), of=str(found.of_layers), free=amount(free_bytes)
    )
    return replace(room, layers=found.layers, why=why)


def _hidden_mib(pairs: Sequence[tuple[int | None, int | None]]) -> int | None:
    """The most memory on any one GPU that a program considers free although others use it."""
    more = [shown - here for here, shown in pairs if here is not None and shown is not None]
    return max(0, -(-max(more) // _MIB)) if more else None


def _sizes(given: Given) -> dict[str, Any] | str:
    """Collect the sizes given by the user, or the defaults; return the invalid argument if there is one."""
    sizes: dict[str, Any] = {}
    for key, name in _SIZES.items():
        option = given.options.by_name.get(name)
        value = given.value(name) or ""
        found = _size(key, value or (option.default if option else ""))
        if found is None and value:
            return shell_join(name, value)
        sizes |= {key: found} if found else {}
    return sizes


def _size(key: str, value: str) -> str | int | None:
    """Parse a size; 0 = the model's own, None = invalid."""
    if key in _NAMED_SIZES:
        return value.lower() if value.lower() in CACHE_TYPES else None
    if not (value.isascii() and value.isdigit()) or len(value) > _DIGITS or int(value) >= _MOST_CELLS:
        return None
    return int(value)

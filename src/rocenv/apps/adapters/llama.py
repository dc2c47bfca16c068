"""llama.cpp and llamafile: how many layers run on the GPU, and how to multiply matrices without rocBLAS."""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.apps.blas import blas_state
from rocenv.apps.context import Room, Tuning
from rocenv.apps.devices import BELOW_HIP
from rocenv.apps.query import program_file, program_words
from rocenv.core.errors import RocenvError
from rocenv.core.variables import VISIBLE
from rocenv.data.apps import Flag
from rocenv.memory.amounts import MIB, amount
from rocenv.memory.estimate import CACHE_TYPES
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given
    from rocenv.memory.gpus import GpuMemory

_MODEL = ("--model", "-m")
_DOWNLOADED = ("--hf-repo", "-hf", "-hfr", "--model-url", "-mu", "--docker-repo", "-dr")
_LAYERS = ("--gpu-layers", "-ngl", "--n-gpu-layers")
_ALL_LAYERS = "999"  # more layers than any model has
# Versions with `--fit` choose the number of layers themselves.
_FIT = "--fit"
_FIT_OFF = ("--fit off", "--fit disabled", "--fit false", "--fit 0")
_FIT_MARGIN_MIB = 1024  # how much memory they leave free by default
_RECOMPILE = "--recompile"
_AROUND_BLAS = ("--tinyblas", _RECOMPILE)
_HIPCC = ("hipcc", "$HIP_PATH/bin/hipcc", "/opt/rocm/bin/hipcc", "amdclang++", "clang++")
# A llamafile is both a program and a zip archive. Its `.args` lists one argument per line, with "..." in
# place of the user's arguments. Source: mozilla-ai/llamafile:llama.cpp/main/main.1.asc@0.9.3
_ARGUMENTS_FILE, _USERS, _INSIDE = ".args", "...", "/zip/"
_ARGUMENTS_BYTES = 1 << 16
_DIGITS = 12
_MAX_CELLS = 1 << 24
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
class Packed:
    """What a llamafile contains."""

    path: Path | None = None  # the llamafile itself, if it contains a model
    arguments: tuple[str, ...] = ()  # the llamafile's own arguments
    is_replaced: bool = False  # the user's arguments replace them
    is_loaded: bool = True  # it loads its own model by default

    def with_users(self, words: Sequence[str]) -> Packed:
        """The contents, adjusted for the user's arguments."""
        return replace(self, arguments=(), is_loaded=False) if self.is_replaced and words else self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    given: Given
    fits_itself: bool
    has_model: bool
    room: Room

    @property
    def layers(self) -> str:
        return _ALL_LAYERS if self.room.layers is None else str(self.room.layers)

    def why(self, context: LaunchContext) -> str:
        if self.room.layers is not None:
            return self.room.why
        return context.message("all_layers", why=self.room.why)


def tune_llama_cpp(context: LaunchContext, given: Given, devices: Sequence[Device]) -> Tuning:
    """Propose a number of layers, or how much memory llama.cpp should leave free."""
    tuning, plan = _measure(context, given, devices, Packed())
    reasons = _fit_target(context, plan)
    if not plan.fits_itself and plan.has_model:
        reasons[Flag(words=("--gpu-layers", plan.layers), spellings=_LAYERS[1:])] = plan.why(context)
    return _tuned(tuning, reasons)


def tune_llamafile(context: LaunchContext, given: Given, devices: Sequence[Device]) -> Tuning:
    """Propose a layer count or free-memory margin, and arguments that avoid a broken rocBLAS."""
    file = program_file(program_words(context.start), context.start.environ.get("PATH", ""))
    packed = (packed_in(file) if file else Packed()).with_users(given.words)
    tuning, plan = _measure(context, given, devices, packed)
    reasons = _fit_target(context, plan)
    if not plan.fits_itself:
        is_old = _FIT not in given.options
        flag = Flag(words=("-ngl", plan.layers), spellings=_LAYERS, always_known=is_old)
        why = plan.why(context)
        reasons[flag] = context.message("layers_or_cpu", why=why) if is_old else why
    if tuning.blas == "fails":
        target = context.start.record.lock.target
        reasons[Flag(words=("--tinyblas",))] = context.message("without_blas", target=target)
        recompile = Flag(words=(_RECOMPILE,), unless=("--nocompile",))
        reasons[recompile] = context.message("recompiles_without_blas")
    return replace(
        _tuned(tuning, reasons),
        own_arguments=packed.arguments if packed.is_replaced else (),
        around_blas=_AROUND_BLAS,
        tools={_RECOMPILE: _HIPCC},
    )


def packed_in(program: Path) -> Packed:
    """Read a llamafile's contents; they are empty if the file is not a zip archive."""
    try:
        with zipfile.ZipFile(program) as archive:
            names = set(archive.namelist())
            entry = archive.getinfo(_ARGUMENTS_FILE) if _ARGUMENTS_FILE in names else None
            size_bytes = entry.file_size if entry else 0
            text = archive.read(_ARGUMENTS_FILE) if 0 < size_bytes <= _ARGUMENTS_BYTES else b""
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return Packed()
    words = text.decode("utf-8", "replace").splitlines()
    return Packed(
        path=program if any(name.endswith(".gguf") for name in names) else None,
        arguments=tuple(word for word in words if word != _USERS),
        is_replaced=bool(words) and _USERS not in words,
    )


def _measure(
    context: LaunchContext, given: Given, devices: Sequence[Device], packed: Packed
) -> tuple[Tuning, _Plan]:
    everything = replace(given, words=(*packed.arguments, *given.words))
    model = _model_path(everything, packed)
    room = room_for(context, everything, devices, model)
    # On an integrated GPU, these versions mistake free system memory for GPU memory.
    misjudges = room.integrated and room.layers is not None
    chooses = _FIT in given.options and not misjudges and not any(map(given.says, _FIT_OFF))
    is_named = any(everything.has(name) for name in (*_MODEL, *_DOWNLOADED))
    file = program_file(program_words(context.start), context.start.environ.get("PATH", ""))
    return Tuning(blas=blas_state(context, file), room=room, model=model), _Plan(
        given=given,
        fits_itself=chooses,
        has_model=is_named or (packed.is_loaded and packed.path is not None),
        room=room,
    )


def _model_path(given: Given, packed: Packed) -> Path | None:
    """Return the model file, or None if the command specifies none or one that the app downloads."""
    for name in _MODEL:
        if value := given.value(name):
            return packed.path if value.startswith(_INSIDE) else Path(value)
    return packed.path if packed.is_loaded else None


def _tuned(tuning: Tuning, reasons: Mapping[Flag, str]) -> Tuning:
    """Add flags and the reasons for them."""
    return replace(
        tuning,
        flags=tuple(reasons),
        reasons={flag.words[0]: why for flag, why in reasons.items()},
        layers=next((flag.words[0] for flag in reasons if flag.words[0] in _LAYERS), ""),
    )


def _fit_target(context: LaunchContext, plan: _Plan) -> dict[Flag, str]:
    """Return the flag that sets how much memory to leave free, and its reason, or {} for none."""
    hidden_mib = plan.room.hidden_mib
    if not plan.fits_itself or not plan.has_model or hidden_mib is None:
        return {}
    words = ("--fit-target", str(_FIT_MARGIN_MIB + hidden_mib))
    name = "leaves_free_and_used" if hidden_mib else "leaves_free"
    why = context.message(name, margin=str(_FIT_MARGIN_MIB), hidden=str(hidden_mib))
    return {Flag(words=words, spellings=("-fitt",), unless=_LAYERS): why}


# ---------------------------------------------------------------- memory estimate


def room_for(context: LaunchContext, given: Given, devices: Sequence[Device], model: Path | None) -> Room:
    """Estimate what fits on the GPUs that a program will use.

    Args:
        context: The launch.
        given: The user's arguments, which determine the size.
        devices: The GPUs as the program lists them; if it lists none, use the first GPU with the env's
            target.
        model: The model's file; None if unknown.
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
    """Find the memory usage of a GPU that a program lists; return None if no single GPU matches."""
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
    """The memory that a program considers free but others use, on the GPU with the most such memory."""
    more = [shown - here for here, shown in pairs if here is not None and shown is not None]
    return max(0, -(-max(more) // MIB)) if more else None


def _sizes(given: Given) -> dict[str, Any] | str:
    """Collect the user's sizes, or else the defaults; return the first invalid argument, if any."""
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
    """Parse a size (0 means the model's own); return None if it is invalid."""
    if key in _NAMED_SIZES:
        return value.lower() if value.lower() in CACHE_TYPES else None
    if not (value.isascii() and value.isdigit()) or len(value) > _DIGITS or int(value) >= _MAX_CELLS:
        return None
    return int(value)

"""llama.cpp and llamafile: how many layers run on the GPU, and how to multiply matrices without rocBLAS."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.apps.adapters.gpu_layers import room_for
from rocenv.apps.blas import blas_state
from rocenv.apps.context import Tuning
from rocenv.apps.query import program_file, program_words
from rocenv.data.apps import Flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.apps.adapters.gpu_layers import Room
    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given

_MODEL = ("--model", "-m")
_DOWNLOADED = ("--hf-repo", "-hf", "-hfr", "--model-url", "-mu", "--docker-repo", "-dr")
_LAYERS = ("--gpu-layers", "-ngl", "--n-gpu-layers")
_ALL_LAYERS = "999"  # more layers than any model has
# Versions with `--fit` choose the number of layers themselves.
_FIT = "--fit"
_FIT_OFF = ("--fit off", "--fit disabled", "--fit false", "--fit 0")
_FIT_MARGIN_MIB = 1024  # the free memory that they leave by default
_RECOMPILE = "--recompile"
_AROUND_BLAS = ("--tinyblas", _RECOMPILE)
_HIPCC = ("hipcc", "$HIP_PATH/bin/hipcc", "/opt/rocm/bin/hipcc", "amdclang++", "clang++")
# A llamafile is both a program and a zip archive. Its `.args` lists one argument per line, with "..." in
# place of the user's arguments. Source: mozilla-ai/llamafile:llama.cpp/main/main.1.asc@0.9.3
_ARGUMENTS_FILE, _USERS, _INSIDE = ".args", "...", "/zip/"
_ARGUMENTS_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What a llamafile contains."""

    path: Path | None = None  # the llamafile itself, if it contains a model
    arguments: tuple[str, ...] = ()  # its own
    is_replaced: bool = False  # the user's arguments replace its own
    is_loaded: bool = True  # loads its own model by default

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
    """Propose the same for a llamafile, and arguments for GPUs without a working rocBLAS."""
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
    """Read a llamafile's contents; empty if the file is not a zip archive."""
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
    """Return the model file; None if the command specifies no model, or one that the app downloads."""
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
    """Return the flag that sets the memory to leave free, and the reason for it; {} if it is unknown."""
    hidden_mib = plan.room.hidden_mib
    if not plan.fits_itself or not plan.has_model or hidden_mib is None:
        return {}
    words = ("--fit-target", str(_FIT_MARGIN_MIB + hidden_mib))
    name = "leaves_free_and_used" if hidden_mib else "leaves_free"
    why = context.message(name, margin=str(_FIT_MARGIN_MIB), hidden=str(hidden_mib))
    return {Flag(words=words, spellings=("-fitt",), unless=_LAYERS): why}

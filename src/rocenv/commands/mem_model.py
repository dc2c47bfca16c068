"""`rocenv mem --model`: what a model takes of a GPU, layer by layer, and how many layers fit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from rocenv.commands.mem_hip import env_or_active, gpu_of, hip_word
from rocenv.commands.output import colour, columns, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.memory.estimate import Estimate, Fit
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.model_told import Group, Told
    from rocenv.memory.savings import Way

_NAME = 40  # characters of a GPU's name


def show_model(path: Path, name: str = "", *, context: int | None, as_json: bool) -> int:
    """Show what a model takes, and how much of it the GPU has room for.

    Args:
        path: The model.
        name: The env whose HIP runtime is asked too, "" = the one that is active, if any.
        context: In tokens, None = the model's own.
        as_json: For scripts.
    """
    from rocenv.memory.gguf import read_model
    from rocenv.memory.model_told import document, remarks, told

    world = Context()
    model = read_model(path)
    gpu, notes = _gpu_used(world, name)
    of_apps = tuple(note for row in world.matrix.launcher for note in row.memory_notes)
    this = told(model, context or 0, gpu, notes, of_apps)
    if as_json:
        print_json(document(this))
        return 0
    click.echo(sanitized("\n".join(_head(this))))
    if this.estimate.costs:
        click.echo(columns(list(_table(this))))
    for line in _answer(this):
        click.echo(sanitized(line))
    for line in remarks(this):
        note(line)
    return 0


def _gpu_used(context: Context, name: str) -> tuple[GpuMemory | None, tuple[str, ...]]:
    """Return the memory of the GPU that programs are given here, None where there is none; and notes."""
    from rocenv.host import detect
    from rocenv.memory.gpus import memory_of
    from rocenv.memory.hip_figures import HipWord

    host = detect(context.matrix)
    name = env_or_active(context, host, name)
    said, record = hip_word(context, host, name) if name else (HipWord(), None)
    gpu = gpu_of(host, record)
    if gpu is None:
        return None, (*said.notes, f"there is no GPU here that could be used: {host.why}")
    found = memory_of(host, said.figures, with_holders=False)
    return next(each for each in found if each.gpu.index == gpu.index), said.notes


def _head(this: Told) -> Iterator[str]:
    from rocenv.memory.anatomy import shown

    model, anatomy = this.model, this.estimate.anatomy
    where = f" ({printable(model.member)} in it)" if model.member else ""
    files = f" in {len(model.parts)} files" if len(model.parts) > 1 else ""
    yield f"{printable(model.path.name)}{where}"
    made_of = [shown(model.architecture) or "unknown architecture"]
    if anatomy.layers:
        made_of.append(f"{len(anatomy.layers)} layers")
    yield f"  {', '.join(made_of)}; {amount(model.weights_bytes)} of weights{files}"
    if anatomy.unknown:
        return
    use = this.estimate.use
    whose = ", the model's own" if use.context == anatomy.context else ""
    cache, graph = this.estimate.cache_bytes, this.estimate.graph(this.estimate.of_layers)
    yield (
        f"  for a context of {use.context:,} tokens{whose}: {amount(cache)} of cache"
        f" ({_cache_name(this.estimate)}), {amount(graph)} to compute in"
    )


def _cache_name(estimate: Estimate) -> str:
    keys, values = estimate.use.cache_k, estimate.use.cache_v
    return keys if keys == values else f"{keys} and {values}"


def _table(this: Told) -> Iterator[tuple[str, ...]]:
    """Yield the rows in the order in which layers go to the GPU: from the last."""
    from rocenv.memory.model_told import groups

    unknown, estimate = bool(this.estimate.anatomy.unknown), this.estimate
    yield "", "LAYER", "-ngl", "WEIGHTS", "CACHE", "NEEDED", "FITS"
    for group in groups(this):
        yield (
            "",
            _range(group.last, group.first),
            _range(len(estimate.costs) - group.last, len(estimate.costs) - group.first),
            _of_each(group.weights_bytes, group),
            "?" if unknown else _of_each(group.cache_bytes, group),
            "?" if unknown else amount(group.needed_bytes),
            _word(group.fits),
        )
    yield (
        "",
        "output",
        str(estimate.of_layers),
        amount(estimate.anatomy.output_bytes),
        "-",
        "?" if unknown else amount(estimate.needed(estimate.of_layers)),
        _word(None if this.fit is None else this.fit.everything),
    )
    if estimate.anatomy.input_bytes:
        yield (
            "",
            "input",
            "-",
            amount(estimate.anatomy.input_bytes),
            "-",
            "-",
            "stays in the machine's memory",
        )


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _of_each(size_bytes: int, group: Group) -> str:
    return amount(size_bytes) if group.first == group.last else f"each {amount(size_bytes)}"


def _word(fits: bool | None) -> str:
    if fits is None:
        return "?"
    return colour("yes", "green") if fits else colour("no", "red")


def _answer(this: Told) -> Iterator[str]:
    if this.fit is not None and this.gpu is not None:
        yield from _fit_lines(this, this.fit, this.gpu)
        return
    if this.estimate.anatomy.unknown:
        yield "how many layers fit cannot be told:"
        yield from (f"  {why}" for why in this.estimate.anatomy.unknown)
        return
    needed = this.estimate.needed(this.estimate.of_layers)
    yield (
        f"everything takes {amount(needed)}; with {amount(this.margin_bytes)} to spare, a GPU with"
        f" {amount(needed + this.margin_bytes)} free has room for it"
    )


def _fit_lines(this: Told, fits: Fit, memory: GpuMemory) -> Iterator[str]:
    name = textwrap.shorten(memory.gpu.name, _NAME, placeholder=" …") or memory.gpu.target or "?"
    gpu = f"GPU {memory.gpu.index} ({name})"
    room = f"{amount(fits.free_bytes)} that are free on {gpu}, of which {amount(fits.margin_bytes)} stay free"
    if fits.everything:
        yield f"all {fits.of_layers} layers fit into the {room}: `-ngl {fits.layers}`"
        return
    if fits.layers:
        yield f"{fits.layers} of {fits.of_layers} layers fit into the {room}: `-ngl {fits.layers}`"
    else:
        yield f"no layer fits into the {room}: `-ngl 0`"
    lacking = fits.all_needed_bytes + fits.margin_bytes - fits.free_bytes
    yield f"everything takes {amount(fits.all_needed_bytes)}, {amount(lacking)} more than there is"
    yield from _ways(this)


def _ways(this: Told) -> Iterator[str]:
    if any(way.everything for way in this.ways):
        yield "all layers would fit with one of:"
        yield from map(_way, this.ways)
        return
    for way in this.ways:
        yield f"more would fit, {way.layers} layers, with:"
        yield _way(way)
    anatomy = this.estimate.anatomy
    yield (
        f"no setting makes all of it fit: of {amount(anatomy.weights_bytes)} of weights something has to stay"
        " in the machine's memory; a file in which they are smaller (another quantisation) would help"
    )


def _way(way: Way) -> str:
    return f"  {' '.join(way.arguments):<36} {amount(way.needed_bytes):>9}  costs: {way.gives_up}"

"""`rocenv mem model`: a model's GPU memory use by layer, and how many layers fit."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.options import FILE, active_env_argument, json_option
from rocenv.commands.output import color, columns, fields, fields_or_none, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.host import detect
from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.env import view_of_env
from rocenv.memory.estimate import MARGIN_BYTES, Use, estimate_of, fit_of, ways_to_fit
from rocenv.memory.gguf import read_model
from rocenv.memory.gpus import read_usage
from rocenv.memory.model_layout import layout_of, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.memory.estimate import Estimate, Fit, Way
    from rocenv.memory.gguf import Model
    from rocenv.memory.gpus import GpuMemory

_MAX_NAME = 40  # of a GPU, in characters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """A model and how much of it fits on this machine's GPU."""

    model: Model
    estimate: Estimate
    gpu: GpuMemory | None  # None without a GPU
    fit: Fit | None  # None if unknown
    ways: tuple[Way, ...]
    env_notes: tuple[str, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The reasons why the memory cannot be estimated."""
        return self.estimate.layout.unknown

    def notes(self) -> Iterator[str]:
        """Yield notes about the figures."""
        if self.model.missing_bytes:
            name, missing = printable(self.model.path.name), amount(self.model.missing_bytes)
            yield f"{name} is {missing} too short: the download is incomplete, so no program can load it"
        yield from self.env_notes
        if self.gpu is not None:
            if self.gpu.free_bytes is None:
                index = self.gpu.gpu.index
                yield f"the free memory on GPU {index} is unknown; `rocenv mem` shows why"
            yield from self.gpu.notes
        trained = self.estimate.layout.context
        if trained and self.estimate.use.context > trained:
            yield f"the model was trained for a context of {trained:,} tokens; beyond that, answers get worse"
        yield from (*self.model.notes, *self.estimate.layout.notes)
        if not self.unknown:
            # Source: ggml-org/llama.cpp#15434 (flash attention); ggml-org/llama.cpp#16653 (`--fit`)
            yield (
                "estimated without flash attention; since late 2025, llama.cpp uses it when it can, and"
                " chooses layers and context itself (`--fit`) unless you do"
            )
        if any("-fa" in way.arguments for way in self.ways):
            yield "older versions of llama.cpp expect `-fa` without `on`"


@click.command()
@click.argument("file", metavar="FILE.gguf", type=FILE)
@active_env_argument
@click.option(
    "--context",
    "tokens",
    metavar="N",
    type=click.IntRange(1, 1 << 24),
    shell_complete=candidates.contexts,
    help="Context length in tokens. Default: the length for which the model was trained.",
)
@json_option
def model(file: Path, name: str, tokens: int | None, as_json: bool) -> None:
    """Show a model's memory needs by layer, and how many layers fit.

    FILE is a GGUF model, one of its parts, or a llamafile. With env NAME or an active env, this also queries
    the env's HIP runtime for free memory.
    """
    context = Context()
    model = read_model(file)
    host = detect(context.matrix)
    env = view_of_env(context, host, name)
    used, notes = env.gpu(host), env.notes
    if used is None:
        notes += (f"no usable GPU: {host.why}",)
    memories = read_usage(host, env.figures, with_holders=False).gpus
    gpu = next((each for each in memories if used and each.gpu.index == used.index), None)
    estimate = estimate_of(layout_of(model), Use(context=tokens or 0))
    free = gpu.free_bytes if gpu and not estimate.layout.unknown else None
    report = _Report(
        model=model,
        estimate=estimate,
        gpu=gpu,
        fit=None if free is None else fit_of(estimate, free),
        ways=() if free is None else ways_to_fit(estimate, free),
        env_notes=notes,
    )
    if as_json:
        print_json(_json(report))
        return
    click.echo(sanitized("\n".join(_head(report))))
    if estimate.caches:
        click.echo(columns(list(_table(report))))
    for line in _answer(report):
        click.echo(sanitized(line))
    for line in report.notes():
        note(line)


# ---------------------------------------------------------------- text


def _head(report: _Report) -> Iterator[str]:
    model, layout, use = report.model, report.estimate.layout, report.estimate.use
    member = f" (contains {printable(model.member)})" if model.member else ""
    files = f" in {len(model.parts)} files" if len(model.parts) > 1 else ""
    yield f"{printable(model.path.name)}{member}"
    layers = f", {len(layout.layers)} layers" if layout.layers else ""
    architecture = shorten(model.architecture) or "unknown architecture"
    yield f"  {architecture}{layers}; {amount(model.weights_bytes)} of weights{files}"
    if not report.unknown:
        cache, graph = report.estimate.cache_bytes, report.estimate.graph(report.estimate.of_layers)
        sizes = f"{amount(cache)} KV cache ({use.cache_k}), {amount(graph)} compute buffer"
        yield f"  for a context of {use.context:,} tokens: {sizes}"


def _table(report: _Report) -> Iterator[tuple[str, ...]]:
    """Yield a row per group of identical layers, last to first, the order in which they move to the GPU."""
    estimate, layout = report.estimate, report.estimate.layout
    count = len(layout.layers)

    def key(layers: int) -> tuple[int, int, bool | None]:
        index = count - layers
        fits = None if report.fit is None else layers <= report.fit.layers
        return layout.layers[index].weights_bytes, estimate.caches[index], fits

    def needed(layers: int) -> str:
        return "?" if report.unknown else amount(estimate.needed(layers))

    yield "", "LAYER", "-ngl", "WEIGHTS", "CACHE", "NEEDED", "FITS"
    for (own, cached, fits), group in groupby(range(1, count + 1), key):
        first, *more = group
        last, each = (more[-1], "each ") if more else (first, "")
        layers = ranges(range(count - last, count - first + 1))
        weights, cache = (f"{each}{amount(size)}" for size in (own, cached))
        cache = "?" if report.unknown else cache
        yield "", layers, ranges(range(first, last + 1)), weights, cache, needed(last), _yes_or_no(fits)
    everything = _yes_or_no(None if report.fit is None else report.fit.everything)
    output = estimate.of_layers
    yield "", "output", str(output), amount(layout.output_bytes), "-", needed(output), everything
    if layout.input_bytes:
        yield "", "input", "-", amount(layout.input_bytes), "-", "-", "stays in system memory"


def _yes_or_no(fits: bool | None) -> str:
    if fits is None:
        return "?"
    return color("yes", "green") if fits else color("no", "red")


def _answer(report: _Report) -> Iterator[str]:
    if report.unknown:
        yield "rocenv cannot determine how many layers fit:"
        yield from (f"  {why}" for why in report.unknown)
        return
    fit, needed = report.fit, report.estimate.needed(report.estimate.of_layers)
    if fit is None or report.gpu is None:
        yield f"the whole model needs {amount(needed)}; leave {amount(MARGIN_BYTES)} free for other programs"
        return
    gpu = report.gpu.gpu
    name = textwrap.shorten(gpu.name, _MAX_NAME, placeholder=" …") or gpu.target or "?"
    yield (
        f"{fit.layers} of {fit.of_layers} layers fit in the {amount(fit.free_bytes)} of free memory on GPU"
        f" {gpu.index} ({name}), leaving {amount(MARGIN_BYTES)} free: `-ngl {fit.layers}`"
    )
    if fit.everything:
        return
    lacking = needed + MARGIN_BYTES - fit.free_bytes
    yield f"the whole model needs {amount(needed)}, {amount(lacking)} more than is available"
    if report.ways:
        yield "more layers fit with:"
    yield from map(_way_line, report.ways)
    if not any(way.everything for way in report.ways):
        yield "the whole model does not fit with any setting; try a smaller quantization"


def _way_line(way: Way) -> str:
    arguments = " ".join(way.arguments)
    return f"  {arguments:<36} {way.layers:>3} layers {amount(way.needed_bytes):>9}  costs {way.gives_up}"


# ---------------------------------------------------------------- JSON


def _json(report: _Report) -> dict[str, Any]:
    """The document that `mem model --json` prints."""
    model, estimate, gpu = report.model, report.estimate, report.gpu
    layout, everything = estimate.layout, estimate.of_layers
    is_known = not report.unknown
    count = len(layout.layers)
    return {
        "path": str(model.path),
        "parts": [str(part) for part in model.parts],
        **fields(model, "weights_bytes", "missing_bytes"),
        **fields_or_none(model, "member", "name", "architecture"),
        **fields(estimate.use, "context", "cache_k", "cache_v", "batch"),
        "model_context": layout.context or None,
        "layers": [
            {
                "layer": index,
                "ngl": count - index,
                "weights_bytes": layer.weights_bytes,
                "cache_bytes": estimate.caches[index] if is_known else None,
                "needed_bytes": estimate.needed(count - index) if is_known else None,
                "fits": None if report.fit is None else count - index <= report.fit.layers,
            }
            for index, layer in enumerate(layout.layers)
        ],
        "of_layers": everything if is_known else None,
        "output_bytes": layout.output_bytes,
        "stays_bytes": layout.input_bytes,
        "cache_bytes": estimate.cache_bytes if is_known else None,
        "graph_bytes": estimate.graph(everything) if is_known else None,
        "needed_bytes": estimate.needed(everything) if is_known else None,
        "margin_bytes": MARGIN_BYTES,
        "gpu": gpu
        and {
            **fields(gpu.gpu, "index", "name"),
            **fields_or_none(gpu.gpu, "target"),
            **fields(gpu, "total_bytes", "free_bytes"),
        },
        "fitting_layers": report.fit.layers if report.fit else None,
        "ways": [asdict(way) for way in report.ways],
        "unknown": list(report.unknown),
        "notes": list(report.notes()),
    }

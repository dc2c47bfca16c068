"""What a model takes of a GPU, put together to be told: layers in groups, and the document for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount
from rocenv.memory.anatomy import anatomy_of
from rocenv.memory.estimate import MARGIN_BYTES, Estimate, Fit, Use, estimate_of, fit_of
from rocenv.memory.savings import Way, offers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.apps import MemoryNote
    from rocenv.memory.gguf import Model
    from rocenv.memory.gpus import GpuMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A model, and how it fits the GPU that is used."""

    model: Model
    estimate: Estimate
    gpu: GpuMemory | None  # None = there is none
    fit: Fit | None  # None = it cannot be told
    ways: tuple[Way, ...] = ()
    margin_bytes: int = MARGIN_BYTES
    notes: tuple[str, ...] = ()  # about the GPU, and what was asked about it
    of_apps: tuple[MemoryNote, ...] = ()  # from the profiles of what runs models


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that follow each other and cost the same. They go to the GPU from the last to the first."""

    last: int  # of the model's layers
    first: int
    weights_bytes: int  # of each
    cache_bytes: int
    needed_bytes: int  # with all of them on the GPU
    fits: bool | None

    @property
    def flags(self) -> tuple[int, int]:
        """What `-ngl` is with the first and with the last of them on the GPU; the model's end is 1."""
        return self.first, self.last


def told(
    model: Model,
    context: int,
    gpu: GpuMemory | None,
    notes: tuple[str, ...] = (),
    of_apps: tuple[MemoryNote, ...] = (),
) -> Told:
    """Return what there is to tell of a model.

    Args:
        model: It.
        context: In tokens, 0 = the model's own.
        gpu: The memory of the GPU that is used, None = there is none.
        notes: What else there is to say of GPUs.
        of_apps: From the profiles of what runs models.
    """
    estimate = estimate_of(anatomy_of(model), Use(context=context))
    free = gpu.free_bytes if gpu else None
    if free is None or estimate.anatomy.unknown:
        return Told(model=model, estimate=estimate, gpu=gpu, fit=None, notes=notes, of_apps=of_apps)
    return Told(
        model=model,
        estimate=estimate,
        gpu=gpu,
        fit=fit_of(estimate, free),
        ways=offers(estimate, free, MARGIN_BYTES),
        notes=notes,
        of_apps=of_apps,
    )


def remarks(this: Told) -> Iterator[str]:
    """Yield what has to be known beside the figures."""
    if this.model.missing_bytes:
        name, missing = printable(this.model.path.name), amount(this.model.missing_bytes)
        yield (
            f"{name} ends {missing} before its last tensor does: it was not fetched to its end, and no"
            " program will load it"
        )
    yield from this.notes
    if this.gpu is not None:
        if this.gpu.free_bytes is None:
            yield f"how much memory GPU {this.gpu.gpu.index} has free is not known: `rocenv mem` says why"
        yield from this.gpu.notes
    own = this.estimate.anatomy.context
    if own and this.estimate.use.context > own:
        yield f"the model was made for a context of {own:,} tokens; beyond that its answers get worse"
    yield from (*this.model.notes, *this.estimate.anatomy.notes)
    if not this.estimate.anatomy.unknown:
        proposed = {word for way in this.ways for word in way.arguments}
        yield from (each.text for each in this.of_apps if not each.argument or each.argument in proposed)


def groups(this: Told) -> list[Group]:
    """Return the layers from the last to the first, equal ones together."""
    found: list[Group] = []
    count = len(this.estimate.costs)
    for layers in range(1, count + 1):
        index = count - layers
        cost = this.estimate.costs[index]
        fits = None if this.fit is None else layers <= this.fit.layers
        before = found[-1] if found else None
        last = index
        if before and (before.weights_bytes, before.cache_bytes, before.fits) == (
            cost.weights_bytes,
            cost.cache_bytes,
            fits,
        ):
            last = found.pop().last
        found.append(
            Group(
                last=last,
                first=index,
                weights_bytes=cost.weights_bytes,
                cache_bytes=cost.cache_bytes,
                needed_bytes=this.estimate.needed(layers),
                fits=fits,
            )
        )
    return found


def document(this: Told) -> dict[str, Any]:
    """Return it as `mem --model --json` prints it."""
    model, estimate, fits = this.model, this.estimate, this.fit
    anatomy = estimate.anatomy
    unknown = bool(anatomy.unknown)
    return {
        "path": str(model.path),
        "member": model.member or None,
        "parts": [str(part) for part in model.parts],
        "name": model.name or None,
        "architecture": model.architecture or None,
        "weights_bytes": model.weights_bytes,
        "missing_bytes": model.missing_bytes,
        "context": estimate.use.context,
        "model_context": anatomy.context or None,
        "cache_k": estimate.use.cache_k,
        "cache_v": estimate.use.cache_v,
        "batch": estimate.use.batch,
        "layers": _layers_json(this),
        "of_layers": None if unknown else estimate.of_layers,
        "output_bytes": anatomy.output_bytes,
        "stays_bytes": anatomy.input_bytes,
        "cache_bytes": None if unknown else estimate.cache_bytes,
        "graph_bytes": None if unknown else estimate.graph(estimate.of_layers),
        "needed_bytes": None if unknown else estimate.needed(estimate.of_layers),
        "margin_bytes": this.margin_bytes,
        "gpu": _gpu_json(this.gpu),
        "fitting_layers": fits.layers if fits else None,
        "ways": [_way_json(way) for way in this.ways],
        "unknown": list(anatomy.unknown),
        "notes": list(remarks(this)),
    }


def _layers_json(this: Told) -> list[dict[str, Any]]:
    unknown = bool(this.estimate.anatomy.unknown)
    count = len(this.estimate.costs)
    return [
        {
            "layer": index,
            "ngl": count - index,
            "weights_bytes": cost.weights_bytes,
            "cache_bytes": None if unknown else cost.cache_bytes,
            "needed_bytes": None if unknown else this.estimate.needed(count - index),
            "fits": None if this.fit is None else count - index <= this.fit.layers,
        }
        for index, cost in enumerate(this.estimate.costs)
    ]


def _gpu_json(memory: GpuMemory | None) -> dict[str, Any] | None:
    if memory is None:
        return None
    return {
        "index": memory.gpu.index,
        "name": memory.gpu.name,
        "target": memory.gpu.target or None,
        "total_bytes": memory.total_bytes,
        "free_bytes": memory.free_bytes,
    }


def _way_json(way: Way) -> dict[str, Any]:
    return {
        "arguments": list(way.arguments),
        "gives_up": way.gives_up,
        "layers": way.layers,
        "everything": way.everything,
        "needed_bytes": way.needed_bytes,
        "context": way.context,
    }

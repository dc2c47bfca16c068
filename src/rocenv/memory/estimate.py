"""How many layers of a model a GPU has room for: pure.

What llama.cpp keeps on a GPU with `-ngl N`: the weights of the last N layers and what they remember of the
conversation, with the output as one layer more, and room to compute in. Releases differ in whether the output
is the first or the last of the N; what is larger counts.

Formulas: the cache is exact. The room to compute in is what llama.cpp 0.7.0 asked for when measured with
models of several shapes, rounded up by some per cent, without flash attention unless that is asked for.
Logs that it is held against: ollama/ollama#11265, ggml-org/llama.cpp#16725
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.memory.amounts import MIB
from rocenv.memory.anatomy import Anatomy, anatomy_of
from rocenv.memory.quants import CACHE_TYPES, cache_bytes

if TYPE_CHECKING:
    from rocenv.memory.gguf import Model

MARGIN_BYTES = 1024 * MIB  # what llama.cpp's own `--fit` leaves free
GRAPH_AT_LEAST_BYTES = 600 * MIB
CONTEXT = 4096  # where neither the user nor the model names one
PADDING = 256  # of a cache, in tokens
_F32 = 4
_F16 = 2
_COPIES = 7  # of a batch's vectors that are there at once
_WIDE_COPIES = 3  # of what lies inside a feed-forward layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a model is to be used."""

    context: int = (
        0  # tokens of one conversation; 0 = what the model was made for. llama.cpp's `-c` is for all
    )
    parallel: int = 1  # conversations at once, each with a context of its own
    batch: int = 512  # tokens that are computed at once: llama.cpp's `-ub`
    cache_k: str = "f16"
    cache_v: str = "f16"
    flash_attention: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one repeating layer takes of the GPU that it is put on."""

    weights_bytes: int
    cache_bytes: int  # keys, values and states


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a model takes, used in a certain way."""

    use: Use  # with the context that is meant
    anatomy: Anatomy
    costs: tuple[Cost, ...]  # of each repeating layer
    graph_bytes: int  # to compute in, with everything on the GPU
    _graphs: tuple[int, ...]  # with N layers on it
    _needs: tuple[int, ...]

    @property
    def of_layers(self) -> int:
        """What `-ngl` is with everything on the GPU: the output counts as one."""
        return len(self.costs) + 1

    @property
    def cache_bytes(self) -> int:
        """Keys, values and states of all layers."""
        return sum(cost.cache_bytes for cost in self.costs)

    def needed(self, layers: int) -> int:
        """Return what so many layers take, without a margin."""
        return self._needs[layers]

    def graph(self, layers: int) -> int:
        """Return how much of that is to compute in."""
        return self._graphs[layers]

    def layers_in(self, size_bytes: int) -> int:
        """Return the largest number of layers that takes no more than this."""
        return max(layers for layers, need in enumerate(self._needs) if not layers or need <= size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How many layers go onto a GPU."""

    layers: int  # for `-ngl`
    of_layers: int  # everything
    needed_bytes: int  # by those, without the margin
    all_needed_bytes: int  # by everything
    free_bytes: int
    margin_bytes: int
    context: int  # that it was computed for
    notes: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Tell whether all of it goes onto the GPU."""
        return self.layers == self.of_layers


def fit(
    model: Model,
    free_bytes: int,
    *,
    context: int = 0,
    parallel: int = 1,
    batch: int = 512,
    cache_k: str = "f16",
    cache_v: str = "f16",
    flash_attention: bool = False,
    margin_bytes: int = MARGIN_BYTES,
) -> Fit:
    """Return how many layers of a model go onto a GPU with so much free memory.

    Raises:
        RocenvError: It cannot be told for this model, or there is no such type of cache.
    """
    use = Use(
        context=context,
        parallel=parallel,
        batch=batch,
        cache_k=cache_k,
        cache_v=cache_v,
        flash_attention=flash_attention,
    )
    estimate = estimate_of(anatomy_of(model), use)
    if estimate.anatomy.unknown:
        raise RocenvError(
            f"how many layers of {model.path} fit cannot be told: {'; '.join(estimate.anatomy.unknown)}",
            hints=("give the number yourself: `-ngl N`",),
            code="model-unknown",
        )
    return fit_of(estimate, free_bytes, margin_bytes)


def fit_of(estimate: Estimate, free_bytes: int, margin_bytes: int = MARGIN_BYTES) -> Fit:
    """Return how many layers of what was estimated fit."""
    layers = estimate.layers_in(free_bytes - margin_bytes)
    return Fit(
        layers=layers,
        of_layers=estimate.of_layers,
        needed_bytes=estimate.needed(layers),
        all_needed_bytes=estimate.needed(estimate.of_layers),
        free_bytes=free_bytes,
        margin_bytes=margin_bytes,
        context=estimate.use.context,
        notes=estimate.anatomy.notes,
    )


def estimate_of(anatomy: Anatomy, use: Use) -> Estimate:
    """Return what a model takes.

    Raises:
        RocenvError: There is no such type of cache.
    """
    quantised = use.cache_v.lower() not in ("f32", "f16", "bf16")  # which llama.cpp allows with it only
    use = replace(
        use,
        context=use.context or anatomy.context or CONTEXT,
        flash_attention=use.flash_attention or quantised,
    )
    costs = _costs(anatomy, use)
    graph = _graph(anatomy, use)
    graphs = _graphs(anatomy, use, graph)
    return Estimate(
        use=use,
        anatomy=anatomy,
        costs=costs,
        graph_bytes=graph,
        _graphs=graphs,
        _needs=_needs(anatomy, costs, graphs),
    )


def cells(use: Use) -> int:
    """Return how many tokens a cache has room for."""
    return -(-use.context // PADDING) * PADDING * use.parallel


def _costs(anatomy: Anatomy, use: Use) -> tuple[Cost, ...]:
    rows: dict[int, int] = {}  # bytes of one token in one layer, by its heads
    for heads in {layer.kv_heads for layer in anatomy.layers}:
        key = cache_bytes(use.cache_k, heads * anatomy.key_length)
        value = cache_bytes(use.cache_v, heads * anatomy.value_length)
        if key is None or value is None:
            wrong = use.cache_k if key is None else use.cache_v
            known = ", ".join(CACHE_TYPES)
            raise WrongUsage(f"a cache has no type {wrong}", hints=(f"one of {known}",))
        rows[heads] = key + value
    tokens = cells(use)
    return tuple(
        Cost(
            weights_bytes=layer.weights_bytes,
            cache_bytes=tokens * rows[layer.kv_heads] + use.parallel * layer.state_bytes,
        )
        for layer in anatomy.layers
    )


def _logits(anatomy: Anatomy, use: Use, copies: int) -> int:
    return _F32 * use.batch * (anatomy.vocabulary + copies * anatomy.embedding)


def _graph(anatomy: Anatomy, use: Use) -> int:
    """Return the room to compute in with everything on the GPU: the largest of what comes one by one."""
    tokens = cells(use) if any(layer.kv_heads for layer in anatomy.layers) else 0
    vectors = _COPIES * anatomy.embedding
    scores = 0 if use.flash_attention else tokens * anatomy.heads
    attention = _F32 * use.batch * (scores + vectors)
    wide = _F32 * use.batch * (_WIDE_COPIES * anatomy.feed_forward + vectors)
    mask = (_F16 if use.flash_attention else _F32) * use.batch * tokens
    return max(attention, wide, _logits(anatomy, use, _COPIES)) + mask


def _graphs(anatomy: Anatomy, use: Use, graph: int) -> tuple[int, ...]:
    """Return the room to compute in with none, one, two … layers on the GPU.

    A matrix that stays in the machine's memory is copied to the GPU, one at a time, where a whole batch is to
    be multiplied with it.
    """
    output = _logits(anatomy, use, 2) + anatomy.output_matrix_bytes
    wide = _F32 * use.batch * _WIDE_COPIES * anatomy.feed_forward
    largest = list(accumulate((layer.largest_bytes for layer in anatomy.layers), max, initial=0))
    partial = [max(graph, output, wide + left) for left in reversed(largest)]
    return tuple(max(size, GRAPH_AT_LEAST_BYTES) for size in [*partial, graph])


def _needs(anatomy: Anatomy, costs: tuple[Cost, ...], graphs: tuple[int, ...]) -> tuple[int, ...]:
    weights = list(accumulate((cost.weights_bytes for cost in reversed(costs)), initial=0))
    caches = list(accumulate((cost.cache_bytes for cost in reversed(costs)), initial=0))
    needs = [0]
    for layers in range(1, len(costs) + 1):
        output_last, output_first = weights[layers], weights[layers - 1] + anatomy.output_bytes
        needs.append(max(output_last, output_first) + caches[layers] + graphs[layers])
    return (*needs, weights[-1] + anatomy.output_bytes + caches[-1] + graphs[-1])

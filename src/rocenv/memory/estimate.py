"""Estimate a model's GPU memory and the number of layers that fit.

With `-ngl N`, llama.cpp puts the weights of the last N layers, their KV cache and a compute buffer on the
GPU. The output counts as another layer. Some releases offload the output first and others last, so the
estimate assumes whichever order needs more memory.

The cache size is exact. The estimated compute buffer is a few percent larger than what llama.cpp 0.7.0
allocated for models of several shapes; it assumes flash attention only if `Use` enables it. Logs:
ollama/ollama#11265, ggml-org/llama.cpp#16725
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.memory.amounts import MIB
from rocenv.memory.gguf_header import TENSOR_TYPES
from rocenv.memory.model_layout import ModelLayout, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.memory.gguf import Model

MARGIN_BYTES = 1024 * MIB  # what llama.cpp's own `--fit` leaves free
MIN_GRAPH_BYTES = 600 * MIB
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_BLOCKS = {name.lower(): (elements, n_bytes) for name, elements, n_bytes in TENSOR_TYPES.values()}
_DEFAULT_CONTEXT = 4096  # if neither the user nor the model specifies one
_PADDING = 256  # cache sizes are multiples of this, in tokens
_MIN_CONTEXT = 2 * _PADDING  # the shortest context to suggest
_SMALL_BATCH = 128
_MIN_GAIN = 1.1  # suggest another context only if it is longer by this factor
_F32 = 4
_F16 = 2
_COPIES = 7  # simultaneous copies of a batch's vectors
_WIDE_COPIES = 3  # the same, within a feed-forward layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Options for running a model."""

    context: int = 0  # in tokens; 0 for the trained length
    batch: int = 512  # tokens per batch: llama.cpp's `-ub`
    cache_k: str = "f16"
    cache_v: str = "f16"
    flash_attention: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How much memory a model needs with certain options."""

    use: Use  # with the context that is actually used, even if the request did not specify one
    layout: ModelLayout
    caches: tuple[int, ...]  # bytes for keys, values and states, per repeating layer
    graph_bytes: int  # size of the compute buffer with everything on the GPU
    _graphs: tuple[int, ...]  # size of the compute buffer, by number of layers on the GPU
    _needs: tuple[int, ...]

    @property
    def of_layers(self) -> int:
        """The `-ngl` value that puts everything on the GPU, including the output, which counts as a layer."""
        return len(self.caches) + 1

    @property
    def cache_bytes(self) -> int:
        """The size of the keys, values and states of all layers."""
        return sum(self.caches)

    def needed(self, layers: int) -> int:
        """Return the number of bytes that this many layers need, without the margin."""
        return self._needs[layers]

    def graph(self, layers: int) -> int:
        """Return the size of the compute buffer for this many layers."""
        return self._graphs[layers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The number of layers that fit on a GPU."""

    layers: int  # for `-ngl`
    of_layers: int
    needed_bytes: int  # for those layers, without the margin
    free_bytes: int

    @property
    def everything(self) -> bool:
        """Whether the whole model fits."""
        return self.layers == self.of_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """llama.cpp arguments that make more layers fit."""

    arguments: tuple[str, ...]
    gives_up: str
    layers: int
    everything: bool
    needed_bytes: int  # for those layers
    context: int


def fit(model: Model, free_bytes: int, use: Use) -> Fit:
    """Compute how many of a model's layers fit in free memory, leaving MARGIN_BYTES free.

    Raises:
        RocenvError: The model's metadata is incomplete, or `use` specifies an unknown cache type.
    """
    estimate = estimate_of(layout_of(model), use)
    if estimate.layout.unknown:
        raise RocenvError(
            f"cannot compute how many layers of {model.path} fit: {'; '.join(estimate.layout.unknown)}",
            hints=("set the number yourself with `-ngl`",),
            code="model-unknown",
        )
    return fit_of(estimate, free_bytes)


def fit_of(estimate: Estimate, free_bytes: int) -> Fit:
    """Compute how many layers fit while leaving MARGIN_BYTES free."""
    room = free_bytes - MARGIN_BYTES
    layers = max(
        count for count in range(estimate.of_layers + 1) if not count or estimate.needed(count) <= room
    )
    return Fit(
        layers=layers,
        of_layers=estimate.of_layers,
        needed_bytes=estimate.needed(layers),
        free_bytes=free_bytes,
    )


def estimate_of(layout: ModelLayout, use: Use) -> Estimate:
    """Estimate how much memory a model needs.

    Raises:
        WrongUsage: `use` specifies an unknown cache type.
    """
    # llama.cpp requires flash attention for a quantized cache.
    is_quantized = use.cache_v.lower() not in ("f32", "f16", "bf16")
    use = replace(
        use,
        context=use.context or layout.context or _DEFAULT_CONTEXT,
        flash_attention=use.flash_attention or is_quantized,
    )
    caches = _caches(layout, use)
    graph = _graph(layout, use)
    graphs = _graphs(layout, use, graph)
    needs = _needs(layout, caches, graphs)
    return Estimate(use=use, layout=layout, caches=caches, graph_bytes=graph, _graphs=graphs, _needs=needs)


def ways_to_fit(estimate: Estimate, free_bytes: int) -> tuple[Way, ...]:
    """List all ways to fit the whole model, or else the one way that fits the most layers."""
    now = fit_of(estimate, free_bytes)
    found = []
    for use, arguments, gives_up in () if now.everything else _cheaper_uses(estimate, free_bytes):
        fits = fit_of(estimate_of(estimate.layout, use), free_bytes)
        way = Way(
            arguments=arguments,
            gives_up=gives_up,
            layers=fits.layers,
            everything=fits.everything,
            needed_bytes=fits.needed_bytes,
            context=use.context,
        )
        found += [way] if way.layers > now.layers else []
    whole = tuple(way for way in found if way.everything)
    return whole or tuple(sorted(found, key=lambda way: -way.layers)[:1])


def _cheaper_uses(estimate: Estimate, free_bytes: int) -> Iterator[tuple[Use, tuple[str, ...], str]]:
    """Yield options that need less memory, with their arguments and drawbacks, mildest drawback first."""
    use = estimate.use
    flash = replace(use, flash_attention=True)
    small_cache = replace(flash, cache_k="q8_0", cache_v="q8_0")
    with_flash = (flash, ("-fa", "on"), "speed on some GPUs (flash attention)")
    with_cache = (
        small_cache,
        ("-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"),
        "a little quality (smaller cache)",
    )
    yield with_flash
    if use.batch > _SMALL_BATCH:
        yield replace(use, batch=_SMALL_BATCH), ("-ub", str(_SMALL_BATCH)), "time for long prompts"
    yield with_cache
    longest = 0
    for other, arguments, gives_up in ((use, (), ""), with_flash, with_cache):
        context = longest_context(estimate.layout, other, free_bytes)
        if longest * _MIN_GAIN < context < use.context // _PADDING * _PADDING:
            longest = context
            costs = f"part of the context{', ' if gives_up else ''}{gives_up}"
            yield replace(other, context=context), ("-c", str(context), *arguments), costs


def longest_context(layout: ModelLayout, use: Use, free_bytes: int) -> int:
    """Compute the longest context up to `use.context` with which the whole model fits, or 0."""
    low, high = _MIN_CONTEXT // _PADDING - 1, use.context // _PADDING
    while low < high:
        middle = (low + high + 1) // 2
        estimate = estimate_of(layout, replace(use, context=middle * _PADDING))
        fits = fit_of(estimate, free_bytes).everything
        low, high = (middle, high) if fits else (low, middle - 1)
    return low * _PADDING if low * _PADDING >= _MIN_CONTEXT else 0


def _row_bytes(kind: str, elements: int) -> int:
    """Return the size of this many cache elements."""
    if kind.lower() not in CACHE_TYPES:
        raise WrongUsage(f"`{kind}` is not a cache type", hints=(f"use one of {', '.join(CACHE_TYPES)}",))
    block, block_bytes = _BLOCKS[kind.lower()]
    return -(-elements // block) * block_bytes


def _tokens(use: Use) -> int:
    """Return the cache's capacity in tokens."""
    return -(-use.context // _PADDING) * _PADDING


def _caches(layout: ModelLayout, use: Use) -> tuple[int, ...]:
    token_bytes = {  # per token and layer, by number of KV heads
        heads: _row_bytes(use.cache_k, heads * layout.key_length)
        + _row_bytes(use.cache_v, heads * layout.value_length)
        for heads in {layer.kv_heads for layer in layout.layers}
    }
    tokens = _tokens(use)
    return tuple(tokens * token_bytes[layer.kv_heads] + layer.state_bytes for layer in layout.layers)


def _logits(layout: ModelLayout, use: Use, copies: int) -> int:
    return _F32 * use.batch * (layout.vocabulary + copies * layout.embedding)


def _graph(layout: ModelLayout, use: Use) -> int:
    """Return the size of the compute buffer with everything on the GPU: the maximum over a batch's steps."""
    tokens = _tokens(use) if any(layer.kv_heads for layer in layout.layers) else 0
    vectors = _COPIES * layout.embedding
    scores = 0 if use.flash_attention else tokens * layout.heads
    attention = _F32 * use.batch * (scores + vectors)
    wide = _F32 * use.batch * (_WIDE_COPIES * layout.feed_forward + vectors)
    mask = (_F16 if use.flash_attention else _F32) * use.batch * tokens
    return max(attention, wide, _logits(layout, use, _COPIES)) + mask


def _graphs(layout: ModelLayout, use: Use, graph: int) -> tuple[int, ...]:
    """Return the size of the compute buffer with 0, 1, 2 … layers on the GPU.

    The buffer has room for the largest matrix that stays in system memory, because llama.cpp copies such
    matrices to the GPU, one at a time, to multiply whole batches.
    """
    output = _logits(layout, use, 2) + layout.output_matrix_bytes
    wide = _F32 * use.batch * _WIDE_COPIES * layout.feed_forward
    largest = list(accumulate((layer.largest_bytes for layer in layout.layers), max, initial=0))
    partial = [max(graph, output, wide + left) for left in reversed(largest)]
    return tuple(max(size, MIN_GRAPH_BYTES) for size in [*partial, graph])


def _needs(layout: ModelLayout, caches: tuple[int, ...], graphs: tuple[int, ...]) -> tuple[int, ...]:
    weights = list(accumulate((layer.weights_bytes for layer in reversed(layout.layers)), initial=0))
    cached = list(accumulate(reversed(caches), initial=0))
    needs = [0]
    for layers in range(1, len(caches) + 1):
        output_last, output_first = weights[layers], weights[layers - 1] + layout.output_bytes
        needs.append(max(output_last, output_first) + cached[layers] + graphs[layers])
    return (*needs, weights[-1] + layout.output_bytes + cached[-1] + graphs[-1])

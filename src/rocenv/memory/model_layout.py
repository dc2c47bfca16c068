"""The parts of a model that matter for GPU memory.

Source of the tensor and key names: ggml-org/llama.cpp:gguf-py/gguf/constants.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.memory.gguf import Model
    from rocenv.memory.gguf_header import Tensor

_MAX_LAYERS = 512  # LLAMA_MAX_LAYERS
_F32 = 4
_MAX_WORD = 40
_BLOCK = re.compile(r"(?:[a-z]{1,8}\.)?blk\.([0-9]{1,9})\.(.+)", re.DOTALL)
# Token embeddings need little computation, so they stay in system memory.
_INPUT = ("token_embd.", "token_embd_norm.", "token_types.", "position_embd.", "per_layer_token_embd.")
_OWN_KEYS = ("attn_k.", "attn_k_b.", "attn_kv_a_mqa.")
_RECURRENT = ("ssm_", "time_mix_", "shortconv.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A repeating layer."""

    weights_bytes: int
    largest_bytes: int  # the largest tensor
    kv_heads: int = 0  # 0 if it has no KV cache
    state_bytes: int = 0  # per conversation, regardless of its length


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayout:
    """The sizes and dimensions of a model's parts; 0 for parts that the model lacks."""

    layers: tuple[Layer, ...]
    input_bytes: int  # stays in system memory
    output_bytes: int  # goes to the GPU as an additional layer
    output_matrix_bytes: int
    key_length: int
    value_length: int
    embedding: int
    heads: int
    feed_forward: int
    vocabulary: int
    context: int  # the context length used in training
    unknown: tuple[str, ...]  # reasons why an estimate is impossible; () if it is possible
    notes: tuple[str, ...]

    @property
    def weights_bytes(self) -> int:
        """The total size of the weights that can be on the GPU."""
        return sum(layer.weights_bytes for layer in self.layers) + self.output_bytes


def layout_of(model: Model) -> ModelLayout:
    """Sort a model's tensors into layers, input and output, and read its dimensions."""
    blocks: dict[int, list[Tensor]] = {}
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for tensor in model.tensors:
        if named := _BLOCK.match(tensor.name):
            blocks.setdefault(int(named[1]), []).append(tensor)
        else:
            (inputs if tensor.name.startswith(_INPUT) else outputs).append(tensor)
    table = next((tensor for tensor in inputs if tensor.name == "token_embd.weight"), None)
    matrix = next((tensor for tensor in outputs if tensor.name == "output.weight"), None)
    # Without an output matrix, a model that generates text reuses the input matrix.
    is_tied = matrix is None and table is not None and _is_causal(model)
    copied = table.n_bytes if is_tied and table else 0
    heads, state = _kv_heads(model), _state_bytes(model)
    count = max(model.number("block_count"), max(blocks, default=-1) + 1)
    layers = tuple(
        _layer(blocks.get(index, []), _at_layer(heads, index), state)
        for index in range(count if blocks and count <= _MAX_LAYERS else 0)
    )
    lengths = _key_and_value_length(model)
    return ModelLayout(
        layers=layers,
        input_bytes=_size(inputs),
        output_bytes=_size(outputs) + copied,
        output_matrix_bytes=matrix.n_bytes if matrix else copied,
        key_length=lengths[0],
        value_length=lengths[1],
        embedding=model.number("embedding_length"),
        heads=max(_numbers(model, "attention.head_count"), default=0),
        feed_forward=_feed_forward(model),
        vocabulary=_vocabulary(model, matrix or table),
        context=model.number("context_length"),
        unknown=tuple(_unknown(model, layers, lengths)),
        notes=tuple(_notes(model)),
    )


def shorten(word: object) -> str:
    """Truncate an untrusted string from a file."""
    text = str(word)
    return text if len(text) <= _MAX_WORD else f"{text[:_MAX_WORD]}…"


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.n_bytes for tensor in tensors)


def _layer(tensors: list[Tensor], kv_heads: int, state_bytes: int) -> Layer:
    parts = [found[2] for tensor in tensors if (found := _BLOCK.match(tensor.name))]
    is_recurrent = any(part.startswith(_RECURRENT) for part in parts)
    caches_keys = not is_recurrent or any(part.startswith(_OWN_KEYS) for part in parts)
    return Layer(
        weights_bytes=_size(tensors),
        largest_bytes=max((tensor.n_bytes for tensor in tensors), default=0),
        kv_heads=kv_heads if caches_keys else 0,
        state_bytes=state_bytes if is_recurrent else 0,
    )


def _numbers(model: Model, key: str) -> tuple[int, ...]:
    """Look up a number, or an array with one number per layer."""
    value = model.value(key)
    values = value if isinstance(value, tuple) else (value,)
    return tuple(one for one in values if isinstance(one, int) and not isinstance(one, bool) and one >= 0)


def _at_layer(values: tuple[int, ...], index: int) -> int:
    """Return a layer's value, or the largest value for layers past the end of the array."""
    if len(values) == 1:
        return values[0]
    return values[index] if index < len(values) else max(values, default=0)


def _is_causal(model: Model) -> bool:
    """Return whether a model generates text; other models have neither an output matrix nor a KV cache."""
    return model.value("attention.causal") is not False


def _kv_heads(model: Model) -> tuple[int, ...]:
    if not _is_causal(model):
        return (0,)
    return _numbers(model, "attention.head_count_kv") or _numbers(model, "attention.head_count")


def _key_and_value_length(model: Model) -> tuple[int, int]:
    """Return the key and value length per head, or 0 if unknown."""
    heads = max(_numbers(model, "attention.head_count"), default=0)
    usual = model.number("embedding_length") // heads if heads else 0
    key, value = (
        max(model.number(f"{what}_length") or usual, model.number(f"{what}_length_swa"))
        for what in ("attention.key", "attention.value")
    )
    return key, value


def _state_bytes(model: Model) -> int:
    """Return the size of a recurrent layer's state (Mamba, RWKV, short convolution) per conversation."""
    inner, size = model.number("ssm.inner_size"), model.number("ssm.state_size")
    if inner and size:
        groups = model.number("ssm.group_count")
        before = max(model.number("ssm.conv_kernel") - 1, 0)
        return _F32 * (before * (inner + 2 * groups * size) + inner * size)
    width = model.number("embedding_length")
    if head := model.number("wkv.head_size"):
        return _F32 * width * ((model.number("token_shift_count") or 2) + head)
    return _F32 * width * max(model.number("shortconv.l_cache") - 1, 0)


def _feed_forward(model: Model) -> int:
    """Return the widest layer's width, counting only the experts that a token uses."""
    dense = max(_numbers(model, "feed_forward_length"), default=0)
    expert = model.number("expert_feed_forward_length") or dense
    return max(dense, model.number("expert_used_count") * expert, 2 * model.number("ssm.inner_size"))


def _vocabulary(model: Model, matrix: Tensor | None) -> int:
    if matrix is not None and len(matrix.shape) > 1:
        return matrix.shape[-1]
    return model.number("vocab_size")


def _unknown(model: Model, layers: tuple[Layer, ...], lengths: tuple[int, int]) -> Iterator[str]:
    name = shorten(model.architecture) or "the model"
    kind = model.metadata.get("general.type", "model")
    if kind != "model":
        yield f"it is not a complete model: its type is {shorten(kind)}"
    if not model.architecture:
        yield "it does not specify its architecture"
    if not layers:
        yield f"{name} has no layers named blk.N"
    elif not _kv_heads(model) and any(".attn_" in tensor.name for tensor in model.tensors):
        yield f"{name} does not specify the number of KV heads"
    elif any(layer.kv_heads for layer in layers) and not all(lengths):
        yield f"{name} does not specify the key and value lengths"


def _notes(model: Model) -> Iterator[str]:
    if window := model.number("attention.sliding_window"):
        yield f"the cache is an upper bound: some layers attend to only {window:,} tokens (sliding window)"
    if model.number("attention.kv_lora_rank"):
        yield "the cache is an upper bound: the model compresses keys and values (MLA)"
    if experts := _size(tensor for tensor in model.tensors if "_exps." in tensor.name):
        yield (
            f"{amount(experts)} of the model are experts; `--n-cpu-moe N` keeps the experts of N layers in"
            " system memory, which is faster than keeping whole layers there"
        )
    is_recurrent = any(part in tensor.name for tensor in model.tensors for part in (".ssm_", ".time_mix_"))
    if is_recurrent and not _state_bytes(model):
        yield "the estimate excludes the recurrent layers' state, because its size is unknown"

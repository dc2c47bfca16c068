"""What a model consists of, as far as it takes memory of a GPU: pure, from its header.

Names of tensors and keys: ggml-org/llama.cpp:gguf-py/gguf/constants.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.memory.gguf import Model
    from rocenv.memory.gguf_header import Tensor

_MOST_LAYERS = 4096  # llama.cpp stops at 512
_F32 = 4
_LONGEST_WORD = 40
_BLOCK = re.compile(r"(?:[a-z]{1,8}\.)?blk\.([0-9]{1,9})\.(.+)", re.DOTALL)
# What turns tokens into vectors: little to do, so that it stays in the machine's memory.
_INPUT = (
    "token_embd.",
    "token_embd_norm.",
    "token_types.",
    "position_embd.",
    "per_layer_token_embd.",
)
_OWN_KEYS = ("attn_k.", "attn_k_b.", "attn_kv_a_mqa.")
_RECURRENT = ("ssm_", "time_mix_", "shortconv.")
_EXPERTS = "_exps."


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A repeating layer."""

    weights_bytes: int
    largest_bytes: int  # of its tensors
    kv_heads: int = 0  # 0 = it keeps no keys and values
    state_bytes: int = 0  # of each conversation, whatever its length


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """A model by what has a place of its own in memory. Numbers are 0 where there is no such thing."""

    layers: tuple[Layer, ...]
    input_bytes: int  # stays in the machine's memory
    output_bytes: int  # goes to the GPU with the last layer
    output_matrix_bytes: int
    key_length: int
    value_length: int
    embedding: int
    heads: int
    feed_forward: int
    vocabulary: int
    context: int  # what it was made for
    unknown: tuple[str, ...]  # why no number of layers can be given; () = it can
    notes: tuple[str, ...]

    @property
    def weights_bytes(self) -> int:
        """What the GPU has with everything on it."""
        return sum(layer.weights_bytes for layer in self.layers) + self.output_bytes


def anatomy_of(model: Model) -> Anatomy:
    """Return what a model consists of."""
    blocks = _blocks(model)
    inputs = [tensor for tensor in model.tensors if tensor.name.startswith(_INPUT)]
    outputs = [tensor for tensor in model.tensors if not _BLOCK.match(tensor.name)]
    outputs = [tensor for tensor in outputs if not tensor.name.startswith(_INPUT)]
    table = next((tensor for tensor in inputs if tensor.name == "token_embd.weight"), None)
    matrix = next((tensor for tensor in outputs if tensor.name == "output.weight"), None)
    tied = matrix is None and table is not None and _writes(model)
    copied = table.n_bytes if tied and table else 0
    lengths = _lengths(model)
    heads, state = _kv_heads(model), _state(model)
    count = _count(model, blocks)
    layers = tuple(_layer(blocks.get(index, []), _of_layer(heads, index), state) for index in range(count))
    return Anatomy(
        layers=layers,
        input_bytes=_sum(inputs),
        output_bytes=_sum(outputs) + copied,
        output_matrix_bytes=matrix.n_bytes if matrix else copied,
        key_length=lengths[0],
        value_length=lengths[1],
        embedding=model.number("embedding_length") or 0,
        heads=max(_each(model, "attention.head_count"), default=0),
        feed_forward=_feed_forward(model),
        vocabulary=_vocabulary(model, matrix or table),
        context=model.number("context_length") or 0,
        unknown=tuple(_unknown(model, layers, lengths)),
        notes=tuple(_notes(model)),
    )


def _sum(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.n_bytes for tensor in tensors)


def _blocks(model: Model) -> dict[int, list[Tensor]]:
    found: dict[int, list[Tensor]] = {}
    for tensor in model.tensors:
        if named := _BLOCK.match(tensor.name):
            found.setdefault(int(named[1]), []).append(tensor)
    return found


def _count(model: Model, blocks: dict[int, list[Tensor]]) -> int:
    """Return how many repeating layers there are; 0 = it cannot be told."""
    count = model.number("block_count") or 0
    most = max(count, max(blocks, default=-1) + 1)
    return most if blocks and most <= _MOST_LAYERS else 0


def _layer(tensors: list[Tensor], kv_heads: int, state_bytes: int) -> Layer:
    parts = [found[2] for tensor in tensors if (found := _BLOCK.match(tensor.name))]
    recurrent = any(part.startswith(_RECURRENT) for part in parts)
    keeps_keys = not recurrent or any(part.startswith(_OWN_KEYS) for part in parts)
    return Layer(
        weights_bytes=_sum(tensors),
        largest_bytes=max((tensor.n_bytes for tensor in tensors), default=0),
        kv_heads=kv_heads if keeps_keys else 0,
        state_bytes=state_bytes if recurrent else 0,
    )


def _each(model: Model, key: str) -> tuple[int, ...]:
    """Return a number, or one for each layer."""
    value = model.value(key)
    values = value if isinstance(value, tuple) else (value,)
    return tuple(one for one in values if isinstance(one, int) and not isinstance(one, bool) and one >= 0)


def _of_layer(values: tuple[int, ...], index: int) -> int:
    """Return the number for a layer; an array that is too short is continued with its largest."""
    if len(values) == 1:
        return values[0]
    return values[index] if index < len(values) else max(values, default=0)


def _kv_heads(model: Model) -> tuple[int, ...]:
    if model.value("attention.causal") is False:
        return (0,)
    return _each(model, "attention.head_count_kv") or _each(model, "attention.head_count")


def _lengths(model: Model) -> tuple[int, int]:
    """Return how long a key and a value of one head are; 0 = not known."""
    heads = max(_each(model, "attention.head_count"), default=0)
    usual = (model.number("embedding_length") or 0) // heads if heads else 0
    key, value = (
        max(model.number(f"{what}_length") or usual, model.number(f"{what}_length_swa") or 0)
        for what in ("attention.key", "attention.value")
    )
    return key, value


def _state(model: Model) -> int:
    """Return the size of what a recurrent layer keeps of a conversation: Mamba's kinds and RWKV's."""
    inner, size = model.number("ssm.inner_size") or 0, model.number("ssm.state_size") or 0
    if inner and size:
        groups = model.number("ssm.group_count") or 0
        before = max((model.number("ssm.conv_kernel") or 1) - 1, 0)
        return _F32 * (before * (inner + 2 * groups * size) + inner * size)
    width = model.number("embedding_length") or 0
    if head := model.number("wkv.head_size") or 0:
        return _F32 * width * ((model.number("token_shift_count") or 2) + head)
    return _F32 * width * max((model.number("shortconv.l_cache") or 1) - 1, 0)


def _feed_forward(model: Model) -> int:
    """Return how wide the widest layer is, for one token."""
    dense = max(_each(model, "feed_forward_length"), default=0)
    used = model.number("expert_used_count") or 0
    expert = model.number("expert_feed_forward_length") or dense
    return max(dense, used * expert, 2 * (model.number("ssm.inner_size") or 0))


def _vocabulary(model: Model, matrix: Tensor | None) -> int:
    if matrix is not None and len(matrix.shape) > 1:
        return matrix.shape[-1]
    return model.number("vocab_size") or 0


def _writes(model: Model) -> bool:
    """Tell whether a model puts out words: one that only reads has no output."""
    return model.value("attention.causal") is not False


def _unknown(model: Model, layers: tuple[Layer, ...], lengths: tuple[int, int]) -> Iterable[str]:
    name = shown(model.architecture) or "it"
    kind = model.metadata.get("general.type", "model")
    if kind != "model":
        yield f"it is no model by itself: its type is {shown(kind)}"
    if not model.architecture:
        yield "it does not name its architecture"
    if not layers:
        yield f"{name} has no repeating layers of the kind that is known, blk.N"
    elif not _kv_heads(model) and any(".attn_" in tensor.name for tensor in model.tensors):
        yield f"{name} does not say how many heads keep keys and values"
    elif any(layer.kv_heads for layer in layers) and not all(lengths):
        yield f"{name} does not say how long keys and values are"


def shown(word: object) -> str:
    """Return a word of a file, no longer than such words are."""
    text = str(word)
    return text if len(text) <= _LONGEST_WORD else f"{text[:_LONGEST_WORD]}…"


def _notes(model: Model) -> Iterable[str]:
    if window := model.number("attention.sliding_window"):
        yield (
            f"some of its layers look back {window:,} tokens only (sliding window) and may keep less than is"
            " counted here: the cache is an upper bound"
        )
    if model.number("attention.kv_lora_rank"):
        yield (
            "it compresses keys and values (MLA), of which newer programs keep one copy: the cache is an"
            " upper bound"
        )
    if experts := _sum(tensor for tensor in model.tensors if _EXPERTS in tensor.name):
        yield (
            f"it is a mixture of experts, which are {amount(experts)} of it: a program that knows"
            " `--n-cpu-moe N` can leave those of N layers in the machine's memory, which costs less speed"
            " than whole layers"
        )
    recurrent = any(part in tensor.name for tensor in model.tensors for part in (".ssm_", ".time_mix_"))
    if recurrent and not _state(model):
        yield "what its recurrent layers keep of a conversation is not counted: it does not say how much"

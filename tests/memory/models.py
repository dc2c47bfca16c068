"""GGUF files written by the `gguf` package. The weights are file holes, which take up no disk space."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

Q = GGMLQuantizationType


class Writer:
    """One file; `close` writes it."""

    def __init__(self, path: Path, architecture: str = "llama") -> None:
        self.path = path
        self.keys = GGUFWriter(str(path), architecture)
        self._sizes: list[int] = []

    def tensor(self, name: str, shape: tuple[int, ...], kind: Q = Q.F32) -> Writer:
        """Add a tensor; as in NumPy, its shape ends with the innermost dimension."""
        block, size = GGML_QUANT_SIZES[kind]
        n_bytes = math.prod(shape) // block * size
        stored = (*shape[:-1], shape[-1] // block * size)
        if kind == Q.F32:
            self.keys.add_tensor_info(name, shape, np.dtype(np.float32), n_bytes)
        else:
            self.keys.add_tensor_info(name, stored, np.dtype(np.uint8), n_bytes, raw_dtype=kind)
        self._sizes.append(n_bytes)
        return self

    def close(self) -> Path:
        """Write the file without weights."""
        keys = self.keys
        keys.write_header_to_file()
        keys.write_kv_data_to_file()
        keys.write_ti_data_to_file()
        assert keys.fout
        file = keys.fout[0]
        padded = sum(-(-size // 32) * 32 for size in [file.tell(), *self._sizes])
        file.flush()
        os.ftruncate(file.fileno(), padded)
        keys.close()
        return self.path


def llama(
    path: Path,
    *,
    layers: int = 2,
    embedding: int = 4096,
    heads: int = 32,
    kv_heads: int | list[int] = 8,
    feed_forward: int = 14336,
    vocabulary: int = 128256,
    context: int = 131072,
    kind: Q = Q.Q4_K,
    output: Q | None = Q.Q6_K,
    architecture: str = "llama",
    **more: Any,
) -> Path:
    """Write a model with a typical layout, which llama.cpp can load although it has no vocabulary.

    Without `output`, the output layer shares the matrix of the input layer.
    """
    file = Writer(path, architecture)
    keys = file.keys
    keys.add_tokenizer_model("none")
    keys.add_layer_norm_rms_eps(1e-5)
    keys.add_vocab_size(vocabulary)
    keys.add_rope_dimension_count(embedding // heads)
    keys.add_block_count(layers)
    keys.add_context_length(context)
    keys.add_embedding_length(embedding)
    keys.add_feed_forward_length(feed_forward)
    keys.add_head_count(heads)
    keys.add_head_count_kv(kv_heads)
    for key, value in more.items():
        keys.add_key_value(f"{architecture}.{key.replace('__', '.')}", value, _kind_of(value))
    file.tensor("token_embd.weight", (vocabulary, embedding), kind).tensor("output_norm.weight", (embedding,))
    if output is not None:
        file.tensor("output.weight", (vocabulary, embedding), output)
    for layer in range(layers):
        keep = kv_heads if isinstance(kv_heads, int) else kv_heads[layer]
        _layer(file, f"blk.{layer}.", embedding, keep * embedding // heads, feed_forward, kind)
    return file.close()


def _kind_of(value: Any) -> Any:
    from gguf import GGUFValueType

    return {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, str: GGUFValueType.STRING}[type(value)]


def _layer(file: Writer, block: str, embedding: int, keep: int, feed_forward: int, kind: Q) -> None:
    for name in ("attn_norm", "ffn_norm"):
        file.tensor(f"{block}{name}.weight", (embedding,))
    for name in ("attn_q", "attn_output"):
        file.tensor(f"{block}{name}.weight", (embedding, embedding), kind)
    for name in ("attn_k", "attn_v"):
        file.tensor(f"{block}{name}.weight", (keep, embedding), kind)
    for name in ("ffn_gate", "ffn_up"):
        file.tensor(f"{block}{name}.weight", (feed_forward, embedding), kind)
    file.tensor(f"{block}ffn_down.weight", (embedding, feed_forward), kind)


def eight_billion(path: Path) -> Path:
    """Write a model with the layout of the 8B models in ollama/ollama#11265, with the output in Q6_K."""
    return llama(path, layers=32)

"""Memory estimates for models, compared with what the real llama.cpp allocates on a CPU."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.memory.estimate import Use, estimate_of
from rocenv.memory.gguf import read_model
from rocenv.memory.model_layout import layout_of
from tests.memory.models import Q, Writer, llama

if TYPE_CHECKING:
    from tests.apps.conftest import Rocenv

MIB = 1 << 20
# More threads, a prompt or a warm-up would only slow the tests down.
QUIET = ["-fit", "off", "-nr", "--no-warmup", "-n", "1", "-t", "1", "-p", "", "--no-conversation", "-v"]


def without_words(path: Path, architecture: str = "llama") -> Writer:
    """Write a model that llama.cpp can load, although it has no vocabulary."""
    file = Writer(path, architecture)
    file.keys.add_tokenizer_model("none")
    file.keys.add_layer_norm_rms_eps(1e-5)
    return file


def plain(path: Path) -> Path:
    return llama(path, embedding=2048, heads=16, kv_heads=4, feed_forward=8192, vocabulary=32000)


def experts(path: Path) -> Path:
    file, width, wide = without_words(path), 1024, 2048
    keys = file.keys
    keys.add_block_count(2)
    keys.add_context_length(8192)
    keys.add_embedding_length(width)
    keys.add_feed_forward_length(wide)
    keys.add_head_count(8)
    keys.add_head_count_kv(2)
    keys.add_vocab_size(4096)
    keys.add_rope_dimension_count(128)
    keys.add_expert_count(8)
    keys.add_expert_used_count(2)
    file.tensor("token_embd.weight", (4096, width), Q.Q4_K).tensor("output_norm.weight", (width,))
    for block in ("blk.0.", "blk.1."):
        for name in ("attn_norm", "ffn_norm"):
            file.tensor(f"{block}{name}.weight", (width,))
        for name, rows in (("attn_q", width), ("attn_k", 256), ("attn_v", 256), ("attn_output", width)):
            file.tensor(f"{block}{name}.weight", (rows, width), Q.Q4_K)
        file.tensor(f"{block}ffn_gate_inp.weight", (8, width))
        for name in ("ffn_gate_exps", "ffn_up_exps"):
            file.tensor(f"{block}{name}.weight", (8, wide, width), Q.Q4_K)
        file.tensor(f"{block}ffn_down_exps.weight", (8, width, wide), Q.Q4_K)
    return file.close()


def recurrent(path: Path) -> Path:
    file, width, inner, state, rank = without_words(path, "mamba"), 768, 1536, 16, 48
    keys = file.keys
    keys.add_block_count(3)
    keys.add_context_length(8192)
    keys.add_embedding_length(width)
    keys.add_feed_forward_length(0)
    keys.add_head_count(0)
    keys.add_vocab_size(4096)
    keys.add_ssm_conv_kernel(4)
    keys.add_ssm_inner_size(inner)
    keys.add_ssm_state_size(state)
    keys.add_ssm_time_step_rank(rank)
    file.tensor("token_embd.weight", (4096, width)).tensor("output_norm.weight", (width,))
    for block in ("blk.0.", "blk.1.", "blk.2."):
        shapes = {
            "attn_norm.weight": (width,),
            "ssm_in.weight": (2 * inner, width),
            "ssm_conv1d.weight": (inner, 4),
            "ssm_conv1d.bias": (inner,),
            "ssm_x.weight": (rank + 2 * state, inner),
            "ssm_dt.weight": (inner, rank),
            "ssm_dt.bias": (inner,),
            "ssm_a": (inner, state),
            "ssm_d": (inner,),
            "ssm_out.weight": (width, inner),
        }
        for name, shape in shapes.items():
            file.tensor(f"{block}{name}", shape)
    return file.close()


MODELS = {"plain": plain, "experts": experts, "recurrent": recurrent}
CASES = [
    ("plain", ["-c", "8192", "-fa", "off"], Use(context=8192)),
    ("plain", ["-c", "8192", "-fa", "on"], Use(context=8192, flash_attention=True)),
    (
        "plain",
        ["-c", "5000", "-fa", "on", "-ctk", "q8_0", "-ctv", "q4_0"],
        Use(context=5000, cache_k="q8_0", cache_v="q4_0"),
    ),
    ("plain", ["-c", "4096", "-fa", "off", "-ub", "128"], Use(context=4096, batch=128)),
    ("experts", ["-c", "4096", "-fa", "off"], Use(context=4096)),
    ("recurrent", ["-c", "4096"], Use(context=4096)),
]


@pytest.mark.parametrize(("name", "arguments", "use"), CASES)
def test_llama_cpp_allocates_the_estimated_memory(
    rocenv: Rocenv, llama_env: str, tmp_path: Path, name: str, arguments: list[str], use: Use
) -> None:
    path = MODELS[name](tmp_path / "a model.gguf")
    said = load(rocenv, llama_env, path, arguments)
    model = read_model(path)
    told = estimate_of(layout_of(model), use)
    assert said["model"] == pytest.approx(model.weights_bytes / MIB, abs=0.1)
    assert said["KV"] + said["RS"] == pytest.approx(told.cache_bytes / MIB, abs=0.01)
    graph_mib = told.graph_bytes / MIB
    assert said["compute"] - 0.1 <= graph_mib
    if name != "recurrent":  # the estimate ignores that recurrent layers need less
        assert graph_mib <= said["compute"] * 1.1


def load(rocenv: Rocenv, env: str, path: Path, arguments: list[str]) -> dict[str, float]:
    """Load a model with llama.cpp; return its buffer sizes in MiB."""
    shown = json.loads(rocenv("show", env, "--json").stdout)
    backend = next(Path(shown["prefix"]).glob("rocm/usr/lib/*/ggml/backends0/libggml-cpu-x64.so"))
    done = rocenv(
        *("run", env, "--", "llama-completion", "-m", str(path), *arguments, *QUIET),
        env={"GGML_BACKEND_PATH": str(backend)},
    )
    found = re.findall(r"(model|KV|RS|compute) buffer size = +([0-9.]+) MiB", done.stdout + done.stderr)
    assert {"model", "compute"} <= {what for what, _ in found}
    sums = dict.fromkeys(("model", "KV", "RS", "compute"), 0.0)
    for what, size in found:
        sums[what] += float(size)
    return sums

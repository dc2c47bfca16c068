"""Debian's real llama.cpp with its HIP backend, which finds no GPU here; rocenv must say so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from gguf import GGUFWriter

from rocenv.apps.options import read_help

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apps.conftest import Rocenv

WIDTH, INNER, HEADS, BLOCKS = 64, 128, 4, 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that llama.cpp can load and run."""
    path = tmp_path_factory.mktemp("a model") / "tiny.gguf"
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(BLOCKS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3, *[6] * 256, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(tokens), WIDTH), "output": (len(tokens), WIDTH)}
    shapes["output_norm"] = (WIDTH,)
    for block in range(BLOCKS):
        names: dict[str, tuple[int, ...]] = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH, WIDTH),
            "attn_v": (WIDTH, WIDTH),
        }
        names |= {"attn_output": (WIDTH, WIDTH), "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        names |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        shapes |= {f"blk.{block}.{name}": shape for name, shape in names.items()}
    random = np.random.default_rng(1)
    for name, shape in shapes.items():
        data = random.standard_normal(shape) * 0.02 if len(shape) > 1 else np.ones(shape)
        writer.add_tensor(f"{name}.weight", data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_llama_cpp_starts_with_its_hip_backend_and_lists_no_device(rocenv: Rocenv, llama_env: str) -> None:
    done = rocenv("run", llama_env, "--", "llama-cli", "--list-devices")
    assert done.returncode == 0
    assert "(none)" in done.stdout
    assert "failed to initialize ROCm" in done.stderr, "the backend was not loaded, or did not call HIP"


def test_an_empty_device_list_is_reported(rocenv: Rocenv, llama_env: str) -> None:
    done = rocenv("launch", llama_env, "--", "llama-cli", "--list-devices")
    assert done.returncode == 0
    assert "llama.cpp ended with exit code 0, but it did not find a usable GPU\n" in done.stderr
    assert "it does not list a GPU, so it would use the CPU" in done.stderr
    assert "rocenv gpus" in done.stderr


@pytest.mark.parametrize("program", ["llama-cli", "llama-server", "llama-bench", "llama-completion"])
def test_llama_cpp_is_not_started_if_it_would_use_the_cpu(
    rocenv: Rocenv, llama_env: str, model: Path, program: str
) -> None:
    done = rocenv("launch", llama_env, "--app", "llama.cpp", "--", program, "-m", model)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "llama.cpp starts but does not list a GPU on this machine, so it would run on the CPU. "
        "It lists only: CPU" in done.stderr
    )


def test_llama_cpp_is_recognized_behind_wrapper_programs(rocenv: Rocenv, llama_env: str, model: Path) -> None:
    done = rocenv("launch", llama_env, "--", "nice", "-n", "1", "env", "A=1", "llama-cli", "-m", model)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "llama.cpp starts but does not list a GPU on this machine, so it would run on the CPU. "
        "It lists only: CPU" in done.stderr
    )


def test_llama_cpp_runs_on_the_cpu_on_request(rocenv: Rocenv, llama_env: str, model: Path) -> None:
    words = ("llama-completion", "-m", model, "--device", "none", "-no-cnv", "-p", "aa", "-n", "4")
    done = rocenv("launch", llama_env, "--", *words)
    assert done.returncode == 0, done.stderr
    assert "eval time" in done.stdout + done.stderr
    assert "selects the CPU" in done.stderr


def test_verify_reports_only_the_missing_gpu(rocenv: Rocenv, llama_env: str) -> None:
    done = rocenv("verify", llama_env, "--app", "llama.cpp", "--json")
    assert done.returncode == 4, done.stderr
    rungs = {each["rung"]: each for each in json.loads(done.stdout)["rungs"]}
    assert rungs["app"]["no_device"]
    assert "does not list a GPU, only" in rungs["app"]["detail"]
    assert "/bin/llama-cli --list-devices" in rungs["app"]["detail"].replace("'", ""), (
        "the env's own llama-cli"
    )
    assert rungs["blas"]["no_device"]


@pytest.mark.parametrize("program", ["llama-cli", "llama-server", "llama-bench"])
def test_llama_cpps_help_is_parsed(rocenv: Rocenv, llama_env: str, program: str) -> None:
    options = read_help(rocenv("run", llama_env, "--", program, "--help").stdout)
    assert "--device" in options
    assert "--fit-target" in options
    assert "--load-mode" in options
    assert "--no-mmap" not in options, "removed, but other options still mention it"
    assert ("--fit" in options) == (program != "llama-bench")
    assert len(options.by_name) > 50

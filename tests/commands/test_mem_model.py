"""`rocenv mem model` on the command line."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests import forked
from tests.host.roots import GIB, Root
from tests.memory.models import Writer, eight_billion, llama

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MIB = 1 << 20


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A machine without a GPU."""
    path = tmp_path / "no gpu"
    path.mkdir()
    return path


def machine(path: Path, *, memory: int, used: int) -> Path:
    """A machine with one card."""
    path.mkdir()
    root = Root(path).kernel().cpu().gpu(1, 0x73BF, 100300, memory=memory)
    (card,) = (path / "sys/bus/pci/devices").iterdir()
    (card / "mem_info_vram_used").write_text(f"{used}\n")
    return root.path


def mem(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("ROCENV_", "HSA_"))}
    env = {**keep, "ROCENV_SYSROOT": str(root), "ROCENV_HOME": str(root / "home"), "PYTHONUTF8": "1"}
    return forked.run_text(["mem", *argv], env=env)


def document(root: Path, *argv: str) -> Any:
    done = mem(root, *argv, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_layers_that_fit_are_shown_with_ways_to_fit_more(tmp_path: Path) -> None:
    model = eight_billion(tmp_path / "Llama 3 8B ü.gguf")
    root = machine(tmp_path / "card", memory=8 * GIB, used=GIB)
    done = mem(root, "model", str(model), "--context", "32768")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Llama 3 8B ü.gguf"
    assert "llama, 32 layers; 4.3 GiB of weights" in lines[1]
    assert "32,768 tokens: 4.0 GiB KV cache (f16), 2.1 GiB compute buffer" in lines[2]
    assert [line.split()[0] for line in lines[3:8]] == ["LAYER", "17-31", "0-16", "output", "input"]
    assert lines[4].split()[1:7] == ["1-15", "each", "117", "MiB", "each", "128"]
    assert (lines[4].split()[-1], lines[5].split()[-1], lines[6].split()[-1]) == ("yes", "no", "no")
    assert lines[8].startswith("15 of 33 layers fit in the 7.0 GiB of free memory on GPU 0 (")
    assert lines[8].endswith("`-ngl 15`")
    assert "the whole model needs 10.2 GiB, 4.2 GiB more than is available" in lines[9]
    shown = document(root, "model", str(model), "--context", "32768")
    offers = [" ".join(way["arguments"]) for way in shown["ways"]]
    assert offers
    assert all(any(line.strip().startswith(offer) for line in lines[10:]) for offer in offers)


def test_json_contains_every_layer_and_the_gpu(tmp_path: Path) -> None:
    model = eight_billion(tmp_path / "m.gguf")
    root = machine(tmp_path / "card", memory=8 * GIB, used=GIB)
    shown = document(root, "model", str(model), "--context", "32768")
    assert (shown["fitting_layers"], shown["of_layers"], shown["context"]) == (15, 33, 32768)
    assert (shown["model_context"], shown["margin_bytes"]) == (131072, GIB)
    assert shown["gpu"] == {
        "index": 0,
        "name": shown["gpu"]["name"],
        "target": "gfx1030",
        "total_bytes": 8 * GIB,
        "free_bytes": 7 * GIB,
    }
    layers = {layer["ngl"]: layer for layer in shown["layers"]}
    assert [layer["layer"] for layer in shown["layers"]] == list(range(32))
    assert (layers[15]["fits"], layers[16]["fits"]) == (True, False)
    assert layers[15]["needed_bytes"] <= 6 * GIB < layers[16]["needed_bytes"]
    assert {layer["cache_bytes"] for layer in shown["layers"]} == {128 * MIB}
    assert shown["needed_bytes"] == (
        sum(layer["weights_bytes"] + layer["cache_bytes"] for layer in shown["layers"])
        + shown["output_bytes"]
        + shown["graph_bytes"]
    )
    assert all(way["everything"] and way["layers"] == 33 for way in shown["ways"])


def test_a_model_that_fits_causes_no_suggestions(tmp_path: Path) -> None:
    root = machine(tmp_path / "card", memory=16 * GIB, used=0)
    done = mem(root, "model", str(eight_billion(tmp_path / "m.gguf")), "--context", "8192")
    assert "33 of 33 layers fit" in done.stdout
    assert "`-ngl 33`" in done.stdout
    assert "no setting" not in done.stdout
    assert "more layers fit with" not in done.stdout


def test_weights_too_large_for_any_setting_are_reported(tmp_path: Path) -> None:
    root = machine(tmp_path / "card", memory=4 * GIB, used=0)
    done = mem(root, "model", str(eight_billion(tmp_path / "m.gguf")))
    assert "the whole model does not fit with any setting" in done.stdout
    shown = document(root, "model", str(tmp_path / "m.gguf"))
    assert [way["everything"] for way in shown["ways"]] == [False]


def test_a_model_is_estimated_without_a_gpu(tmp_path: Path, bare: Path) -> None:
    model = eight_billion(tmp_path / "m.gguf")
    done = mem(bare, "model", str(model), "--context", "8192")
    assert done.returncode == 0
    assert "the whole model needs 5.6 GiB" in done.stdout
    assert "`-ngl" not in done.stdout
    assert "no usable GPU" in done.stderr
    shown = document(bare, "model", str(model), "--context", "8192")
    assert (shown["gpu"], shown["fitting_layers"], shown["ways"]) == (None, None, [])
    assert {layer["fits"] for layer in shown["layers"]} == {None}


def test_a_model_is_estimated_if_free_memory_is_unknown(tmp_path: Path) -> None:
    model = llama(tmp_path / "m.gguf")
    root = machine(tmp_path / "card", memory=16 * GIB, used=0)
    for name in ("mem_info_vram_total", "mem_info_vram_used"):
        next(root.glob(f"sys/bus/pci/devices/*/{name}")).unlink()
    done = mem(root, "model", str(model))
    assert done.returncode == 0
    assert "the free memory on GPU 0 is unknown" in done.stderr
    assert "the whole model needs" in done.stdout


def test_a_model_that_cannot_be_estimated_shows_the_reason(tmp_path: Path, bare: Path) -> None:
    file = Writer(tmp_path / "vision.gguf", "clip")
    file.keys.add_type("mmproj")
    path = file.tensor("v.patch_embd.weight", (1024, 1024)).close()
    done = mem(bare, "model", str(path))
    assert done.returncode == 0
    assert "clip; 4 MiB of weights" in done.stdout
    assert (
        "cannot determine how many layers fit:\n  it is not a complete model: its type is mmproj"
        in done.stdout
    )
    shown = document(bare, "model", str(path))
    assert (shown["of_layers"], shown["cache_bytes"], shown["layers"]) == (None, None, [])
    assert len(shown["unknown"]) == 2


def test_an_incomplete_download_is_reported(tmp_path: Path, bare: Path) -> None:
    model = llama(tmp_path / "m.gguf")
    os.truncate(model, 1 << 20)
    done = mem(bare, "model", str(model))
    assert done.returncode == 0
    assert "the download is incomplete" in done.stderr
    assert document(bare, "model", str(model))["missing_bytes"] > 900 * MIB


def test_json_contains_the_same_notes_as_the_text(tmp_path: Path, bare: Path) -> None:
    model = str(eight_billion(tmp_path / "m.gguf"))
    shown = document(bare, "model", model, "--context", "200000")
    assert shown["notes"] == mem(bare, "model", model, "--context", "200000").stderr.splitlines()
    for words in ("no usable GPU", "trained for a context of 131,072", "without flash attention"):
        assert any(words in note for note in shown["notes"]), words


def test_a_note_lists_arguments_that_require_a_newer_llama_cpp(tmp_path: Path) -> None:
    root = machine(tmp_path / "card", memory=8 * GIB, used=GIB)
    model = str(eight_billion(tmp_path / "m.gguf"))
    shown = document(root, "model", model, "--context", "32768")
    assert any("-fa" in way["arguments"] for way in shown["ways"])
    assert any("`-fa`" in note for note in shown["notes"])


def test_a_model_name_with_a_line_break_is_shown_on_one_line(tmp_path: Path, bare: Path) -> None:
    done = mem(bare, "model", str(eight_billion(tmp_path / "a\nall 33 layers fit.gguf")))
    assert done.stdout.splitlines()[0] == "a all 33 layers fit.gguf"


def test_model_names_cannot_control_the_terminal(tmp_path: Path, bare: Path) -> None:
    file = Writer(tmp_path / "m.gguf", "llama\x1b]0;x\x07" + "a" * 500)
    file.keys.add_string("general.type", "\x1b[2J")
    done = mem(bare, "model", str(file.tensor("a", (1,)).close()))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) < 200


def test_files_that_are_not_models_have_error_codes(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    done = mem(bare, "model", str(tmp_path / "m.gguf"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "gguf-not"
    done = mem(bare, "model", str(tmp_path / "none.gguf"))
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr

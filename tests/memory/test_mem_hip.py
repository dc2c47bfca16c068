"""`rocenv mem` with an env, where figures from a fake HIP runtime are combined with those from the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.host.roots import GIB
from tests.memory.machines import RX_7900, Machine, card
from tests.memory.models import llama

if TYPE_CHECKING:
    from tests.mini import Mini


def memory_with_hip(mini: Mini, machine: Machine, **environ: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    done = mini.run("mem", "demo", "--json", ROCENV_SYSROOT=str(machine.path), **environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document["gpus"][0], document


def test_the_smaller_of_two_figures_is_used_and_explained(mini: Mini, machine: Machine) -> None:
    card(machine, used=10 * GIB).process(1, "init")
    size, used = str(24 * GIB), str(1 * GIB)
    gpu, _ = memory_with_hip(mini, machine, ROCENV_STANDIN_MEMORY=size, ROCENV_STANDIN_USED=used)
    assert gpu["hip"] == {"total_bytes": 24 * GIB, "free_bytes": 23 * GIB}
    assert (gpu["free_bytes"], gpu["source"]) == (14 * GIB, "sysfs and HIP")
    assert any("9.0 GiB more free memory" in note for note in gpu["notes"])
    used = str(20 * GIB)
    gpu, _ = memory_with_hip(mini, machine, ROCENV_STANDIN_MEMORY=size, ROCENV_STANDIN_USED=used)
    assert gpu["free_bytes"] == 4 * GIB


def test_figures_from_the_kernel_are_used_if_hip_finds_no_gpu(mini: Mini, machine: Machine) -> None:
    card(machine, used=10 * GIB).process(1, "init")
    gpu, document = memory_with_hip(mini, machine, ROCENV_STANDIN_DEVICES="0")
    assert (gpu["free_bytes"], gpu["hip"]) == (14 * GIB, None)
    assert any("could not query HIP in `demo`" in note for note in document["notes"])


def test_a_hip_gpu_that_matches_no_gpu_of_the_machine_is_ignored(mini: Mini, machine: Machine) -> None:
    card(machine, used=10 * GIB).process(1, "init")
    env = {"ROCENV_STANDIN_ADDRESS": "0000:99:00.0", "ROCENV_STANDIN_MEMORY": "2GiB"}
    gpu, document = memory_with_hip(mini, machine, **env)
    assert (gpu["free_bytes"], gpu["hip"]) == (14 * GIB, None)
    assert any("at 0000:99:00.0 with" in note for note in document["notes"])
    assert "HIP in `demo` does not list GPU 0" in document["notes"]


def test_each_partition_gets_its_own_figures(mini: Mini, machine: Machine) -> None:
    machine.process(1, "init").kernel().cpu()
    for node in (1, 2):
        machine.gpu(node, RX_7900, 110000, bus=3, memory=12 * GIB)
    env = {
        "ROCENV_STANDIN_DEVICES": "2",
        "ROCENV_STANDIN_ADDRESS": "0000:03:00.0,0000:03:00.0",
        "ROCENV_STANDIN_MEMORY": "12GiB,10GiB",
        "ROCENV_STANDIN_USED": "0",
    }
    _, document = memory_with_hip(mini, machine, **env)
    assert [gpu["hip"]["free_bytes"] for gpu in document["gpus"]] == [12 * GIB, 10 * GIB]


def test_mem_model_uses_the_free_memory_reported_by_hip(mini: Mini, machine: Machine, tmp_path: Path) -> None:
    card(machine, used=0).process(1, "init")
    model = str(llama(tmp_path / "m.gguf", layers=2))
    env: dict[str, Any] = {"ROCENV_STANDIN_MEMORY": "3GiB", "ROCENV_STANDIN_USED": "0"}
    env["ROCENV_SYSROOT"] = str(machine.path)
    done = mini.run("mem", "model", model, "demo", "--json", **env)
    document = json.loads(done.stdout)
    assert document["gpu"]["free_bytes"] == 3 * GIB
    assert any("HIP reports 21.0 GiB less" in note for note in document["notes"])
    done = mini.run("mem", "model", model, "nobody", "--json", **env)
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "env-missing")


def put_setting(mini: Mini) -> None:
    """Write a setting for a program named `some`."""
    source = 'status = "tested"\nsource = "x"\nchecked = "2026-11-22"\n'
    row = '[[setting]]\nprogram = "some"\nkey = "k"\ntitle = "t"\ntext = "x"\nwhere = "variable"\n'
    values = 'variables = ["A"]\nvalue = "1"\n'
    (Path(mini.env["ROCENV_PROFILES"]) / "settings.toml").write_text(f"schema = 1\n{row}{values}{source}")


def test_settings_for_an_env_mention_the_env(mini: Mini, machine: Machine) -> None:
    card(machine)
    put_setting(mini)
    done = mini.run("mem", "settings", "some", "demo", ROCENV_SYSROOT=str(machine.path))
    assert done.returncode == 0, done.stderr
    assert "GPU 0, " in done.stdout
    assert "Variables for `rocenv launch demo` or `rocenv run demo`:\n  export A='1'\n" in done.stdout


def test_settings_for_an_env_match_the_envs_gpu(mini: Mini, machine: Machine) -> None:
    """Outside the env, programs use the larger card, for which the settings are unsuitable."""
    put_setting(mini)
    machine.kernel().cpu()
    machine.gpu(1, 0x73BF, 100300, units=80, bus=3, memory=24 * GIB)
    machine.gpu(2, RX_7900, 110000, units=96, bus=4, memory=8 * GIB)
    for words in (("demo",), ()):
        done = mini.run("mem", "settings", "some", *words, "--json", ROCENV_SYSROOT=str(machine.path))
        document = json.loads(done.stdout)
        found = (document["gpu"], document["target"], document["total_bytes"])
        assert found == ((1, "gfx1100", 8 * GIB) if words else (0, "gfx1030", 24 * GIB))

"""`rocenv mem` with an env: the runtime's figure beside the kernel's, from the stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.host.roots import GIB
from tests.loopback import Loopback
from tests.memory.machines import Machine, card
from tests.mini import Mini
from tests.probe.conftest import SOURCES, compile_library

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mini]:
    """A world with one env, whose HIP is the stand-in."""
    built = tmp_path_factory.mktemp("built")
    hip, blas = built / "libamdhip64.so.5", built / "librocblas.so.3"
    compile_library(hip, SOURCES / "hip.c", SOURCES / "hiprtc.c")
    compile_library(blas, SOURCES / "rocblas.c", hip)
    libraries = {"hip": hip.read_bytes(), "hiprtc": hip.read_bytes(), "rocblas": blas.read_bytes()}
    root = tmp_path_factory.mktemp("a home with spaces")
    with Loopback(folder=root / "www") as server:
        made = Mini.build(root, server, libraries)
        made.create("demo")
        del made.env["ROCENV_TARGET"]
        yield made


def told(mini: Mini, machine: Machine, **environ: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    done = mini.run("mem", "demo", "--json", ROCENV_SYSROOT=str(machine.path), **environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document["gpus"][0], document


def test_the_smaller_of_both_and_why(mini: Mini, machine: Machine) -> None:
    card(machine, used=10 * GIB).process(1, "init")
    size, used = str(24 * GIB), str(1 * GIB)
    gpu, _ = told(mini, machine, ROCENV_STANDIN_MEMORY=size, ROCENV_STANDIN_USED=used)
    assert gpu["hip"] == {"total_bytes": 24 * GIB, "free_bytes": 23 * GIB}
    assert (gpu["free_bytes"], gpu["source"]) == (14 * GIB, "sysfs and HIP")
    assert any("9.0 GiB more than is free" in note for note in gpu["notes"])
    used = str(20 * GIB)
    gpu, _ = told(mini, machine, ROCENV_STANDIN_MEMORY=size, ROCENV_STANDIN_USED=used)
    assert gpu["free_bytes"] == 4 * GIB


def test_a_runtime_that_sees_no_gpu_does_not_keep_the_kernels_word(mini: Mini, machine: Machine) -> None:
    card(machine, used=10 * GIB).process(1, "init")
    gpu, document = told(mini, machine, ROCENV_STANDIN_DEVICES="0")
    assert (gpu["free_bytes"], gpu["hip"]) == (14 * GIB, None)
    assert any("HIP of `demo` was asked too, and says nothing" in note for note in document["notes"])


def test_settings_for_an_env_go_by_what_is_in_it(mini: Mini, machine: Machine) -> None:
    card(machine)
    source = 'status = "tested"\nsource = "x"\nchecked = "2026-11-22"\n'
    row = '[[knob]]\nprogram = "some"\nkey = "k"\ntitle = "t"\ntext = "x"\nwhere = "variable"\n'
    values = 'variables = ["A"]\nvalue = "1"\n'
    (Path(mini.env["ROCENV_PROFILES"]) / "knobs.toml").write_text(f"schema = 1\n{row}{values}{source}")
    done = mini.run("mem", "demo", "--for", "some", ROCENV_SYSROOT=str(machine.path))
    assert done.returncode == 0, done.stderr
    assert "variables, for `rocenv launch demo` or `rocenv run demo`:\n  export A='1'\n" in done.stdout

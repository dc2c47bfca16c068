"""The parts of the torch rung that work without a GPU, in separate interpreters."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import RungResult
from rocenv.probe import ladder

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.probe.wire import Runtime
    from tests.probe.conftest import Rig


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    return folder


def install(venv: Path, torch: str) -> None:
    """Install this code as the venv's torch, or remove torch if it is ""."""
    module = next(venv.glob("lib/python*/site-packages")) / "torch.py"
    module.unlink(missing_ok=True)
    if torch:
        module.write_text(torch)


def run(rig: Rig, venv: Path, torch: str, runtime: Runtime = "hip") -> RungResult:
    """Run the rung with this code as the venv's torch."""
    install(venv, torch)
    probe = rig.probe()
    task = replace(probe.task, runtime=runtime)
    return ladder.run_rung(replace(probe, task=task, torch_python=(str(venv / "bin" / "python"),)), "torch")


HEAD = "from types import SimpleNamespace as N\n__version__ = '2.5.1'\n"
CUDA = HEAD + "version = N(hip=None, cuda='11.8')\n"


@pytest.mark.parametrize(
    ("torch", "status", "detail"),
    [
        ("", "failed", "cannot import torch: ModuleNotFoundError"),
        ("raise OSError('libamdhip64.so: cannot open')", "failed", "OSError: libamdhip64.so: cannot open"),
        ("import os; os.abort()", "crashed", "crashed: SIGABRT"),
        ("import time; time.sleep(60)", "timeout", "no result within 1.5 s"),
        (HEAD + "version = N(hip=None)", "failed", "torch 2.5.1 is not a ROCm build"),
        (
            HEAD + "version = N(hip='6.2')\ncuda = N(is_available=lambda: False)\nprint('noise')",
            "skipped",
            "no GPU here: torch 2.5.1 sees none",
        ),
        (
            HEAD
            + "version = N(hip='6.2')\ncuda = N(is_available=lambda: True)\nmanual_seed = lambda seed: 1/0",
            "failed",
            "torch 2.5.1: ZeroDivisionError",
        ),
    ],
)
def test_an_unusable_torch_build_is_reported_with_the_reason(
    rig: Rig, venv: Path, torch: str, status: str, detail: str
) -> None:
    result = run(rig.hurried(), venv, torch)
    assert result.status == status, result
    assert detail in result.detail
    assert result.no_device == (status == "skipped")


GPU = """
cuda = N(is_available=lambda: True, get_device_name=lambda index: {name!r})
manual_seed = lambda seed: 1/0
"""
NO_CUDA = "torch 2.5.1 is not a CUDA build, which ZLUDA needs"


@pytest.mark.parametrize(
    ("torch", "status", "detail"),
    [
        (
            HEAD + "version = N(hip='6.2', cuda=None)",
            "failed",
            NO_CUDA,
        ),
        (
            HEAD + "version = N(hip=None, cuda=None)",
            "failed",
            NO_CUDA,
        ),
        (CUDA + "cuda = N(is_available=lambda: False)", "skipped", "no GPU here: torch 2.5.1 sees none"),
        (
            CUDA + GPU.format(name="NVIDIA GeForce RTX 4090"),
            "failed",
            "torch 2.5.1 runs on `NVIDIA GeForce RTX 4090`",
        ),
        (CUDA + GPU.format(name="AMD Radeon RX 6750 XT [ZLUDA]"), "failed", "torch 2.5.1: ZeroDivisionError"),
    ],
)
def test_a_torch_build_for_zluda_must_load_zluda(
    rig: Rig, venv: Path, torch: str, status: str, detail: str
) -> None:
    result = run(rig, venv, torch, "cuda")
    assert result.status == status, result
    assert detail in result.detail


@pytest.mark.parametrize(("devices", "status"), [("1", "failed"), ("0", "skipped")])
def test_a_torch_that_does_not_find_the_existing_gpu_fails(
    rig: Rig, venv: Path, devices: str, status: str
) -> None:
    install(venv, HEAD + "version = N(hip='6.2')\ncuda = N(is_available=lambda: False)")
    probe = replace(rig.probe(ROCENV_STANDIN_DEVICES=devices), torch_python=(str(venv / "bin" / "python"),))
    passed = RungResult(rung="files", status="passed", elapsed_s=0.0, detail="")
    results = ladder.run_ladder(probe, ("load", "device", "torch"), files=lambda: passed)
    assert results[-1].status == status
    assert results[-1].no_device == (status == "skipped"), "a GPU exists, so the rung must not be skipped"
    assert ("but `device` found one" in results[-1].detail) == (status == "failed")


def test_the_torch_rung_runs_even_if_the_sets_own_runtime_fails(rig: Rig, venv: Path) -> None:
    install(venv, "")
    probe = replace(
        rig.probe(ROCENV_STANDIN_FAIL="load.hip=segv"), torch_python=(str(venv / "bin" / "python"),)
    )
    passed = RungResult(rung="files", status="passed", elapsed_s=0.0, detail="")
    results = ladder.run_ladder(probe, ("load", "torch"), files=lambda: passed)
    assert [result.status for result in results] == ["crashed", "failed"]

"""ROCm as Python wheels on Windows: from the first command to an env that is repaired and built again."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.amd_binaries import WINDOWS
from tests.amd_index import AmdIndex
from tests.wheels.test_rocm_wheels import CONSTRAINTS, write_settings
from tests.windows.conftest import answer
from tests.windows.lab import PYTHON_TAG, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.windows.conftest import Lane
    from tests.windows.lab import Done

pytestmark = pytest.mark.windows

HOME = r"C:\ro cenv"
CREATE = ["--rocm", "10.0", "--torch", "--target", "gfx1151"]
ENV = {"ROCENV_HOME": HOME, "ROCENV_TARGET": "gfx1151", "ROCENV_STANDIN_TARGET": "gfx1151"}
SITE = "venv/Lib/site-packages"


class Machine:
    """A Windows with a Radeon 8060S, whose mirrors lead to AMD's indices on loopback."""

    def __init__(self, lane: Lane, index: AmdIndex) -> None:
        self.lane = lane
        self.index = index
        self.home = lane.lab.wine / "drive_c" / "ro cenv"

    def rocenv(self, *argv: str, **env: str) -> Done:
        [done] = self.lane.rocenv(list(argv), **(ENV | env))
        return done

    def prefix(self, name: str) -> Path:
        return self.home / "envs" / name


@pytest.fixture(scope="module")
def sd(lane: Lane) -> Iterator[Machine]:
    """A machine on which `sd` was created, as a newcomer would."""
    with AmdIndex(platforms=(WINDOWS,), pythons=(PYTHON_TAG,)) as index:
        machine = Machine(lane, index)
        shutil.rmtree(machine.home, ignore_errors=True)
        write_settings(machine.home, index)
        created = machine.rocenv("create", "sd", *CREATE, "-y")
        assert created.code == 0, created.text
        assert "OK up to `torch` for gfx1151" in created.err
        yield machine


def test_the_plan_lists_every_file(sd: Machine) -> None:
    """`resolve` shows what `create` downloads and which hashes are known; offline, only the set."""
    planned = sd.rocenv("resolve", *CREATE)
    lock = json.loads((sd.prefix("sd") / "rocenv.lock").read_text())
    for part in lock["components"]:
        assert f"{len(part['artifacts'])} packages, " in planned.out
    assert "sha256 known for" in planned.out
    assert "the first download records others: amd-torch-device-gfx1151" in planned.out
    alone = answer(sd.rocenv("resolve", *CREATE, "--json", ROCENV_HOME=r"C:\never used", ROCENV_OFFLINE="1"))
    assert [part["artifacts"] for part in alone["components"]] == [[], []]
    assert any("could not download the package lists" in note for note in alone["notes"])


def test_the_set_is_the_native_one_and_comes_from_the_env(sd: Machine) -> None:
    """`verify` proves the whole ladder with the env's own libraries, not with those of the driver."""
    report = answer(sd.rocenv("verify", "sd", "--json"))
    assert report["level"] == "torch"
    assert [rung["rung"] for rung in report["rungs"]] == [
        *("files", "load", "version", "compile", "device", "memory", "kernel", "gemm", "blas", "torch"),
    ]
    lock = json.loads((sd.prefix("sd") / "rocenv.lock").read_text())
    names = {each["name"] for part in lock["components"] for each in part["artifacts"]}
    assert {"rocm", "rocm-sdk-device-gfx1151", "amd-torch-device-gfx115x"} <= names
    assert "triton" not in names, "AMD has none for Windows"


def test_activation_points_at_the_wheels(sd: Machine) -> None:
    """`activate.bat` sets ROCM_PATH, HIP_PATH and the constraints, whatever an older HIP SDK has left."""
    script = sd.home / "activation.bat"
    script.write_text(
        rf'@call "{HOME}\envs\sd\activate.bat"'
        "\n@set\n@echo @after\n"
        rf'@call "{HOME}\envs\sd\bin\deactivate.bat"'
        "\n@set PIP\n@set HIP_PATH\n"
    )
    inherited = "C:\\Program Files\\AMD\\ROCm\\5.7\\"
    [done] = sd.lane.run(Step(["cmd", "/c", rf"{HOME}\activation.bat"], env={**ENV, "HIP_PATH": inherited}))
    active, _, after = done.out.partition("\n@after\n")
    found = dict(line.split("=", 1) for line in active.splitlines() if "=" in line)
    core = rf"{HOME}\envs\sd\venv\Lib\site-packages\_rocm_sdk_core"
    assert found["HIP_PATH"].rstrip("\\") == core
    assert found["ROCM_PATH"] == core
    assert found["PIP_CONSTRAINT"] == f"file:///C:/ro%20cenv/envs/sd/{CONSTRAINTS}"
    assert found["UV_CONSTRAINT"] == found["PIP_CONSTRAINT"]
    assert not [name for name in found if name.startswith("HIP_PATH_")]
    assert after.strip().splitlines()[-1] == f"HIP_PATH={inherited}"
    assert not [line for line in after.splitlines() if line.startswith("PIP_CONSTRAINT=")]


def test_pip_keeps_torch(sd: Machine) -> None:
    """`pip install torch==2.14` is refused, and pip names the build that the env keeps."""
    done = sd.rocenv("run", "sd", "--", "python", "-m", "pip", "install", "--no-index", "torch==2.14.0")
    assert done.code == 1
    assert "2.13.0+rocm10.0.0" in done.text


def test_damage_is_repaired_and_the_set_is_built_again_offline(sd: Machine) -> None:
    """`repair`, `lock`, `create --from` and a second `create`, without a connection."""
    library = sd.prefix("sd") / SITE / "_rocm_sdk_core/bin/amdhip64_7.dll"
    good = library.read_bytes()
    library.unlink()
    before = len(sd.index.requests)
    repaired = answer(sd.rocenv("repair", "sd", "--json", ROCENV_OFFLINE="1"))
    assert [each["path"] for each in repaired["repaired"]] == [f"{SITE}/_rocm_sdk_core/bin/amdhip64_7.dll"]
    assert library.read_bytes() == good
    assert sd.rocenv("lock", "sd", "-o", rf"{HOME}\sd.lock").code == 0
    rebuilt = ("create", "again", "--from", rf"{HOME}\sd.lock", "--no-verify", "-y")
    assert sd.rocenv(*rebuilt, ROCENV_OFFLINE="1").code == 0
    assert sd.rocenv("create", "anew", *CREATE, "--no-verify", "-y", ROCENV_OFFLINE="1").code == 0
    assert len(sd.index.requests) == before
    for name in ("again", "anew"):
        assert answer(sd.rocenv("verify", name, "--upto", "compile", "--json"))["level"] == "compile"

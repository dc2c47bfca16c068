"""An env with ROCm as Python wheels on Windows: created, verified, activated, repaired and rebuilt."""

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
from tests.windows.mirror_app import LAUNCH, stand_in_app

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
RADEON = {"ROCENV_TARGET": "gfx1201", "ROCENV_STANDIN_TARGET": "gfx1201"}
SDK = "C:\\Program Files\\AMD\\ROCm\\5.7\\"  # the HIP_PATH of an older HIP SDK
# Without --skip-torch, the app installs its own torch; it always installs its requirements.
INSTALLER = """
import subprocess, sys
pip = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", "."]
if "--skip-torch" not in sys.argv:
    subprocess.run([*pip, "--force-reinstall", "--no-deps", "torch==2.14.0"], check=True)
print("requirements:", subprocess.run([*pip, "-r", "requirements.txt"]).returncode, flush=True)
"""


class Machine:
    """A Windows machine with a Radeon 8060S, whose mirrors are copies of AMD's indexes on loopback."""

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
    """A machine on which a new user has created `sd`."""
    with AmdIndex(platforms=(WINDOWS,), pythons=(PYTHON_TAG,)) as index:
        machine = Machine(lane, index)
        shutil.rmtree(machine.home, ignore_errors=True)
        write_settings(machine.home, index)
        created = machine.rocenv("create", "sd", *CREATE, "-y")
        assert created.code == 0, created.text
        assert "OK up to `torch` for gfx1151" in created.err
        yield machine


@pytest.fixture(scope="module")
def radeon(sd: Machine) -> Machine:
    """A machine with an RX 9070 XT, and envs with ROCm 7.2 and 6.4 from AMD's wheels for Radeon."""
    for name, version in (("r72", "7.2"), ("r64", "6.4.4")):
        options = ("--rocm", version, "--torch", "--channel", "radeon-windows")
        created = sd.rocenv("create", name, *options, "--target", "gfx1201", "-y", **RADEON)
        assert created.code == 0, created.text
        assert "OK up to `torch` for gfx1201" in created.err
    return sd


def test_the_plan_contains_every_file(sd: Machine) -> None:
    """`resolve` lists the downloads and the known hashes; offline, it shows only the set."""
    planned = sd.rocenv("resolve", *CREATE)
    lock = json.loads((sd.prefix("sd") / "rocenv.lock").read_text())
    for part in lock["components"]:
        assert f"{len(part['artifacts'])} packages, " in planned.out
    assert "sha256 known for" in planned.out
    assert "the first download records the rest: amd-torch-device-gfx1151" in planned.out
    alone = answer(sd.rocenv("resolve", *CREATE, "--json", ROCENV_HOME=r"C:\never used", ROCENV_OFFLINE="1"))
    assert [part["artifacts"] for part in alone["components"]] == [[], []]
    assert any("the package lists could not be downloaded" in note for note in alone["notes"])


def test_verify_passes_with_the_envs_own_libraries(sd: Machine) -> None:
    """`verify` passes every rung with libraries from the env instead of the driver."""
    report = answer(sd.rocenv("verify", "sd", "--json"))
    assert report["level"] == "torch"
    assert [rung["rung"] for rung in report["rungs"]] == [
        *("files", "load", "version", "compile", "device", "memory", "kernel", "gemm", "blas", "torch"),
    ]
    lock = json.loads((sd.prefix("sd") / "rocenv.lock").read_text())
    names = {each["name"] for part in lock["components"] for each in part["artifacts"]}
    assert {"rocm", "rocm-sdk-device-gfx1151", "amd-torch-device-gfx115x"} <= names
    assert "triton" not in names, "AMD does not publish triton for Windows"


def test_activation_points_to_the_wheels(sd: Machine) -> None:
    """`activate.bat` sets ROCM_PATH, HIP_PATH and the constraints, even if an older HIP SDK set HIP_PATH."""
    script = sd.home / "activation.bat"
    script.write_text(
        rf'@call "{HOME}\envs\sd\activate.bat"'
        "\n@set\n@echo @after\n"
        rf'@call "{HOME}\envs\sd\bin\deactivate.bat"'
        "\n@set PIP\n@set HIP_PATH\n"
    )
    [done] = sd.lane.run(Step(["cmd", "/c", rf"{HOME}\activation.bat"], env={**ENV, "HIP_PATH": SDK}))
    active, _, after = done.out.partition("\n@after\n")
    found = dict(line.split("=", 1) for line in active.splitlines() if "=" in line)
    core = rf"{HOME}\envs\sd\venv\Lib\site-packages\_rocm_sdk_core"
    assert found["HIP_PATH"].rstrip("\\") == core
    assert found["ROCM_PATH"] == core
    assert found["PIP_CONSTRAINT"] == f"file:///C:/ro%20cenv/envs/sd/{CONSTRAINTS}"
    assert found["UV_CONSTRAINT"] == found["PIP_CONSTRAINT"]
    assert not [name for name in found if name.startswith("HIP_PATH_")]
    assert after.strip().splitlines()[-1] == f"HIP_PATH={SDK}"
    assert not [line for line in after.splitlines() if line.startswith("PIP_CONSTRAINT=")]


def test_pip_cannot_replace_torch(sd: Machine) -> None:
    """`pip install torch==2.14` fails, and pip shows the env's build."""
    done = sd.rocenv("run", "sd", "--", "python", "-m", "pip", "install", "--no-index", "torch==2.14.0")
    assert done.code == 1
    assert "2.13.0+rocm10.0.0" in done.text


def test_repair_and_rebuild_work_offline(sd: Machine) -> None:
    """`repair`, `lock`, `create --from` and a second `create` work without a connection."""
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


def test_radeon_wheels_come_from_their_releases_folder(radeon: Machine) -> None:
    """ROCm 7.2 comes from its release's folder; pip cannot replace it, and HIP_PATH points to it."""
    prefix = radeon.prefix("r72")
    lock = json.loads((prefix / "rocenv.lock").read_text())
    urls = {each["name"]: each["url"] for part in lock["components"] for each in part["artifacts"]}
    folder = "https://repo.radeon.com/rocm/windows/rocm-rel-7.2.1/"
    assert {name for name, url in urls.items() if url.startswith(folder)} == {
        *("rocm", "rocm-sdk-core", "rocm-sdk-libraries-custom", "torch", "torchvision", "torchaudio"),
    }
    constraints = (prefix / CONSTRAINTS).read_text()
    assert "torch==2.9.1+rocmsdk20260116" in constraints
    assert "rocm-sdk-core==7.2.1" in constraints
    shown = radeon.rocenv("run", "r72", "--", "cmd", "/c", "echo", "%HIP_PATH%", HIP_PATH=SDK)
    assert shown.out.strip() == rf"{HOME}\envs\r72\venv\Lib\site-packages\_rocm_sdk_core" + "\\"


def test_a_torch_that_contains_rocm_does_not_use_a_hip_sdk(radeon: Machine) -> None:
    """torch contains ROCm 6.4.4's libraries, so activation unsets HIP_PATH and reports that."""
    script = radeon.home / "inside.bat"
    script.write_text(f'@call "{HOME}\\envs\\r64\\activate.bat"\n@set HIP_PATH\n')
    [done] = radeon.lane.run(Step(["cmd", "/c", rf"{HOME}\inside.bat"], env={**ENV, "HIP_PATH": SDK}))
    assert "HIP_PATH=" not in done.out
    assert "replaced until you deactivate the env: HIP_PATH\n" in done.err
    assert "torch==2.8.0a0+gitfc14c65" in (radeon.prefix("r64") / CONSTRAINTS).read_text()


def test_compilers_leave_the_env_unchanged_and_can_be_repaired(sd: Machine) -> None:
    """`create --dev` unpacks the compilers, so that the first `hipcc` does not change the env."""
    created = sd.rocenv("create", "dev", "--rocm", "10.0", "--dev", "--no-verify", "-y")
    assert created.code == 0, created.text
    site = sd.prefix("dev") / SITE
    assert not list((site / "rocm_sdk_devel").glob("_devel.tar*"))
    assert "ROCm 10.0.0" in sd.rocenv("run", "dev", "--", "hipcc", "--version").out
    assert answer(sd.rocenv("verify", "dev", "--upto", "files", "--json"))["level"] == "files"
    kernels = "rocblas/library/Kernels.so-000-gfx1151.hsaco"
    lost = [f"_rocm_sdk_libraries/bin/{kernels}", "_rocm_sdk_devel/lib/rocm_static.lib"]
    for name in lost:
        (site / name).unlink()
    repaired = sd.rocenv("repair", "dev", "--json")
    assert repaired.code == 0, repaired.text
    assert {each["path"] for each in answer(repaired)["repaired"]} == {f"{SITE}/{name}" for name in lost}
    assert (site / lost[0]).samefile(site / "_rocm_sdk_devel/bin" / kernels)
    assert answer(sd.rocenv("verify", "dev", "--upto", "files", "--json"))["level"] == "files"


def test_an_app_runs_with_the_envs_torch(sd: Machine) -> None:
    """`rocenv launch sd -- webui.bat` prevents the app's installer and pip from replacing torch."""
    app = stand_in_app(sd.home / "an app")
    (app / "launch.py").write_text(f"import installer\n{LAUNCH}", encoding="utf-8")
    (app / "installer.py").write_text(INSTALLER)
    (app / "requirements.txt").write_text("torch==2.14.0\n")
    argv = [sd.lane.lab.rocenv, "launch", "sd", "--", "webui.bat"]
    [done] = sd.lane.run(Step(argv, env=ENV, cwd=rf"{HOME}\an app"))
    assert done.code == 0, done.text
    assert "added `--skip-torch` to keep the env's torch" in done.err
    assert "requirements: 1" in done.out
    assert "(constraint) torch==2.13.0+rocm10.0.0" in done.out
    assert "Torch: 2.13.0+rocm10.0.0" in done.out
    assert rf"rocblas.dll: {HOME}\envs\sd\venv\Lib\site-packages\_rocm_sdk_libraries\bin" in done.out
    assert "Sum: 64.0" in done.out

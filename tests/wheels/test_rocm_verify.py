"""`verify` and `doctor` on broken envs with ROCm wheels, and the commands that fix them."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.data.load import load
from rocenv.prefix import Prefix
from rocenv.probe.setup import probe_of
from tests.amd_index import AmdIndex
from tests.wheels.test_rocm_wheels import CREATE, World, _plain_wheel, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TARGET = "gfx1151"
UNCONSTRAINED = {"PIP_CONSTRAINT": "", "UV_CONSTRAINT": ""}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A home with an `sd` env that contains ROCm 10.0.0 and torch; each test restores it."""
    with AmdIndex() as index:
        amd = world(tmp_path_factory.mktemp("amd"), index)
        amd.run("create", "sd", *CREATE, "--no-verify", "-y")
        yield amd


def rungs(amd: World, *options: str, **env: str) -> dict[str, dict[str, Any]]:
    found = json.loads(amd.run("verify", "sd", *options, "--json", ok=False, **env).stdout)
    return {rung["rung"]: rung for rung in found["rungs"]}


@contextlib.contextmanager
def added(path: Path, content: bytes) -> Iterator[Path]:
    path.write_bytes(content)
    try:
        yield path
    finally:
        path.unlink()


# ---------------------------------------------------------------- the load rung


def test_the_load_rung_fails_if_rocm_sdk_finds_a_different_library(made: World) -> None:
    """Like PyTorch, `rocm_sdk` uses the first of several matching files."""
    library = made.site("sd") / "_rocm_sdk_core" / "lib" / "libamdhip64.so.7"
    with added(library.with_suffix(".6"), b"left by an older release") as other:
        load_ = rungs(made, "--upto", "load")["load"]
    assert load_["status"] == "failed"
    for named in (f"`{other}`", f"`{library}`", "`rocm-sdk-core`", "`rocenv repair sd`"):
        assert named in load_["detail"]
    assert rungs(made, "--upto", "load")["load"]["status"] == "passed"


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("import sys; sys.modules['rocm_sdk'] = None", "(rocm_sdk: ModuleNotFoundError"),
        ("import sys; sys.modules['_rocm_sdk_core'] = None", "(amdhip64: ModuleNotFoundError"),
        (
            "import rocm_sdk; rocm_sdk.__version__ = '10.1.0'",
            "package `rocm` is 10.1.0, but the lock has 10.0.0",
        ),
        ("import os; os._exit(3)", "exited with code 3 in `rocm_sdk`"),
    ],
)
def test_the_load_rung_fails_if_rocm_sdk_cannot_find_a_library(made: World, line: str, detail: str) -> None:
    with added(made.site("sd") / "zz.pth", line.encode()):
        load_ = rungs(made, "--upto", "load")["load"]
    assert load_["status"] == "failed"
    assert detail in load_["detail"]
    if "Module" in detail:
        assert "package `rocm-sdk-core` provides it; `rocenv repair sd`" in load_["detail"]


def test_the_load_rung_fails_with_a_runtime_from_outside_the_env(made: World, tmp_path: Path) -> None:
    folder = made.site("sd") / "_rocm_sdk_core" / "lib"
    other = tmp_path / "libamdhip64.so.7"
    shutil.copy(folder / other.name, other)
    load_ = rungs(made, "--upto", "load", LD_PRELOAD=str(other), LD_LIBRARY_PATH=str(folder))["load"]
    assert load_["status"] == "failed"
    assert f"from outside the env: {other}" in load_["detail"]


def test_only_rocm_libraries_must_come_from_the_env(made: World, tmp_path: Path) -> None:
    """A wheel may bundle the Windows C++ runtime, which the system also has."""
    prefix = Prefix(made.prefix("sd"))
    c_library = load().c_library[0]
    probe = probe_of(prefix, prefix.record(), c_library, target=TARGET, work_dir=tmp_path, timeout_s=1)
    known = set(probe.task.known)
    assert {"libamdhip64.so.7", "librocm_sysdeps_liblzma.so.5", "librocblas.so.5"} <= known
    assert "libtorch_hip.so" not in known


# ---------------------------------------------------------------- the blas and torch rungs


def test_missing_kernels_are_listed_with_the_command_that_adds_them(made: World) -> None:
    env = {"ROCENV_STANDIN_TARGET": "gfx1201", "ROCENV_STANDIN_FAIL": "sgemm=error:6"}
    found = rungs(made, "--target", "gfx1201", **env)
    assert found["gemm"]["status"] == "passed"
    for rung, packages in (
        ("blas", "`rocm-sdk-device-gfx1201` would provide them"),
        ("torch", "`rocm-sdk-device-gfx1201`, `amd-torch-device-gfx1201`, `amd-torchvision-device-gfx1201`"),
    ):
        assert found[rung]["status"] == "failed"
        assert packages in found[rung]["detail"]
        command = shlex.split(found[rung]["detail"].rpartition(": `")[2].rstrip("`"))
        assert command[:3] == ["rocenv", "create", "sd2"]
        assert f"{TARGET},gfx1201" in command
        made.run("resolve", *command[3:])


def test_a_torch_that_returns_zeros_fails(made: World) -> None:
    """Torch can be broken even if it imports and its calls return no errors."""
    done = made.run("verify", "sd", "--json", ok=False, ROCENV_STANDIN_FAIL="sgemm=zero")
    report = json.loads(done.stdout)
    torch = next(rung for rung in report["rungs"] if rung["rung"] == "torch")
    assert torch["status"] == "failed"
    assert "matmul: all 65536 elements are 0" in torch["detail"]
    assert "there are no kernels" not in torch["detail"]
    assert not report["advice"], "this set has no known problems"


# ---------------------------------------------------------------- packages that pip replaced


def test_a_torch_replaced_by_pip_is_reported_and_restored(made: World, tmp_path: Path) -> None:
    page = tmp_path / "pypi"
    page.mkdir()
    _plain_wheel(page, "torch", "2.13.0+cu130")
    python = str(made.prefix("sd") / "venv" / "bin" / "python")
    install = (python, "-m", "pip", "install", "--no-index", f"--find-links={page}", "torch==2.13.0+cu130")
    subprocess.run(install, env={**made.env, **UNCONSTRAINED}, check=True, capture_output=True, timeout=60)
    files = rungs(made, "--upto", "files")["files"]
    assert "package `torch` is 2.13.0+cu130, but the lock has 2.13.0+rocm10.0.0" in files["detail"]
    [finding] = findings(made)
    assert (finding["check"], finding["code"]) == ("env_torch_replaced", "torch-wrong-wheel")
    assert "torch: 2.13.0+cu130" in json.dumps(finding)
    made.run("repair", "sd")
    assert findings(made) == []
    assert rungs(made, "--upto", "files")["files"]["status"] == "passed"


def test_mixed_rocm_releases_are_reported_and_fixed(made: World) -> None:
    python = str(made.prefix("sd") / "venv" / "bin" / "python")
    page = f"{made.index.url}/stable/rocm/whl-next/"
    install = (python, "-m", "pip", "install", "--no-deps", f"--index-url={page}", "rocm-sdk-core==10.1.0")
    subprocess.run(install, env={**made.env, **UNCONSTRAINED}, check=True, capture_output=True, timeout=60)
    [finding] = findings(made)
    assert (finding["check"], finding["code"]) == ("env_rocm_mixed", "mixed-rocm-installs")
    assert "rocm-sdk-core: 10.1.0, lock: 10.0.0" in json.dumps(finding)
    assert finding["remedy"]["commands"] == ["rocenv repair sd", "rocenv create sd2 --rocm 10.1.0"]
    made.run("repair", "sd")
    assert findings(made) == []


@pytest.mark.parametrize(("version", "shown"), [("main", "main"), ("", "ENOENT")])
def test_a_package_without_a_version_is_reported_as_different_from_the_lock(
    made: World, version: str, shown: str
) -> None:
    with added(made.site("sd") / f"rocm_sdk_core-{version}.dist-info", b""):
        [finding] = findings(made)
    assert finding["check"] == "env_rocm_mixed"
    assert f"rocm-sdk-core: {shown}, lock: 10.0.0" in json.dumps(finding)
    assert finding["remedy"]["commands"] == ["rocenv repair sd"]


def findings(amd: World) -> list[dict[str, Any]]:
    checks = ("--check", "env_torch_replaced", "--check", "env_rocm_mixed")
    found: list[dict[str, Any]] = amd.json("doctor", "sd", *checks, ok=False)["findings"]
    return found

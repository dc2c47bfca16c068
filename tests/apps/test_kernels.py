"""Kernels for Debian's real Blender, compiled by a real clang and loaded by that Blender."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.prefix import Prefix
from rocenv.system.files import remove_tree
from tests.apps.studio import Studio, build

if TYPE_CHECKING:
    from tests.apps.conftest import Rocenv

# Targets and their numbers in LLVM; each takes about a minute to compile.
TARGETS = {"gfx1201": 0x4E, "gfx1100": 0x41}
KERNELS = 75
USED = "Path tracing on: Stand-in GPU (HIP)"
DEBUG = ("--debug-cycles", "--log-level", "debug", "--python-exit-code", "3")
ON_GPU = (
    "import bpy; p = bpy.context.preferences.addons['cycles'].preferences; p.compute_device_type = 'HIP'; "
    "p.get_devices(); [setattr(d, 'use', d.type == 'HIP') for d in p.devices]"
)


@pytest.fixture(scope="module")
def art(blender_env: str, apps_home: Path) -> Prefix:
    """The env with Blender, before any kernel is built."""
    for folder in (apps_home / "cache" / "kernels", apps_home / "kernels"):
        remove_tree(folder)
    return Prefix(apps_home / "envs" / blender_env)


@pytest.fixture(scope="module")
def studio(art: Prefix, tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """The same Blender without its HIP runtime, with a scene."""
    return Studio.make(art, tmp_path_factory.mktemp("kernels with a space"))


@pytest.fixture(scope="module")
def built(rocenv: Rocenv, art: Prefix) -> dict[str, dict[str, Any]]:
    """The JSON output of each target's build."""
    return {target: _build(rocenv, "--env", art.name, "--target", target) for target in TARGETS}


def _build(rocenv: Rocenv, *args: str) -> dict[str, Any]:
    done = rocenv("kernels", "build", "blender", *args, "--json", timeout_s=900)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _render(starter: Path, scene: Path, target: str, hip: Path) -> str:
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(starter.parent),
        "XDG_CACHE_HOME": str(starter.parent),
        "LD_LIBRARY_PATH": str(hip),
        "ROCENV_STANDIN_TARGET": target,
    }
    frame = str(starter.parent / "frame")
    words = [str(starter), "-b", str(scene), *DEBUG, "--python-expr", ON_GPU, "-o", frame, "-f", "1"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that contains the fake HIP runtime."""
    return build(tmp_path_factory.mktemp("hip")).parent


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_is_compiled_for_its_target(built: dict[str, dict[str, Any]], target: str) -> None:
    answer = built[target]
    assert (answer["compiled_now"], answer["version"].startswith("5.")) == (True, True)
    assert answer["elf_flags"] & 0xFF == TARGETS[target]
    if answer["version"].startswith("5.2."):
        assert answer["kernels"] == KERNELS
    assert answer["kernels"] > KERNELS // 2
    assert answer["placed"]["place"] == "overlay"


@pytest.mark.parametrize("target", TARGETS)
def test_blender_loads_the_compiled_kernel_from_the_overlay(
    built: dict[str, dict[str, Any]], studio: Studio, hip: Path, tmp_path: Path, target: str
) -> None:
    placed = built[target]["placed"]
    resources = Path(placed["environment"]["BLENDER_SYSTEM_RESOURCES"])
    starter = studio.starter(tmp_path / "blender", resources)
    log = _render(starter, studio.scene, target, hip)
    assert f"Testing for pre-compiled kernel {placed['file']}." in log
    assert "Using precompiled kernel." in log
    assert "Compiling HIP kernel" not in log
    assert log.count("Loaded kernel: ") > KERNELS // 2
    assert USED in log


def test_blender_does_not_find_the_kernel_without_the_overlay(
    studio: Studio, hip: Path, tmp_path: Path
) -> None:
    log = _render(studio.starter(tmp_path / "blender"), studio.scene, "gfx1201", hip)
    assert "Neither precompiled kernels nor HIPCC was found" in log
    assert USED not in log


def test_a_second_build_reuses_the_kernel(
    rocenv: Rocenv, art: Prefix, built: dict[str, dict[str, Any]]
) -> None:
    begin = time.monotonic()
    answer = _build(rocenv, "--blender", str(art.bin / "blender"), "--target", "gfx1201")
    assert time.monotonic() - begin < 15
    assert answer["compiled_now"] is False
    assert answer["sha256"] == built["gfx1201"]["sha256"]


def test_an_overlay_is_small_and_can_be_removed(
    rocenv: Rocenv, art: Prefix, built: dict[str, dict[str, Any]]
) -> None:
    placed = built["gfx1201"]["placed"]
    start = Path(placed["start"])
    version = subprocess.run([start, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert version.stdout.startswith(f"Blender {built['gfx1201']['version']}")
    resources = Path(placed["environment"]["BLENDER_SYSTEM_RESOURCES"])
    files = [path for path in resources.rglob("*") if not path.is_symlink() and path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000 * len(TARGETS)
    done = rocenv("kernels", "build", "blender", "--blender", start, "--undo")
    assert done.returncode == 0
    assert not os.path.lexists(resources)


def test_building_hiprt_kernels_for_a_blender_without_hiprt_is_an_error(rocenv: Rocenv, art: Prefix) -> None:
    done = rocenv("kernels", "build", "blender", "--env", art.name, "--target", "gfx1201", "--hiprt")
    assert done.returncode == 1
    assert "was built without HIP-RT" in done.stderr
    out = ("--output", str(art.path / "never"))
    done = rocenv("kernels", "build", "blender", "--env", art.name, "--target", "gfx1201", "--hiprt", *out)
    assert done.returncode == 1
    assert "https://github.com/GPUOpen-LibrariesAndSDKs/HIPRT" in done.stderr

"""Cycles kernels of Debian's real Blender, compiled with a real clang, and used by that Blender."""

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

# Target -> its number in the flags of a code object. Each takes about a minute to compile.
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
    """The env with Blender, without any compiled kernels."""
    for folder in (apps_home / "cache" / "kernels", apps_home / "kernels"):
        remove_tree(folder)
    return Prefix(apps_home / "envs" / blender_env)


@pytest.fixture(scope="module")
def studio(art: Prefix, tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """The same Blender without its HIP runtime, and a scene."""
    return Studio.make(art, tmp_path_factory.mktemp("kernels with a space"))


@pytest.fixture(scope="module")
def built(rocenv: Rocenv, art: Prefix) -> dict[str, dict[str, Any]]:
    """The results of building the kernel for each target."""
    return {target: _build(rocenv, "--env", art.name, "--target", target) for target in TARGETS}


def _build(rocenv: Rocenv, *args: str) -> dict[str, Any]:
    done = rocenv("kernels", "build", "blender", *args, "--json", timeout_s=900)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _render(starter: Path, scene: Path, target: str, hip: Path, cache: str, path: str) -> str:
    environ = {
        "PATH": f"{path}:/usr/bin:/bin",
        "HOME": str(starter.parent),
        "XDG_CACHE_HOME": cache,
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
    """The folder of a fake HIP runtime."""
    return build(tmp_path_factory.mktemp("hip")).parent


@pytest.mark.parametrize("target", TARGETS)
def test_compiles_a_kernel_for_the_target(built: dict[str, dict[str, Any]], target: str) -> None:
    told = built[target]
    assert (told["compiled_now"], told["version"].startswith("5.")) == (True, True)
    assert told["elf_flags"] & 0xFF == TARGETS[target]
    if told["version"].startswith("5.2."):
        assert told["kernels"] == KERNELS
    assert told["kernels"] > KERNELS // 2
    assert told["placed"]["place"] == "cache"


@pytest.mark.parametrize("target", TARGETS)
def test_blender_loads_it_from_its_cache(
    built: dict[str, dict[str, Any]], studio: Studio, hip: Path, tmp_path: Path, target: str
) -> None:
    placed = built[target]["placed"]
    starter = studio.starter(tmp_path / "blender")
    log = _render(starter, studio.scene, target, hip, placed["cache_home"], placed["path"][0])
    assert f"Testing for locally compiled kernel {placed['file']}." in log
    assert "Using locally compiled kernel." in log
    assert "Compiling HIP kernel" not in log
    assert log.count("Loaded kernel: ") > KERNELS // 2
    assert USED in log


def test_blender_ignores_its_cache_without_a_compiler_on_path(
    built: dict[str, dict[str, Any]], studio: Studio, hip: Path, tmp_path: Path
) -> None:
    """This is why `rocenv launch` puts a compiler on PATH."""
    starter = studio.starter(tmp_path / "blender")
    log = _render(starter, studio.scene, "gfx1201", hip, built["gfx1201"]["placed"]["cache_home"], "/nowhere")
    assert "Neither precompiled kernels nor HIPCC was found" in log
    assert USED not in log


def test_a_second_call_is_fast(rocenv: Rocenv, art: Prefix, built: dict[str, dict[str, Any]]) -> None:
    begin = time.monotonic()
    told = _build(rocenv, "--blender", str(art.bin / "blender"), "--target", "gfx1201")
    assert time.monotonic() - begin < 15
    assert told["compiled_now"] is False
    assert told["sha256"] == built["gfx1201"]["sha256"]


def test_overlay_is_small_and_blender_takes_its_kernel(
    rocenv: Rocenv, art: Prefix, built: dict[str, dict[str, Any]], studio: Studio, hip: Path, tmp_path: Path
) -> None:
    told = _build(rocenv, "--env", art.name, "--target", "gfx1201", "--place", "overlay")
    assert told["sha256"] == built["gfx1201"]["sha256"]
    start = Path(told["placed"]["start"])
    version = subprocess.run([start, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert version.stdout.startswith(f"Blender {told['version']}")
    resources = Path(told["placed"]["environment"]["BLENDER_SYSTEM_RESOURCES"])
    files = [path for path in resources.rglob("*") if not path.is_symlink() and path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    starter = studio.starter(tmp_path / "blender", resources)
    log = _render(starter, studio.scene, "gfx1201", hip, str(tmp_path), "/nowhere")
    assert f"Testing for pre-compiled kernel {told['placed']['file']}." in log
    assert "Using precompiled kernel." in log
    assert USED in log
    done = rocenv("kernels", "build", "blender", "--blender", start, "--place", "overlay", "--undo")
    assert done.returncode == 0
    assert not os.path.lexists(resources)


def test_program_without_ray_tracing_is_told(rocenv: Rocenv, art: Prefix) -> None:
    done = rocenv("kernels", "build", "blender", "--env", art.name, "--target", "gfx1201", "--hiprt")
    assert done.returncode == 1
    assert "was built without HIP-RT" in done.stderr
    out = ("--output", str(art.path / "never"))
    done = rocenv("kernels", "build", "blender", "--env", art.name, "--target", "gfx1201", "--hiprt", *out)
    assert done.returncode == 1
    assert "https://github.com/GPUOpen-LibrariesAndSDKs/HIPRT" in done.stderr

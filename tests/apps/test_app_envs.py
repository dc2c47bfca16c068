"""Distribution apps in an env, which find their files in the prefix."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from rocenv.activate.bin_scripts import write_start_scripts, write_wrappers
from rocenv.core.model import Program
from rocenv.prefix import Prefix, library_folders

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apps.conftest import Rocenv

ASK_BLENDER = """
import json, sys
import bpy, numpy, _cycles
print("found", json.dumps([sys.prefix, bpy.utils.resource_path("SYSTEM"), numpy.__file__]))
"""


def test_llama_cpp_starts_and_loads_its_hip_backend(rocenv: Rocenv, llama_env: str) -> None:
    done = rocenv("run", llama_env, "--", "llama-cli", "--list-devices")
    assert done.returncode == 0
    assert "Available devices:" in done.stdout + done.stderr
    # Only the HIP backend prints this. Without that backend, the program would list no devices but
    # still exit with 0.
    assert "no ROCm-capable device is detected" in done.stdout + done.stderr


def test_llama_cpp_loads_only_the_envs_libraries(rocenv: Rocenv, llama_env: str, apps_home: Path) -> None:
    done = rocenv("run", llama_env, "--", "llama-cli", "--list-devices", env={"LD_DEBUG": "files"})
    loaded = [
        line.rpartition("calling init: ")[2] for line in done.stderr.splitlines() if "calling init" in line
    ]
    tree = str(apps_home / "envs" / llama_env / "rocm")
    mine = [path for path in loaded if "libggml-hip" in path or "librocblas" in path or "libamdhip64" in path]
    assert len(mine) >= 3, loaded
    assert all(path.startswith(tree) for path in mine)


def test_blender_finds_its_files_its_python_and_numpy(
    rocenv: Rocenv, blender_env: str, apps_home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "ask.py"
    script.write_text(ASK_BLENDER)
    words = ["blender", "-b", "--factory-startup", "--python-exit-code", "7", "--python", str(script)]
    done = rocenv("run", blender_env, "--", *words)
    assert done.returncode == 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("found "))
    tree = str(apps_home / "envs" / blender_env / "rocm" / "usr")
    prefix, resources, numpy = json.loads(line.removeprefix("found "))
    assert prefix == tree
    assert resources == f"{tree}/share/blender"
    assert numpy.startswith(tree)
    assert "Traceback" not in done.stdout + done.stderr


def test_the_env_passes_verify_and_records_its_app(rocenv: Rocenv, blender_env: str) -> None:
    assert json.loads(rocenv("show", blender_env, "--json").stdout)["app"] == "blender"
    assert rocenv("verify", blender_env, "--upto", "compile").returncode == 0


def test_debian_sid_is_used_only_on_request(rocenv: Rocenv) -> None:
    done = rocenv("resolve", "--rocm", "6.4", "--target", "gfx1100", "--app", "blender", "--json")
    found = json.loads(done.stdout)
    assert found["components"][0]["channel"] != "debian-sid"
    assert "Blender is not included" in found["notes"][0]
    assert "--channel debian-sid" in found["notes"][0]


def test_a_script_from_an_installed_package_starts(llama_env: str, apps_home: Path, tmp_path: Path) -> None:
    """If LD_LIBRARY_PATH contained the env's C library, the system's shell would crash."""
    prefix = Prefix(apps_home / "envs" / llama_env)
    record = prefix.record()
    loader, folders = prefix.path / record.loader, library_folders(prefix, record.lock)
    script = tmp_path / "tool"
    script.write_text('#!/bin/sh\necho "$1" "$(llama-cli --version 2>&1 | head -n 1)"\n')
    script.chmod(0o755)
    folder = tmp_path / "bin"
    folder.mkdir()
    write_wrappers(folder, loader=loader, library_dirs=folders)
    program = Program(path="usr/bin/tool")
    (script,) = write_start_scripts(
        folder, program, script, tree=prefix.path / "rocm", loader=loader, library_dirs=folders
    )
    path = os.pathsep.join((str(prefix.bin), os.defpath))
    done = subprocess.run(
        [script, "one two"], env={"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("one two version: "), done.stdout

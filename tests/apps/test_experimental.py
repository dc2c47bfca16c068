"""ROCm 7.2 from Debian experimental, the newest real set that passes all rungs that need no GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apps.conftest import Rocenv

HIP_VERSION = """
import ctypes
version = ctypes.c_int()
assert ctypes.CDLL("libamdhip64.so.7").hipRuntimeGetVersion(ctypes.byref(version)) == 0
print(version.value)
"""


def test_every_check_that_does_not_need_a_gpu_passes(rocenv: Rocenv, rocm72_env: str) -> None:
    done = rocenv("verify", rocm72_env, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["level"]) == (4, "compile"), "a missing GPU is neither success nor failure"
    rungs = {each["rung"]: each for each in found["rungs"]}
    assert rungs["version"]["detail"].startswith("hip 7.2.")
    assert rungs["device"]["status"] == "skipped"


def test_verify_compiles_for_a_target_other_than_the_envs(rocenv: Rocenv, rocm72_env: str) -> None:
    done = rocenv("verify", rocm72_env, "--upto", "compile", "--target", "gfx942")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_in_the_env_uses_the_envs_runtime(rocenv: Rocenv, rocm72_env: str) -> None:
    done = rocenv("run", rocm72_env, "--", "python3", "-c", HIP_VERSION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("702"), "70253211 is HIP 7.2"


def test_the_lock_recreates_the_same_set(rocenv: Rocenv, rocm72_env: str, tmp_path: Path) -> None:
    lock = tmp_path / "d72.lock"
    assert rocenv("lock", rocm72_env, "-o", lock).returncode == 0
    rocenv("remove", "-y", "d72-again")
    assert rocenv("create", "d72-again", "--from", lock, "-y", "--offline", "--no-verify").returncode == 0
    again = tmp_path / "again.lock"
    assert rocenv("lock", "d72-again", "-o", again).returncode == 0
    assert rocenv("remove", "-y", "d72-again").returncode == 0
    assert again.read_bytes() == lock.read_bytes()

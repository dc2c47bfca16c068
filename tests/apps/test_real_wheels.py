"""`verify` without a GPU, on real ROCm libraries from wheels that use AMD's layout.

`tests/amd_real.py` repackages Debian's libraries, because AMD's index is unreachable on many networks.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rocenv.prefix import Prefix
from rocenv.sources.apt.version import upstream
from tests import amd_real
from tests.amd_index import AmdIndex
from tests.network import cannot_run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apps.conftest import Rocenv

TARGET = "gfx1201"
WHERE_FROM = """
import ctypes, os, _rocm_sdk_libraries
folder = os.path.dirname(_rocm_sdk_libraries.__file__)
ctypes.CDLL(folder + "/lib/librocblas.so.5")
for line in open("/proc/self/maps"):
    path = line.split(maxsplit=5)[-1].strip()
    if ".so" in path and "/lib/" in path:
        print(path)
"""


@pytest.fixture(scope="module")
def wheels_home(
    rocenv: Rocenv, apps_home: Path, rocm72_env: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A ROCENV_HOME with a `wheels` env that contains the real libraries as wheels."""
    if shutil.which("patchelf") is None:
        cannot_run("patchelf is not installed")
    debian = Prefix(apps_home / "envs" / rocm72_env)
    (part,) = debian.record().lock.components
    # The set names a series, but wheels need an exact release.
    version = next(upstream(each.version) for each in part.artifacts if each.name == "libamdhip64-7")
    home = tmp_path_factory.mktemp("real wheels") / "home"
    with AmdIndex() as index:
        index.write_mirrors(home)
        index.add(amd_real.wheels(debian.path / "rocm" / "usr", version, TARGET))
        (home / "profiles").mkdir()
        (home / "profiles" / "real.toml").write_text(amd_real.row(version, TARGET, part.glibc))
        options = ["--rocm", version, "--channel", "therock", "--target", TARGET]
        done = rocenv("create", "wheels", *options, "-y", "--no-verify", env={"ROCENV_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def wheels(rocenv: Rocenv, wheels_home: Path) -> Rocenv:
    """A callable that runs the real program with that ROCENV_HOME."""
    return partial(rocenv, env={"ROCENV_HOME": str(wheels_home)})


def test_the_real_libraries_load_report_their_version_and_compile(wheels: Rocenv) -> None:
    done = wheels("verify", "wheels", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["level"]) == (4, "compile"), done.stdout
    rungs = {each["rung"]: each for each in found["rungs"]}
    assert {rungs[name]["status"] for name in ("files", "load", "version", "compile")} == {"passed"}
    assert rungs["load"]["detail"].endswith("from the env only, where `rocm_sdk` finds them")
    assert rungs["version"]["detail"].startswith("hip 7.2.")


def test_libraries_find_each_other_by_their_runpath(wheels: Rocenv) -> None:
    """The loader finds LLVM and the system libraries only through the RUNPATH in the files."""
    done = wheels("run", "wheels", "--", "python", "-c", WHERE_FROM)
    assert done.returncode == 0, done.stderr
    packages = "/envs/wheels/venv/lib/python"
    loaded = {path.rpartition("/")[2]: path for path in done.stdout.split()}
    for name in ("libamdhip64.so.7", "libhsa-runtime64.so.1", "libdrm.so.2", "libstdc++.so.6", "libc.so.6"):
        assert packages in loaded[name], loaded
    assert "/lib/rocm_sysdeps/lib/" in loaded["libdrm.so.2"]


def test_the_venvs_programs_start_through_the_loader(wheels: Rocenv) -> None:
    done = wheels("run", "wheels", "--", "rocm-sdk", "version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("7.2.")


def test_a_truncated_library_is_detected_and_repaired(wheels: Rocenv, wheels_home: Path) -> None:
    packages = "envs/wheels/venv/lib/python*/site-packages"
    (comgr,) = wheels_home.glob(f"{packages}/_rocm_sdk_core/lib/libamd_comgr.so.3")
    start = comgr.read_bytes()[: comgr.stat().st_size // 2]
    comgr.unlink()
    comgr.write_bytes(start)
    done = wheels("verify", "wheels", "--upto", "compile")
    assert done.returncode == 1
    assert "libamd_comgr.so.3" in done.stdout
    assert wheels("repair", "wheels").returncode == 0
    assert wheels("verify", "wheels", "--upto", "compile").returncode == 0

"""`rocenv verify` as a user runs it: an env made by `create` from packages that hold the stand-in."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.loopback import Loopback
from tests.mini import Mini
from tests.probe.conftest import SOURCES, compile_library

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

LADDER = ["files", "load", "version", "compile", "device", "memory", "kernel", "gemm", "blas"]


@pytest.fixture(scope="session")
def standin_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The stand-in as HIP 6.4: hipRTC is a library of its own."""
    folder = tmp_path_factory.mktemp("standin")
    built = {
        "hip": folder / "libamdhip64.so.6",
        "hiprtc": folder / "libhiprtc.so.6",
        "rocblas": folder / "librocblas.so.6",
    }
    compile_library(built["hip"], "-DSTANDIN_HIP_VERSION=60443484", SOURCES / "hip.c")
    compile_library(built["hiprtc"], SOURCES / "hiprtc.c")
    compile_library(built["rocblas"], SOURCES / "rocblas.c", built["hip"])
    return {role: path.read_bytes() for role, path in built.items()}


@pytest.fixture
def world(tmp_path: Path, standin_libraries: dict[str, bytes]) -> Iterator[Mini]:
    """The mini world whose 6.4 set, which brings a C library of its own, is the stand-in."""
    root = tmp_path / "a home with spaces"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        mini = Mini.build(root, server, standin_libraries)
        profile = root / "profiles" / "mini.toml"
        profile.write_text(profile.read_text().replace('hip = "6.4.3"', 'hip = "6.4"'))
        yield mini


def rungs(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {rung["rung"]: rung for rung in json.loads(done.stdout)["rungs"]}


def test_whole_ladder_under_the_loader_of_the_env(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    assert json.loads((world.prefix("demo") / ".rocenv/record.json").read_text())["loader"]
    saved = world.root / "saved"
    done = world.run("verify", "demo", "--json", "--save-artifacts", str(saved))
    assert done.returncode == 0, done.stdout + done.stderr
    found = rungs(done)
    assert list(found) == LADDER
    assert {rung["status"] for rung in found.values()} == {"passed"}
    assert json.loads(done.stdout)["level"] == "blas"
    assert "STAND-IN" in found["gemm"]["detail"], "a stand-in must never pass for a GPU"
    assert "GFLOP/s" in found["blas"]["detail"]
    code = (saved / "sgemm_gfx1100.co").read_bytes()
    assert code.startswith(b"\x7fELF")
    assert "sgemm" in (saved / "sgemm.hip").read_text()
    assert (saved / "verify.json").exists()
    listed = json.loads(world.run("list", "--json").stdout)
    assert listed["envs"][0]["verified"] == "blas"


@pytest.mark.parametrize(
    ("fault", "rung", "status", "exit_code"),
    [
        ("load.hip=segv", "load", "crashed", 1),
        ("version=wrong", "version", "failed", 1),
        ("compile=abort", "compile", "crashed", 1),
        ("malloc=oom:1024", "memory", "failed", 1),
        ("kernel=hang", "kernel", "timeout", 1),
        ("gemm=wrong1", "gemm", "failed", 1),
        ("sgemm=nan", "blas", "failed", 1),
    ],
)
def test_fault_is_a_result_of_its_rung_and_of_no_other(
    world: Mini, fault: str, rung: str, status: str, exit_code: int
) -> None:
    world.create("demo", "--rocm", "6.4")
    options = ("--timeout", "1.5") if status == "timeout" else ()
    done = world.run("verify", "demo", "--json", *options, ROCENV_STANDIN_FAIL=fault)
    assert done.returncode == exit_code
    found = rungs(done)
    assert found[rung]["status"] == status, found[rung]
    before = LADDER[: LADDER.index(rung)]
    assert all(found[each]["status"] == "passed" for each in before)
    assert json.loads(done.stdout)["level"] == before[-1]
    assert "Traceback" not in done.stderr


def test_no_gpu_is_exit_code_4_and_nothing_wrong(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", ROCENV_STANDIN_DEVICES="0")
    assert done.returncode == 4
    assert "nothing is wrong" in done.stderr
    assert "no GPU" in done.stdout


def test_upto_stops_there(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", "--upto", "version", "--json", ROCENV_STANDIN_DEVICES="0")
    assert done.returncode == 0, "no rung that needs a GPU was asked for"
    assert list(rungs(done)) == LADDER[:3]


def test_libraries_of_the_machine_do_not_leak_in(
    world: Mini, tmp_path: Path, standin_libraries: dict[str, bytes]
) -> None:
    foreign = tmp_path / "opt" / "rocm" / "lib"  # LD_PRELOAD splits at spaces
    foreign.mkdir(parents=True)
    for name in ("libamdhip64.so.6", "librocblas.so.6"):
        (foreign / name).write_bytes(standin_libraries["hip" if "hip" in name else "rocblas"])
    world.create("demo", "--rocm", "6.4")
    listed = world.run("verify", "demo", "--upto", "load", "--json", LD_LIBRARY_PATH=str(foreign))
    assert rungs(listed)["load"]["status"] == "passed", "the env's libraries come first"
    preloaded = world.run(
        "verify", "demo", "--upto", "load", "--json", LD_PRELOAD=str(foreign / "libamdhip64.so.6")
    )
    load = rungs(preloaded)["load"]
    assert load["status"] == "failed"
    assert str(foreign) in load["detail"], "the leak must be named"


def test_changed_file_is_found_and_put_back(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    library = next((world.prefix("demo") / "rocm").rglob("librocblas.so.6.*"))
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(content[:-1] + b"?")
    done = world.run("verify", "demo", "--json")
    found = rungs(done)
    assert done.returncode == 1
    assert found["files"]["status"] == "failed"
    assert library.name in found["files"]["detail"]
    assert {found[each]["status"] for each in LADDER[1:]} == {"skipped"}
    assert world.run("repair", "demo").returncode == 0
    assert library.read_bytes() == content
    assert os.stat(library).st_nlink > 1, "it is the store's file again"
    assert world.run("verify", "demo", "--upto", "blas").returncode == 0

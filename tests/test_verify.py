"""`rocenv verify` on the command line, on an env that `create` installs from packages with fake libraries."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.loopback import Loopback
from tests.mini import Mini
from tests.probe.conftest import compile_library, standin_libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LADDER = ["files", "load", "version", "compile", "device", "memory", "kernel", "gemm", "blas"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Mini]:
    """The simulated machine with a 6.4 set of fake libraries, including a C library."""
    root = tmp_path / "a home with spaces"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        mini = Mini.build(root, server, standin_libraries())
        profile = root / "profiles" / "mini.toml"
        profile.write_text(profile.read_text().replace('hip = "6.4.3"', 'hip = "6.4"'))
        yield mini


def rungs(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {rung["rung"]: rung for rung in json.loads(done.stdout)["rungs"]}


def test_the_whole_ladder_runs_under_the_envs_loader(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    assert json.loads((world.prefix("demo") / ".rocenv/record.json").read_text())["loader"]
    saved = world.root / "saved"
    done = world.run("verify", "demo", "--json", "--save-artifacts", str(saved))
    assert done.returncode == 0, done.stdout + done.stderr
    found = rungs(done)
    assert list(found) == LADDER
    assert {rung["status"] for rung in found.values()} == {"passed"}
    assert json.loads(done.stdout)["level"] == "blas"
    assert "STAND-IN" in found["gemm"]["detail"], "a fake must never pass for a GPU"
    assert "GFLOP/s" in found["blas"]["detail"]
    code = (saved / "sgemm_gfx1100.co").read_bytes()
    assert code.startswith(b"\x7fELF")
    assert "sgemm" in (saved / "sgemm.hip").read_text()
    assert (saved / "verify.json").exists()
    listed = json.loads(world.run("list", "--json").stdout)
    assert listed["envs"][0]["verified"] == "blas"
    work = world.root / os.fsdecode(b"no \xff UTF-8")
    work.mkdir()
    done = world.run("verify", "demo", "--json", "--upto", "compile", TMPDIR=str(work))
    assert done.returncode == 0, done.stdout + done.stderr


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
def test_a_fault_in_a_library_affects_only_its_rung(
    world: Mini, fault: str, rung: str, status: str, exit_code: int
) -> None:
    world.create("demo", "--rocm", "6.4")
    options = ("--timeout", "2") if status == "timeout" else ()
    done = world.run("verify", "demo", "--json", *options, ROCENV_STANDIN_FAIL=fault)
    assert done.returncode == exit_code
    found = rungs(done)
    assert found[rung]["status"] == status, found[rung]
    before = LADDER[: LADDER.index(rung)]
    assert all(found[each]["status"] == "passed" for each in before)
    assert json.loads(done.stdout)["level"] == before[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("node", ["gfx1100", "gfx1030"])
def test_an_env_for_two_targets_passes_on_nodes_with_either(world: Mini, node: str) -> None:
    world.create("demo", "--rocm", "6.4", "--target", "gfx1100,gfx1030")
    assert world.run("lock", "demo", "-o", "demo.lock").returncode == 0
    gpu: dict[str, Any] = {"ROCENV_TARGET": node, "ROCENV_STANDIN_TARGET": node}
    gpu["ROCENV_HOME"] = str(world.root / node)
    created = world.run("create", "demo", "--from", "demo.lock", "--json", **gpu)
    assert created.returncode == 0, created.stderr
    verified = json.loads(created.stdout)["verify"]
    assert (verified["target"], verified["level"]) == (node, "blas")
    assert node in next(each for each in verified["rungs"] if each["rung"] == "device")["detail"]
    assert json.loads(world.run("show", "demo", "--json", **gpu).stdout)["targets"] == ["gfx1100", "gfx1030"]
    other = world.run("verify", "demo", "--json", **(gpu | {"ROCENV_STANDIN_TARGET": "gfx1201"}))
    assert other.returncode == 1, "the env is not for this third kind of GPU"
    assert rungs(other)["device"]["status"] == "failed"


def test_a_missing_gpu_exits_with_4_but_is_not_a_fault(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", ROCENV_STANDIN_DEVICES="0")
    assert done.returncode == 4
    assert "The remaining checks need a usable AMD GPU" in done.stderr
    assert "matrix multiplication: no GPU here" in done.stdout, "the output explains `gemm`"


@pytest.mark.quick
def test_upto_stops_after_the_given_rung(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", "--upto", "version", "--json", ROCENV_STANDIN_DEVICES="0")
    assert done.returncode == 0, "no rung that needs a GPU was requested"
    assert list(rungs(done)) == LADDER[:3]


@pytest.mark.parametrize("target", ["nonsense", "gfx90a:xnack-", "../gfx1100"])
def test_an_invalid_target_is_rejected_before_anything_runs(world: Mini, target: str) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", "--target", target, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "target-unknown")
    assert f"`{target}` is not a " in done.stderr
    assert ("leave out `:xnack-`: `--target gfx90a`" in done.stderr) == (target == "gfx90a:xnack-")


def test_results_for_a_different_target_are_not_saved(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    assert world.run("verify", "demo", "--upto", "load").returncode == 0
    done = world.run("verify", "demo", "--upto", "compile", "--target", "gfx1030")
    assert "OK up to `compile` for gfx1030" in done.stderr
    assert json.loads(world.run("list", "--json").stdout)["envs"][0]["verified"] == "load"


def test_trace_lines_are_not_printed(world: Mini) -> None:
    world.create("two words", "--rocm", "6.4")
    done = world.run("verify", "two words", "--upto", "compile", ROCENV_STANDIN_FAIL="compile=abort")
    assert "SIGABRT in hiprtcCompileProgram" in done.stdout
    assert "rocenv: calling" not in done.stdout
    assert "does not work here for gfx1100: `compile` crashed" in done.stderr
    assert "`rocenv verify 'two words' --save-artifacts 'verify-two words'` keeps the logs" in done.stderr


def test_an_unwritable_folder_is_not_blamed_on_the_env(world: Mini, tmp_path: Path) -> None:
    world.create("demo", "--rocm", "6.4")
    done = world.run("verify", "demo", "--upto", "load", "--save-artifacts", "/proc")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: cannot write to the folder `/proc`" in done.stderr
    # Limit files to 512 bytes to simulate a full disk. Do not write bytecode, which would be truncated.
    limited = 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 exec "$@"'
    command = ["sh", "-c", limited, "sh", *world.command("verify", "demo", "--upto", "load")]
    full = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=30, check=False)
    assert (full.returncode, full.stdout) == (1, "")
    assert "cannot write to the folder" in full.stderr
    assert "TMPDIR" in full.stderr


def test_system_libraries_do_not_leak_into_the_env(world: Mini, tmp_path: Path) -> None:
    foreign = tmp_path / "opt" / "rocm" / "lib"  # no spaces, because the loader splits LD_PRELOAD at them
    foreign.mkdir(parents=True)
    for name in ("libamdhip64.so.6", "librocblas.so.6"):
        (foreign / name).write_bytes(standin_libraries()["hip" if "hip" in name else "rocblas"])
    world.create("demo", "--rocm", "6.4")
    listed = world.run("verify", "demo", "--upto", "load", "--json", LD_LIBRARY_PATH=str(foreign))
    assert rungs(listed)["load"]["status"] == "passed", "the env's libraries come first"
    preloaded = world.run(
        "verify", "demo", "--upto", "load", "--json", LD_PRELOAD=str(foreign / "libamdhip64.so.6")
    )
    load = rungs(preloaded)["load"]
    assert load["status"] == "failed"
    assert str(foreign) in load["detail"], "the leak must be reported"


@pytest.mark.parametrize("set_", ["5.7", "6.4"])
def test_an_optional_system_library_is_a_leak(world: Mini, tmp_path: Path, set_: str) -> None:
    """`rocenv run` would load the library even if the set has its own C library."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "optional.c").write_text("int optional(void) { return 1; }\n")
    compile_library(foreign / "liboptional.so", foreign / "optional.c")
    world.create("demo", "--rocm", set_)
    done = world.run("verify", "demo", "--upto", "load", "--json", LD_LIBRARY_PATH=str(foreign))
    load = rungs(done)["load"]
    assert load["status"] == "failed"
    assert f"from outside the env: {foreign / 'liboptional.so'}" in load["detail"]


def test_repair_restores_a_modified_file(world: Mini) -> None:
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
    assert os.stat(library).st_nlink > 1, "the env shares the file with the store again"
    assert world.run("verify", "demo", "--upto", "blas").returncode == 0


def test_a_field_report_contains_no_names(world: Mini) -> None:
    world.create("sd-of-marie", "--rocm", "6.4")
    file = world.root / "report.json"
    refused = world.run("verify", "sd-of-marie", "--report", str(file))
    assert (refused.returncode, refused.stdout) == (2, ""), "the report must not describe this machine"
    assert "unset ROCENV_SYSROOT ROCENV_TARGET" in refused.stderr
    del world.env["ROCENV_TARGET"], world.env["ROCENV_SYSROOT"]
    nowhere = world.run("verify", "sd-of-marie", "--report", str(world.root / "none" / "report.json"))
    assert (nowhere.returncode, nowhere.stdout) == (2, ""), "the report is announced before the ladder runs"
    done = world.run("verify", "sd-of-marie", "--report", str(file), USER="marie", HOSTNAME="maries-pc")
    assert done.returncode == 0, done.stderr
    assert f"wrote `{file}`" in done.stderr
    text = file.read_text()
    assert "sd-of-marie" not in text
    report = json.loads(text)
    assert report["set"]["components"][0]["version"] == "6.4.3"
    assert (report["set"]["target"], report["level"]) == ("gfx1100", "blas")
    assert [rung["rung"] for rung in report["rungs"]] == LADDER
    assert "STAND-IN" in text, "readers must see that no GPU was used"
    assert all("GFLOP/s" in rate for rate in report["figures"]["blas"])
    assert len(report["figures"]["blas"]) == 2, "the rungs test float32 and float16"
    assert report["machine"]["driver"]["kernel"] == os.uname().release
    assert "gpus" in report["machine"]
    again = world.run("verify", "sd-of-marie", "--report", str(file))
    assert "already exists" in again.stderr
    assert file.read_text() == text
    long = world.run("verify", "sd-of-marie", "--report", str(world.root / ("x" * 300)))
    assert long.returncode == 1
    assert "cannot write the report" in long.stderr
    assert "File name too long" in long.stderr


def test_a_report_about_a_failure_contains_no_names(world: Mini, tmp_path: Path) -> None:
    """Any library can add user names, host names and paths to the output of a rung."""
    foreign = tmp_path / "Anna Schmidt" / "lib"
    foreign.mkdir(parents=True)
    says = 'fputs("marie on maries-pc: /srv/Customers of Anna/x.log, /usr/lib/libm.so.6\\n", stderr);'
    constructor = f"__attribute__((constructor)) static void say(void) {{ {says} }}"
    (tmp_path / "optional.c").write_text(
        f"#include <stdio.h>\n{constructor}\nint optional(void) {{ return 1; }}\n"
    )
    compile_library(foreign / "liboptional.so", tmp_path / "optional.c")
    world.create("sd-of-marie", "--rocm", "6.4")
    del world.env["ROCENV_TARGET"], world.env["ROCENV_SYSROOT"]
    file = world.root / "report.json"
    world.env |= {"LD_LIBRARY_PATH": str(foreign), "USER": "marie", "HOSTNAME": "maries-pc"}
    done = world.run("verify", "sd-of-marie", "--upto", "load", "--report", str(file))
    assert done.returncode == 1
    text = file.read_text()
    for name in ("marie", "anna", "schmidt", "customers", str(tmp_path), str(world.root)):
        assert name.casefold() not in text.casefold(), name
    load = json.loads(text)["rungs"][1]
    assert load["detail"].endswith("from outside the env: …/liboptional.so")
    assert "user on host: …/x.log, /usr/lib/libm.so.6" in load["stderr"]

"""The complete ladder on the fakes, and every possible result of each rung."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rocenv.core.model import RungResult
from rocenv.probe import ladder
from tests.probe.conftest import Rig, Set, files_passed

CHILD_RUNGS = ("load", "version", "compile", "device", "memory", "kernel", "gemm", "blas")


@pytest.mark.parametrize("name", ["hip5", "hip6"])
def test_every_rung_passes_and_is_marked_as_a_fake(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    built: Set = request.getfixturevalue(name)
    results = Rig(built, tmp_path).walk()
    assert tuple(results) == ("files", *CHILD_RUNGS)
    for rung in CHILD_RUNGS:
        result = results[rung]
        assert (result.status, result.exit_code) == ("passed", 0), result
        assert result.detail.startswith("STAND-IN, not a GPU runtime: ")
    assert "gfx1100, 8.0 GiB, wave 32" in results["device"].detail
    assert f"hip {built.expected['hip']}." in results["version"].detail
    rates = re.findall(r"(float\d\d) within the bound, (\S+) GFLOP/s", results["blas"].detail)
    assert [precision for precision, _ in rates] == ["float32", "float16"]
    assert all(float(rate) > 0 for _, rate in rates)
    assert (tmp_path / "sgemm_gfx1100.co").stat().st_size > 64
    assert "__launch_bounds__(256)" in (tmp_path / "sgemm.hip").read_text()


# Faults of the fakes that affect the whole process, and the result that the parent reports.
ENDS = [
    ("load.hip=segv", "load", "crashed", "SIGSEGV in dlopen"),
    ("load.rocblas=exit:7", "load", "crashed", "exit code 7"),
    ("load.hip=exit:0", "load", "crashed", "ended without a result; it printed nothing"),
    ("load.rocblas=hang", "load", "timeout", "no result within 1.5 s in dlopen"),
    ("version=segv", "version", "crashed", "SIGSEGV in hipRuntimeGetVersion"),
    ("compile=abort", "compile", "crashed", "SIGABRT in hiprtcCompileProgram"),
    ("compile=exit:1", "compile", "crashed", "ended without a result: exit code 1"),
    ("kernel=segv", "kernel", "crashed", "SIGSEGV in hipModuleLaunchKernel"),
    ("sync=hang", "kernel", "timeout", "in hipDeviceSynchronize"),
]

# Values that the fakes return, the rung that uses them, and its result.
ANSWERS = [
    ("version=wrong", "version", "failed", "hip reports version 4.3.0, expected 5.7"),
    ("blasversion=wrong", "version", "failed", "rocblas reports version 1.0.0, expected 3.1"),
    ("version=error:999", "version", "failed", "hipRuntimeGetVersion returned 999 hipErrorUnknown"),
    (
        "compile=error:6",
        "compile",
        "failed",
        "hiprtcCompileProgram returned 6 HIPRTC_ERROR_COMPILATION for gfx1100",
    ),
    ("compile=error:6", "compile", "failed", "sgemm.hip:1:1: error: the stand-in was set to fail"),
    ("compile=wrong", "compile", "failed", "code for ELF machine 62"),
    ("init=error:35", "device", "failed", "hipInit returned 35"),
    ("count=error:999", "device", "failed", "hipGetDeviceCount returned 999"),
    ("props=error:1", "device", "failed", "hipGetDeviceProperties returned 1 hipErrorInvalidValue"),
    ("props=wrong", "device", "failed", "the GPU is gfx803, but the set is for gfx1100"),
    ("set=error:101", "device", "failed", "hipSetDevice returned 101"),
    ("malloc=error:2", "memory", "failed", "hipMalloc of 4096 bytes returned 2 hipErrorOutOfMemory"),
    ("malloc=oom:1000000", "memory", "failed", "hipMalloc of 16777216 bytes returned 2 hipErrorOutOfMemory"),
    ("upload=error:1", "memory", "failed", "hipMemcpy returned 1"),
    ("download=error:700", "memory", "failed", "hipMemcpy returned 700 hipErrorIllegalAddress"),
    ("free=error:17", "memory", "failed", "hipFree returned 17"),
    ("meminfo=error:1", "memory", "failed", "hipMemGetInfo returned 1"),
    ("download=wrong1", "memory", "failed", "1 of 4096 bytes came back wrong, the first at offset 2048"),
    ("upload=wrong", "memory", "failed", "4096 of 4096 bytes came back wrong"),
    ("download=unwritten", "memory", "failed", "bytes came back wrong"),
    ("module=error:209", "kernel", "failed", "hipModuleLoadData returned 209 hipErrorNoBinaryForGpu"),
    ("function=error:500", "kernel", "failed", "hipModuleGetFunction returned 500 hipErrorNotFound"),
    ("kernel=error:98", "kernel", "failed", "hipModuleLaunchKernel returned 98"),
    ("sync=error:719", "kernel", "failed", "hipDeviceSynchronize returned 719 hipErrorLaunchFailure"),
    ("unload=error:1", "kernel", "failed", "hipModuleUnload returned 1"),
    ("kernel=wrong", "kernel", "failed", "1024 of 1024 elements are wrong: C[0,0] = 32.125, expected 32"),
    ("kernel=wrong1", "kernel", "failed", "1 of 1024 elements are wrong: C[16,1]"),
    ("kernel=nan", "kernel", "failed", "= nan, expected 32"),
    ("kernel=unwritten", "kernel", "failed", "1024 of 1024 elements were never written"),
    ("gemm=error:719", "gemm", "failed", "hipModuleLaunchKernel returned 719"),
    ("gemm=wrong", "gemm", "failed", "with seed 20: 16384 of 16384 elements are wrong"),
    ("gemm=wrong1", "gemm", "failed", "1 of 16384 elements are wrong: C[64,1]"),
    ("gemm=nan", "gemm", "failed", "= nan, expected"),
    ("gemm=unwritten", "gemm", "failed", "16384 of 16384 elements were never written"),
    ("malloc=oom:65536", "gemm", "failed", "hipMalloc of 65536 bytes returned 2"),
    ("handle=error:6", "blas", "failed", "rocblas_create_handle returned 6 rocblas_status_internal_error"),
    ("sgemm=error:6", "blas", "failed", "rocblas_sgemm returned 6"),
    ("sgemm=wrong", "blas", "failed", "float32 with seed 20: 16384 of 16384 elements are wrong"),
    ("sgemm=wrong1", "blas", "failed", "float32 with seed 20: 1 of 16384 elements are wrong"),
    ("sgemm=zero", "blas", "failed", "elements are wrong: C[0,0] = 0, expected"),
    ("sgemm=nan", "blas", "failed", "= nan, expected"),
    ("sgemm=unwritten", "blas", "failed", "float32 with seed 20: 16384 of 16384 elements were never written"),
    ("gemm_ex=error:2", "blas", "failed", "rocblas_gemm_ex returned 2"),
    ("gemm_ex=wrong1", "blas", "failed", "float16 with seed 20: 1 of 16384 elements are wrong"),
    ("gemm_ex=nan", "blas", "failed", "float16 with seed 20: 1 of 16384 elements are wrong"),
    (
        "gemm_ex=unwritten",
        "blas",
        "failed",
        "float16 with seed 20: 16384 of 16384 elements were never written",
    ),
    (
        "malloc=oom:200000",
        "blas",
        "passed",
        "float32 within the bound, rate not measured (no memory for 256x256)",
    ),
]


@pytest.mark.parametrize(("fault", "rung", "status", "detail"), ENDS)
def test_the_way_in_which_a_child_ends_determines_the_result_of_its_rung(
    compiled: Rig, fault: str, rung: str, status: str, detail: str
) -> None:
    hurried = compiled.hurried() if "hang" in fault else compiled
    result = hurried.rung(rung, ROCENV_STANDIN_FAIL=fault)
    assert result.status == status, result
    assert detail in result.detail
    assert not result.no_device


def test_every_wrong_result_is_detected(compiled: Rig) -> None:
    found = compiled.answers([(rung, fault) for fault, rung, *_ in ANSWERS])
    for (fault, rung, status, detail), (told, text) in zip(ANSWERS, found, strict=True):
        assert told == status, (fault, rung, text)
        assert detail in text, (fault, rung)


@pytest.mark.parametrize(
    ("fault", "broken", "skipped"),
    [
        ("load.hip=segv", "load", {"version", "compile", "device", "memory", "kernel", "gemm", "blas"}),
        ("version=wrong", "version", set()),
        ("compile=abort", "compile", {"kernel", "gemm"}),
        ("props=error:1", "device", {"memory", "kernel", "gemm", "blas"}),
        ("upload=wrong1", "memory", {"kernel", "gemm", "blas"}),
        ("kernel=nan", "kernel", {"gemm"}),
        ("gemm=wrong1", "gemm", set()),
        ("sgemm=segv", "blas", set()),
    ],
)
def test_only_rungs_that_depend_on_a_failed_rung_are_skipped(
    rig: Rig, fault: str, broken: str, skipped: set[str]
) -> None:
    results = rig.walk(ROCENV_STANDIN_FAIL=fault)
    assert results[broken].status in ("failed", "crashed")
    assert {rung for rung, result in results.items() if result.status == "skipped"} == skipped
    passed = {rung for rung, result in results.items() if result.status == "passed"}
    assert passed == set(results) - skipped - {broken}
    for rung in skipped:
        assert re.fullmatch(r"needs (`\w+`(, )?)+", results[rung].detail)


def test_a_crash_in_a_fake_library_is_still_marked_as_coming_from_a_fake(rig: Rig) -> None:
    results = rig.walk(ROCENV_STANDIN_FAIL="init=segv")
    assert results["device"].detail == "STAND-IN, not a GPU runtime: crashed: SIGSEGV in hipInit"
    assert results["device"].exit_code == -11


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"ROCENV_STANDIN_DEVICES": "0"}, "hipInit returned 100 hipErrorNoDevice"),
        ({"ROCENV_STANDIN_FAIL": "init=error:101"}, "hipInit returned 101 hipErrorInvalidDevice"),
        ({"ROCENV_STANDIN_FAIL": "count=error:100"}, "hipGetDeviceCount returned 100 hipErrorNoDevice"),
        ({"ROCENV_STANDIN_FAIL": "count=wrong"}, "hipGetDeviceCount found no devices"),
    ],
)
def test_a_missing_gpu_is_not_a_failure(rig: Rig, environ: dict[str, str], why: str) -> None:
    results = rig.walk(**environ)
    device = results["device"]
    assert (device.status, device.no_device) == ("skipped", True)
    assert "no GPU here" in device.detail
    assert why in device.detail
    for rung in ("memory", "kernel", "gemm", "blas"):
        assert (results[rung].status, results[rung].detail) == ("skipped", "no GPU here")
        assert results[rung].no_device
    assert all(results[rung].status == "passed" for rung in ("load", "version", "compile"))


def test_a_failure_takes_precedence_over_a_missing_gpu(rig: Rig) -> None:
    results = rig.walk(ROCENV_STANDIN_DEVICES="0", ROCENV_STANDIN_FAIL="compile=error:6")
    assert (results["kernel"].detail, results["kernel"].no_device) == ("needs `compile`", False)
    assert results["blas"].no_device


def test_the_gpu_with_the_target_does_not_have_to_be_the_first(rig: Rig) -> None:
    # HIP often lists an integrated GPU first.
    two = {"ROCENV_STANDIN_DEVICES": "2", "ROCENV_STANDIN_TARGET": "gfx1036,gfx1100"}
    assert [result.status for result in rig.walk(**two).values()] == ["passed"] * 9


def test_features_in_target_names_are_ignored(rig: Rig) -> None:
    result = rig.rung("device", ROCENV_STANDIN_TARGET="gfx1100:sramecc+:xnack-")
    assert result.status == "passed"


def test_an_override_can_explain_a_different_target(rig: Rig) -> None:
    changes = {"ROCENV_STANDIN_TARGET": "gfx1030", "HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    results = rig.walk(**changes)
    assert [result.status for result in results.values()] == ["passed"] * 9
    assert "gfx1030 (HSA_OVERRIDE_GFX_VERSION=10.3.0, in place of gfx1100)" in results["device"].detail
    assert (rig.work / "sgemm_gfx1030.co").exists()


def test_an_unrelated_override_does_not_excuse_a_different_target(rig: Rig) -> None:
    result = rig.rung("device", HSA_OVERRIDE_GFX_VERSION="10.3.0")
    assert result.status == "failed"
    assert "the GPU is gfx1100, but the set is for gfx1030" in result.detail


def test_version_prefixes_are_compared_by_component(rig: Rig) -> None:
    probe = rig.probe()
    for expected, status in (
        ("5.7.31921", "passed"),
        ("5", "passed"),
        ("5.70", "failed"),
        ("5.7.3", "failed"),
    ):
        task = replace(probe.task, expected={"hip": expected})
        assert ladder.run_rung(replace(probe, task=task), "version").status == status, expected


def test_a_kernel_from_an_earlier_run_is_not_reused(compiled: Rig) -> None:
    compiled.rung("compile", ROCENV_STANDIN_FAIL="compile=abort")
    assert not (compiled.work / "sgemm_gfx1100.co").exists()


def test_a_missing_library_fails_the_load_rung(rig: Rig) -> None:
    probe = rig.probe()
    libraries = {**probe.task.libraries, "rocblas": str(rig.work / "librocblas.so.3")}
    result = ladder.run_rung(replace(probe, task=replace(probe.task, libraries=libraries)), "load")
    assert result.status == "failed"
    assert "librocblas.so.3 cannot be loaded: " in result.detail


def test_missing_symbols_fail_the_load_rung(rig: Rig, hip5: Set) -> None:
    broken = rig.work / "libbroken.so"
    source = rig.work / "broken.c"
    source.write_text("int absent(void); int rocblas_create_handle(void) { return absent(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(broken)], check=True, timeout=60)
    probe = rig.probe()
    libraries = {**probe.task.libraries, "rocblas": str(broken)}
    result = ladder.run_rung(replace(probe, task=replace(probe.task, libraries=libraries)), "load")
    assert result.status == "failed"
    assert "undefined symbol: absent" in result.detail


def test_logs_and_artifacts_of_rungs_are_kept(rig: Rig) -> None:
    rig.walk(ROCENV_STANDIN_FAIL="compile=error:6")
    names = {path.name for path in rig.work.iterdir()}
    assert names >= {"sgemm.hip", "sgemm_gfx1100.log", "compile.log", "load.log"}
    assert "NOT A GPU RUNTIME" in (rig.work / "load.log").read_text()


def test_only_requested_rungs_run(rig: Rig) -> None:
    seen: list[str] = []
    probe = rig.probe()
    results = ladder.run_ladder(
        probe, ("version", "load"), files=files_passed, report=lambda result: seen.append(result.rung)
    )
    assert [result.rung for result in results] == seen == ["load", "version"]


def test_modified_files_skip_all_later_rungs(rig: Rig) -> None:
    broken = RungResult(rung="files", status="failed", elapsed_s=0.0, detail="2 files differ")
    results = ladder.run_ladder(rig.probe(), ladder.RUNGS, files=lambda: broken)
    assert {result.status for result in results[1:]} == {"skipped"}
    assert results[1].detail == "needs `files`"


def test_the_rungs_depend_on_the_components(rig: Rig) -> None:
    probe = rig.probe()
    assert probe.rungs == ladder.RUNGS[:-1]
    without_blas = {role: path for role, path in probe.task.libraries.items() if role != "rocblas"}
    assert "blas" not in replace(probe, task=replace(probe.task, libraries=without_blas)).rungs
    without_compiler = {role: path for role, path in probe.task.libraries.items() if role != "hiprtc"}
    left = replace(probe, task=replace(probe.task, libraries=without_compiler)).rungs
    assert left == ("files", "load", "version", "device", "memory", "blas")
    wheels = replace(probe, task=replace(probe.task, libraries={}), torch_python=("python",))
    assert wheels.rungs == ("files", "torch")


def test_descendants_of_a_hanging_child_are_killed(rig: Rig) -> None:
    # A vendor library may have started a process, which must be gone after the timeout, like the child.
    script = rig.work / "python"
    script.write_text(f"#!/bin/sh\nsleep 300 & echo $! > {rig.work}/pid\nwait\n")
    script.chmod(0o755)
    probe = replace(rig.probe(), python=(str(script),), timeout_s=1.0)
    assert ladder.run_rung(probe, "load").status == "timeout"
    pid = int((rig.work / "pid").read_text())
    deadline = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"

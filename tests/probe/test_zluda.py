"""A ZLUDA set's ladder on the fake CUDA, and the results of failing rungs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.probe import ladder

if TYPE_CHECKING:
    from tests.probe.conftest import Rig, Set

RUNGS = ("files", "load", "version", "device", "memory", "gemm", "blas")


def test_every_rung_passes_through_nvcuda_and_cublas(cuda_rig: Rig) -> None:
    results = cuda_rig.walk()
    assert tuple(results) == RUNGS
    for rung in RUNGS[1:]:
        result = results[rung]
        assert (result.status, result.exit_code) == ("passed", 0), result
        assert result.detail.startswith("STAND-IN, not a GPU runtime: ")
    loaded = "libamdhip64.so.5, libnvcuda.so, librocblas.so.3, librocsolver.so.0, libcublas.so.11"
    assert f"{loaded} from the env only" in results["load"].detail
    assert "hip 5.7." in results["version"].detail
    assert "nvcuda 12.2" in results["version"].detail
    assert "[ZLUDA], gfx1100, 8.0 GiB, the first of 1" in results["device"].detail
    rates = re.findall(r"(float\d\d) within the bound, (\S+) GFLOP/s", results["blas"].detail)
    assert [precision for precision, _ in rates] == ["float32", "float16"]


# Faults of the fakes that affect the whole process, and the result that the parent reports.
ENDS = [
    ("load.nvcuda=segv", "load", "crashed", "SIGSEGV in dlopen"),
    ("load.cublas=abort", "load", "crashed", "libcublas.so.11"),
    ("cublassgemm=segv", "blas", "crashed", "SIGSEGV in cublasSgemm_v2"),
    ("cuinit=hang", "device", "timeout", "in cuInit"),
]

# Values that the fakes return, the rung that uses them, and its result.
ANSWERS = [
    ("cuversion=wrong", "version", "failed", "nvcuda reports version 9.0, expected 12.2"),
    ("version=wrong", "version", "failed", "hip reports version 4.3.0, expected 5.7"),
    ("cuinit=error:999", "device", "failed", "cuInit returned 999 CUDA_ERROR_UNKNOWN"),
    ("cuname=wrong", "device", "failed", "does not contain [ZLUDA]"),
    ("cucontext=error:2", "device", "failed", "cuDevicePrimaryCtxRetain returned 2 CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuinit=error:100", "device", "failed", "(gfx1100), but ZLUDA does not (cuInit returned 100"),
    ("cucount=wrong", "device", "failed", "ZLUDA does not (cuDeviceGetCount found no devices)"),
    ("props=wrong", "device", "failed", "(gfx803), but the set is for gfx1100"),
    ("cumalloc=oom:1000000", "memory", "failed", "cuMemAlloc_v2 of 16777216 bytes returned 2"),
    ("cudownload=wrong1", "memory", "failed", "1 of 4096 bytes came back wrong"),
    ("cumeminfo=error:1", "memory", "failed", "cuMemGetInfo_v2 returned 1 CUDA_ERROR_INVALID_VALUE"),
    ("cumodule=error:218", "gemm", "failed", "cuModuleLoadData returned 218 CUDA_ERROR_INVALID_PTX"),
    ("cugemm=wrong1", "gemm", "failed", "1 of 16384 elements are wrong"),
    ("cugemm=unwritten", "gemm", "failed", "16384 of 16384 elements were never written"),
    ("cublascreate=error:14", "blas", "failed", "cublasCreate_v2 returned 14"),
    ("cublassgemm=nan", "blas", "failed", "float32 with seed 20: 1 of 16384 elements are wrong"),
    ("cublasgemmex=wrong1", "blas", "failed", "float16 with seed 20: 1 of 16384 elements are wrong"),
    ("cumalloc=oom:200000", "blas", "passed", "rate not measured (no memory for 256x256)"),
]


@pytest.mark.parametrize(("fault", "rung", "status", "detail"), ENDS)
def test_the_way_in_which_a_child_ends_determines_the_result_of_its_rung(
    cuda_rig: Rig, fault: str, rung: str, status: str, detail: str
) -> None:
    hurried = cuda_rig.hurried() if "hang" in fault else cuda_rig
    result = hurried.rung(rung, ROCENV_STANDIN_FAIL=fault)
    assert result.status == status, result
    assert detail in result.detail
    assert not result.no_device


def test_every_wrong_result_is_detected(cuda_rig: Rig) -> None:
    found = cuda_rig.answers([(rung, fault) for fault, rung, *_ in ANSWERS])
    for (fault, rung, status, detail), (told, text) in zip(ANSWERS, found, strict=True):
        assert told == status, (fault, rung, text)
        assert detail in text, (fault, rung)


def test_a_missing_hip_gpu_is_reported_as_no_gpu(cuda_rig: Rig) -> None:
    results = cuda_rig.walk(ROCENV_STANDIN_DEVICES="0")
    assert (results["device"].status, results["device"].no_device) == ("skipped", True)
    assert "no GPU here: cuInit returned 100 CUDA_ERROR_NO_DEVICE" in results["device"].detail
    assert all(results[rung].no_device for rung in ("memory", "gemm", "blas"))


@pytest.mark.parametrize(("visible", "number"), [("", "1"), ("3,5", "5")])
def test_a_wrong_first_gpu_is_reported_with_a_remedy(cuda_rig: Rig, visible: str, number: str) -> None:
    # Torch uses the first GPU even if the right one is listed later.
    two = {"ROCENV_STANDIN_DEVICES": "2", "ROCENV_STANDIN_TARGET": "gfx1036,gfx1100"}
    result = cuda_rig.rung("device", **two, HIP_VISIBLE_DEVICES=visible)
    assert result.status == "failed"
    assert "(gfx1036), but the set is for gfx1100, which " in result.detail
    assert f"set HIP_VISIBLE_DEVICES={number} to use that one" in result.detail


def test_all_wrong_versions_are_reported(cuda_rig: Rig) -> None:
    result = cuda_rig.rung("version", ROCENV_STANDIN_FAIL="version=wrong,cuversion=wrong")
    assert (
        "hip reports version 4.3.0, expected 5.7; nvcuda reports version 9.0, expected 12.2" in result.detail
    )


def test_the_target_is_not_compared_with_nvidias_own_libraries(cuda_rig: Rig) -> None:
    probe = cuda_rig.probe(ROCENV_STANDIN_FAIL="cuname=wrong", LD_LIBRARY_PATH=str(cuda_rig.built.lib))
    libraries = {role: path for role, path in probe.task.libraries.items() if role != "hip"}
    task = replace(probe.task, libraries=libraries, preload=(), expected={})
    result = ladder.run_rung(replace(probe, task=task), "device")
    assert result.status == "passed", result
    assert "target not checked" in result.detail


def test_the_script_for_nvidia_machines_needs_only_python(zluda: Set) -> None:
    # Start the script as on an NVIDIA machine, without rocenv or its dependencies.
    lib = zluda.lib
    arguments = ["--cuda", str(lib / "libnvcuda.so"), "--cublas", str(lib / "libcublas.so.11")]
    command = [sys.executable, "-S", "-m", "tests.probe.nvidia", *arguments]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line.split()[0] for line in done.stdout.splitlines() if " passed " in line]
    assert passed == list(RUNGS[1:])
    assert "target not checked" in done.stdout


def test_a_runtime_loaded_from_elsewhere_is_a_leak(cuda_rig: Rig) -> None:
    # The display driver's amdhip64.dll is loaded if the set's own copy was not loaded first.
    foreign = shutil.copy(cuda_rig.built.lib / "libamdhip64.so.5", cuda_rig.work)
    probe = cuda_rig.probe()
    preload = (str(foreign), *probe.task.preload[1:])
    result = ladder.run_rung(replace(probe, task=replace(probe.task, preload=preload)), "load")
    assert result.status == "failed"
    assert f"from outside the env: {foreign}" in result.detail


def test_a_zluda_set_has_no_compile_rung_and_its_torch_rung_requires_load(cuda_rig: Rig) -> None:
    probe = replace(cuda_rig.probe(ROCENV_STANDIN_FAIL="load.nvcuda=segv"), torch_python=("python",))
    assert probe.rungs == (*RUNGS, "torch")
    results = ladder.run_ladder(
        probe, ("load", "torch"), files=lambda: pytest.fail("this function must not be called")
    )
    assert [(each.status, each.detail) for each in results[1:]] == [("skipped", "needs `load`")]

"""Leaks: libraries loaded from outside the prefix, by any means."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rocenv.probe import ladder, own_process
from rocenv.probe.wire import Task
from tests.probe.conftest import Rig, Set, compile_library


@pytest.fixture
def opt_rocm(hip5: Set, tmp_path: Path) -> Path:
    """Another ROCm installation on the machine: the same libraries in a different folder."""
    return Path(shutil.copytree(hip5.lib, tmp_path / "opt" / "rocm" / "lib"))


@pytest.mark.parametrize("rung", ["load", "compile", "device"])
def test_a_preloaded_runtime_is_a_leak(rig: Rig, opt_rocm: Path, rung: str) -> None:
    foreign = opt_rocm / "libamdhip64.so.5"
    result = rig.rung(rung, LD_PRELOAD=str(foreign))
    assert result.status == "failed"
    assert f"from outside the env: {foreign}" in result.detail


def test_a_library_path_to_a_different_rocm_is_a_leak(rig: Rig, opt_rocm: Path, hip5: Set) -> None:
    # rocenv loads the runtime itself by path, but the loader finds its dependencies by name.
    result = rig.rung("load", LD_LIBRARY_PATH=f"{opt_rocm}:{hip5.lib}")
    assert result.status == "failed"
    assert f"from outside the env: {opt_rocm / 'libamd_comgr.so.2'}" in result.detail
    assert "libamdhip64" not in result.detail


@pytest.mark.parametrize("function", ["hipInit", "hipMalloc", "rocblas_sgemm"])
def test_a_preloaded_library_with_runtime_functions_is_a_leak_under_any_name(rig: Rig, function: str) -> None:
    source = rig.work / "trace.c"
    source.write_text(f"int {function}(void) {{ return 0; }}\n")
    preload = rig.work / "libtrace.so"
    compile_library(preload, source)
    result = rig.rung("load", LD_PRELOAD=str(preload))
    assert result.status == "failed"
    assert f"defined before its library was loaded (LD_PRELOAD?): `{function}`" in result.detail


def test_a_library_outside_the_prefix_is_a_leak_unless_it_is_a_system_library(
    rig: Rig, opt_rocm: Path
) -> None:
    probe = rig.probe()
    foreign = {**probe.task.libraries, "rocblas": str(opt_rocm / "librocblas.so.3")}
    task = replace(probe.task, libraries=foreign)
    assert ladder.run_rung(replace(probe, task=task), "load").status == "failed"
    allowed = replace(task, allowed_outside=("librocblas.so.*",))
    assert ladder.run_rung(replace(probe, task=allowed), "load").status == "passed"


def test_libraries_of_a_prefix_behind_a_link_are_not_leaks(rig: Rig, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(rig.built.prefix)
    linked = replace(rig, built=replace(rig.built, prefix=link))
    assert linked.rung("load").status == "passed"


MAPS = """\
55d0-55d1 r--p 00000000 08:01 11 /usr/bin/python3.11
55d1-55d2 r-xp 00001000 08:01 11 /usr/bin/python3.11
7f10-7f11 r--p 00000000 08:01 12 /usr/lib/locale/C.utf8/LC_CTYPE
7f11-7f12 r-xp 00000000 08:01 13 /home/me/my envs/demo/lib/libamdhip64.so.5 (deleted)
7f12-7f13 r--p 00000000 08:01 14 /usr/lib/libicudata.so.72
7f13-7f14 rw-p 00000000 00:00 0 [heap]
7f14-7f15 rwxs 00000000 00:06 9 /dev/dri/renderD128
7f15-7f16 rwxp 00000000 00:01 2055 /memfd:libffi (deleted)
7f15-7f16 rw-p 00000000 00:00 0
"""


def test_only_mappings_of_code_are_read_from_the_memory_map() -> None:
    assert own_process.parse_maps(MAPS) == {
        "/usr/bin/python3.11",
        "/home/me/my envs/demo/lib/libamdhip64.so.5",
        "/usr/lib/libicudata.so.72",
    }


def test_libraries_loaded_before_the_set_are_allowed_unless_the_prefix_contains_them() -> None:
    task = Task(
        target="gfx1100",
        prefix="/e/demo",
        libraries={},
        work_dir="/tmp",
        expected={},
        known=("libffi.so.8", "libc.so.6"),
        allowed_outside=("libc.so.6",),
    )
    before = frozenset({"/usr/bin/python3", "/lib/libz.so.1", "/lib/libffi.so.8", "/lib/libc.so.6"})
    now = before | {"/e/demo/lib/libamdhip64.so.5", "/e/demo-2/lib/libnuma.so.1"}
    assert own_process.outsiders(before, now, task) == ["/e/demo-2/lib/libnuma.so.1", "/lib/libffi.so.8"]


def test_libraries_that_the_prefix_contains_must_not_come_from_system_folders(tmp_path: Path) -> None:
    prefix, system, python, other = (str(tmp_path / name) for name in ("sd", "windows", "python", "opt"))
    task = Task(
        target="gfx1100",
        prefix=prefix,
        libraries={},
        work_dir=str(tmp_path),
        expected={},
        runtime="cuda",
        known=("amdhip64.dll", "nvcuda.dll", "rocblas.dll", "vcruntime140.dll"),
        system_dirs=(system,),
    )
    before = frozenset({f"{python}/python311.dll", f"{python}/vcruntime140.dll", f"{other}/overlay.dll"})
    fine = {f"{prefix}/rocm/bin/amdhip64.dll", f"{system}/amd_comgr.dll", f"{python}/DLLs/_hashlib.pyd"}
    fine |= {f"{other}/virus scanner.dll"}  # Windows may load this into any process at any time
    leaks = [f"{other}/rocblas.dll", f"{prefix}-2/nvcuda.dll", f"{system}/amdhip64.dll"]
    assert own_process.outsiders(before, before | fine | set(leaks), task, python) == leaks
    # Python's copy of a library is allowed only if it was loaded at startup.
    late = f"{python}/Library/amdhip64.dll"
    assert own_process.outsiders(before, before | {late}, task, python) == [late]


def test_libraries_can_be_anywhere_if_there_is_no_set() -> None:
    task = Task(target="", prefix="/", libraries={}, work_dir="/tmp", expected={}, runtime="cuda")
    assert own_process.outsiders(frozenset(), frozenset({"/usr/lib/libcuda.so.1"}), task) == []


def test_a_task_survives_serialization() -> None:
    task = Task(
        target="gfx1031",
        prefix="C:\\sd",
        libraries={"nvcuda": "C:\\sd\\zluda\\nvcuda.dll"},
        work_dir="C:\\Temp",
        expected={"hip": "5.7", "nvcuda": "12.2"},
        runtime="cuda",
        preload=("C:\\sd\\a.dll", "C:\\sd\\ü.dll"),
        search=("C:\\sd",),
        known=("a.dll",),
        allowed_outside=("b.dll",),
        system_dirs=("C:\\Windows",),
        seed=7,
    )
    assert Task.from_plain(json.loads(json.dumps(asdict(task)))) == task

"""Sets made of the fakes in `shims/fakes`, built once with the system compiler."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import RungResult
from rocenv.probe import ladder
from rocenv.probe.wire import Runtime, Task
from rocenv.system import process
from rocenv.system.process import PACKAGE_PARENT

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parents[2] / "shims" / "fakes"
TARGET = "gfx1100"


def compile_library(output: Path, *arguments: str | Path) -> None:
    """Build a shared library with the system compiler."""
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{output.name}"]
    subprocess.run([*command, *map(str, arguments), "-o", str(output)], check=True, timeout=60)


@functools.cache
def standin_libraries() -> dict[str, bytes]:
    """Build the fakes as HIP 6.4, with hipRTC as a separate library."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = {
            "hip": folder / "libamdhip64.so.6",
            "hiprtc": folder / "libhiprtc.so.6",
            "rocblas": folder / "librocblas.so.6",
        }
        # Make HIP try to load an optional library, as HSA does with its profiler.
        optional = folder / "optional.c"
        optional.write_text(
            "#include <dlfcn.h>\n"
            '__attribute__((constructor)) static void ask(void) { dlopen("liboptional.so", RTLD_NOW); }\n'
        )
        compile_library(built["hip"], "-DSTANDIN_HIP_VERSION=60443484", SOURCES / "hip.c", optional)
        compile_library(built["hiprtc"], SOURCES / "hiprtc.c")
        compile_library(built["rocblas"], SOURCES / "rocblas.c", built["hip"])
        return {role: path.read_bytes() for role, path in built.items()}


_FORKS = """
import json, os, shutil, sys, tempfile
sys.path.append(sys.argv[1])
from dataclasses import asdict, replace
from rocenv.probe import child
from rocenv.probe.wire import Task

fields, faults = json.load(sys.stdin)
task = Task.from_plain(fields)
for rung, fault in faults:
    sys.stdout.flush()
    if pid := os.fork():
        os.waitpid(pid, 0)
        continue
    os.environ["ROCENV_STANDIN_FAIL"] = fault
    with tempfile.TemporaryDirectory() as folder:
        out = os.dup(1)
        os.dup2(2, 1)
        shutil.copytree(task.work_dir, folder, dirs_exist_ok=True)
        answer = child.answer(rung, replace(task, work_dir=folder))
        os.write(out, json.dumps(asdict(answer)).encode() + b"\\n")
    os._exit(0)
"""


@dataclass(frozen=True)
class Set:
    """A built set, with its libraries in `lib/`."""

    prefix: Path
    libraries: dict[str, str]  # role -> file name
    expected: dict[str, str]
    runtime: Runtime = "hip"
    preload: tuple[str, ...] = ()  # file names

    @property
    def lib(self) -> Path:
        return self.prefix / "lib"


@dataclass(frozen=True)
class Rig:
    """A set, and a work folder in which rungs run."""

    built: Set
    work: Path
    timeout_s: float = 30.0

    def probe(self, **changes: str) -> ladder.Probe:
        built = self.built
        task = Task(
            target=TARGET,
            prefix=str(built.prefix),
            libraries={role: str(built.lib / name) for role, name in built.libraries.items()},
            work_dir=str(self.work),
            expected=built.expected,
            runtime=built.runtime,
            preload=tuple(str(built.lib / name) for name in built.preload),
            known=tuple(sorted(path.name for path in built.lib.iterdir())),
            seed=20,
        )
        plain = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(built.lib)}
        return ladder.Probe(
            task=task,
            python=(sys.executable,),
            environ={**plain, **changes},
            timeout_s=self.timeout_s,
        )

    def rung(self, rung: str, **changes: str) -> RungResult:
        return ladder.run_rung(self.probe(**changes), rung)

    def walk(self, **changes: str) -> dict[str, RungResult]:
        probe = self.probe(**changes)
        results = ladder.run_ladder(probe, probe.rungs, files=files_passed)
        return {result.rung: result for result in results}

    def answers(self, faults: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Run a rung once per fault, in forks of one process; return the status and detail of each result.

        Use this for wrong return values, and `rung` for faults that affect the whole process.
        """
        probe = self.probe()
        task = asdict(probe.task)
        argv = [*probe.python, "-c", _FORKS, str(PACKAGE_PARENT)]
        done = process.run(
            argv, environ=probe.environ, stdin=json.dumps([task, faults]).encode(), timeout_s=120
        )
        assert done.ok, (done.end, done.error_text)
        found = [json.loads(line) for line in done.lines]
        assert len(found) == len(faults), done.error_text
        return [(each["status"], each["detail"]) for each in found]

    def hurried(self) -> Rig:
        """Return the same rig with a short timeout, to detect hangs quickly."""
        return replace(self, timeout_s=1.5)


def files_passed() -> RungResult:
    return RungResult(rung="files", status="passed", elapsed_s=0.0, detail="")


@pytest.fixture(scope="session")
def hip5(tmp_path_factory: pytest.TempPathFactory) -> Set:
    """A set like Debian's 5.7.1: hipRTC is part of HIP, and HIP loads the compiler library by name."""
    prefix = tmp_path_factory.mktemp("hip5")
    lib = prefix / "lib"
    lib.mkdir()
    (prefix / "comgr.c").write_text("int amd_comgr_standin(void) { return 1; }\n")
    compile_library(lib / "libamd_comgr.so.2", prefix / "comgr.c")
    hip = lib / "libamdhip64.so.5"
    compile_library(
        hip, SOURCES / "hip.c", SOURCES / "hiprtc.c", "-Wl,--no-as-needed", lib / "libamd_comgr.so.2"
    )
    compile_library(lib / "librocblas.so.3", SOURCES / "rocblas.c", hip)
    libraries = {"hip": hip.name, "hiprtc": hip.name, "rocblas": "librocblas.so.3"}
    return Set(prefix, libraries, {"hip": "5.7", "rocblas": "3.1"})


@pytest.fixture(scope="session")
def hip6(tmp_path_factory: pytest.TempPathFactory) -> Set:
    """A set like 6.x: hipRTC is a separate library, and device properties have the new layout."""
    prefix = tmp_path_factory.mktemp("hip6")
    lib = prefix / "lib"
    lib.mkdir()
    hip = lib / "libamdhip64.so.6"
    compile_library(hip, "-DSTANDIN_HIP_VERSION=60443484", SOURCES / "hip.c")
    compile_library(lib / "libhiprtc.so.6", SOURCES / "hiprtc.c")
    compile_library(lib / "librocblas.so.4", SOURCES / "rocblas.c", hip)
    libraries = {"hip": hip.name, "hiprtc": "libhiprtc.so.6", "rocblas": "librocblas.so.4"}
    return Set(prefix, libraries, {"hip": "6.4", "rocblas": "3.1"})


# Functions that the fake cuBLAS imports but that the other fakes do not define on Linux.
GLUE = """
void rocenv_standin_caller(const char *version) { (void)version; }
int rocsolver_get_version_string_size(void *size) { return size == 0 ? 0 : 1; }
"""


@pytest.fixture(scope="session")
def zluda(tmp_path_factory: pytest.TempPathFactory) -> Set:
    """A set like the ZLUDA ones: the CUDA libraries resolve to the HIP libraries, which are already
    loaded."""
    prefix = tmp_path_factory.mktemp("zluda")
    lib = prefix / "lib"
    lib.mkdir()
    hip, rocblas, rocsolver = (
        lib / name for name in ("libamdhip64.so.5", "librocblas.so.3", "librocsolver.so.0")
    )
    (prefix / "glue.c").write_text(GLUE)
    compile_library(hip, SOURCES / "hip.c", SOURCES / "hiprtc.c")
    compile_library(rocblas, SOURCES / "rocblas.c", hip)
    compile_library(rocsolver, prefix / "glue.c")
    compile_library(lib / "libnvcuda.so", "-Wno-format-overflow", SOURCES / "nvcuda.c", hip)
    compile_library(lib / "libcublas.so.11", SOURCES / "cublas.c", rocblas, rocsolver)
    return Set(
        prefix,
        {"nvcuda": "libnvcuda.so", "cublas": "libcublas.so.11", "hip": hip.name},
        {"hip": "5.7", "nvcuda": "12.2"},
        runtime="cuda",
        preload=(hip.name, "libnvcuda.so", rocblas.name, rocsolver.name, "libcublas.so.11"),
    )


@pytest.fixture
def cuda_rig(zluda: Set, tmp_path: Path) -> Rig:
    """A rig with the ZLUDA set, whose libraries are found only by path."""
    return Rig(zluda, tmp_path)


@pytest.fixture
def rig(hip5: Set, tmp_path: Path) -> Rig:
    """A rig with an empty work folder."""
    return Rig(hip5, tmp_path)


@pytest.fixture(scope="session")
def code_object(hip5: Set, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel that the fakes compiled."""
    work = tmp_path_factory.mktemp("code")
    result = Rig(hip5, work).rung("compile")
    assert result.status == "passed", result
    return work / f"sgemm_{TARGET}.co"


@pytest.fixture
def compiled(rig: Rig, code_object: Path) -> Rig:
    """A rig with the compiled kernel in its work folder."""
    shutil.copy(code_object, rig.work)
    return rig

"""The parent's side of the ladder: the rungs, their prerequisites, and the outcome of each child.

If a child crashes, aborts or hangs, that counts as the rung's result. This process never loads a vendor
library.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from rocenv.core.model import RungResult
from rocenv.probe.wire import CALLING, FAULT, NO_GPU, STANDIN, Answer, Runtime, Task
from rocenv.system import process
from rocenv.system.exit_codes import describe_exit, is_crash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

# The rungs for each API, in order, with the rungs that must pass first. `torch` for HIP does not depend on
# the set's own runtime, because torch's wheel bundles its own; a wheel built without ROCm is detected even
# without a GPU. `torch` for CUDA needs the libraries that `load` loads. ZLUDA compiles kernels when it loads
# them.
NEEDS: dict[Runtime, dict[str, tuple[str, ...]]] = {
    "hip": {
        "files": (),
        "load": ("files",),
        "version": ("load",),
        "compile": ("load",),
        "device": ("load",),
        "memory": ("device",),
        "kernel": ("memory", "compile"),
        "gemm": ("kernel",),
        "blas": ("memory",),
        "torch": ("files",),
    },
    "cuda": {
        "files": (),
        "load": ("files",),
        "version": ("load",),
        "device": ("load",),
        "memory": ("device",),
        "gemm": ("memory",),
        "blas": ("memory",),
        "torch": ("load",),
    },
}
RUNGS = tuple(NEEDS["hip"])  # every rung
_BLAS: dict[Runtime, str] = {"hip": "rocblas", "cuda": "cublas"}  # library that `blas` tests
_TORCH: dict[Runtime, str] = {"hip": "hip", "cuda": "zluda"}  # API that the env's torch must use
_TORCH_SCRIPT = Path(__file__).with_name("torch_gemm.py")
_TAIL_BYTES = 4096
_ANSWER_BYTES = 65536
_LEAST_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The env and the options of one run of the ladder."""

    task: Task
    python: tuple[str, ...]  # command line of rocenv's own Python, including the env's loader
    environ: Mapping[str, str]  # environment of every child
    timeout_s: float  # per rung
    until: float = math.inf  # deadline for all rungs, on the monotonic clock
    torch_python: tuple[str, ...] = ()  # command line of the env's Python; () if the env has no torch

    @property
    def rungs(self) -> tuple[str, ...]:
        """The rungs that apply to this env."""
        rungs, libraries = NEEDS[self.task.runtime], self.task.libraries
        absent = set()
        if not libraries:
            absent = set(rungs) - {"files", "torch"}
        elif _BLAS[self.task.runtime] not in libraries:
            absent = {"blas"}
        if self.task.runtime == "hip" and "hiprtc" not in libraries:
            absent |= {"compile", "kernel", "gemm"}
        if not self.torch_python:
            absent |= {"torch"}
        return tuple(rung for rung in rungs if rung not in absent)


def run_ladder(
    probe: Probe,
    rungs: Sequence[str],
    *,
    files: Callable[[], RungResult],
    begin: Callable[[str], AbstractContextManager[object]] = nullcontext,
    judge: Callable[[RungResult], RungResult] = lambda result: result,
    report: Callable[[RungResult], None] = lambda _result: None,
) -> tuple[RungResult, ...]:
    """Run `rungs` in the ladder's order, each only if its prerequisites passed.

    Args:
        probe: The env.
        rungs: The rungs to run; prerequisites outside this list are assumed to pass.
        files: The caller's implementation of the `files` rung.
        begin: Returns a context in which a rung's child runs.
        judge: Adds the caller's knowledge to each result; later rungs depend on the returned result.
        report: Called immediately with each result.
    """
    results: dict[str, RungResult] = {}
    needs = NEEDS[probe.task.runtime]
    for rung in (rung for rung in needs if rung in rungs):
        result = _unmet(needs[rung], rung, results)
        if result is None and rung == "files":
            result = files()
        elif result is None:
            with begin(rung):
                result = run_rung(probe, rung)
        result = _contradict(result, results.get("device"))
        result = judge(_with_standin_mark(result, results.get("load")))
        results[rung] = result
        report(result)
    return tuple(results.values())


def run_rung(probe: Probe, rung: str) -> RungResult:
    """Run one rung in a child; its stderr is kept as RUNG.log in the task's work folder.

    After the timeout, the child and its descendants are killed.
    """
    log = Path(probe.task.work_dir, f"{rung}.log")
    start = time.monotonic()
    timeout_s = min(probe.timeout_s, max(_LEAST_S, round(probe.until - start, 1)))
    with log.open("wb") as stderr:
        done = process.run(
            _command(probe, rung),
            environ=probe.environ,
            cwd=probe.task.work_dir,
            stdin=json.dumps(asdict(probe.task)).encode(),
            stderr=stderr,
            timeout_s=timeout_s,
            limit_bytes=_ANSWER_BYTES,
        )
    result = _classify(rung, done, tail(log), timeout_s)
    return replace(result, elapsed_s=time.monotonic() - start)


def _command(probe: Probe, rung: str) -> list[str]:
    if rung == "torch":
        runs_on = _TORCH[probe.task.runtime]
        return [*probe.torch_python, "-I", str(_TORCH_SCRIPT), str(probe.task.seed), runs_on]
    return [*probe.python, *process.own_child("rocenv.probe.child", rung)]


def _classify(rung: str, done: process.Completed, stderr: str, timeout_s: float) -> RungResult:
    result = RungResult(
        rung=rung, status="crashed", elapsed_s=0.0, detail="", exit_code=done.code, stderr_tail=stderr
    )
    if done.timed_out:
        detail = f"no result within {timeout_s:g} s{last_call(stderr)}; use `--timeout S` to wait longer"
        return replace(result, status="timeout", detail=detail)
    if done.code is None and done.stdout:
        return replace(result, detail=f"ended without a result: {done.problem}")
    if done.code is None:
        return replace(result, status="failed", detail=done.problem)
    if done.code != 0:
        how = "crashed" if is_crash(done.code) else "ended without a result"
        end = f"{how}: {describe_exit(done.code)}{last_call(stderr)}"
        return replace(result, detail=f"{end}{_fault_library(done.code, stderr)}")
    try:
        answer = msgspec.json.decode(done.stdout, type=Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        printed = f"`{_printable(done.text[:80])}`" if done.stdout else "nothing"
        return replace(result, detail=f"ended without a result; it printed {printed}")
    return replace(result, status=answer.status, detail=answer.detail, no_device=answer.no_device)


def _fault_library(exit_code: int, stderr: str) -> str:
    """Return the library in which a child crashed on Windows, or "" if unknown."""
    start = f"{FAULT}0x{exit_code & 0xFFFFFFFF:08X} in "
    places = [line.removeprefix(start).strip() for line in stderr.splitlines() if line.startswith(start)]
    return f", in {_printable(places[-1])}" if places else ""


def last_call(stderr: str) -> str:
    """Describe the last call and the last output of a child that never returned a result."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith(FAULT)]
    calls = [line.removeprefix(CALLING) for line in lines if line.startswith(CALLING)]
    text = f" in {calls[-1]}" if calls else ""
    if lines and not lines[-1].startswith(CALLING):
        text += f"; last output: {_printable(lines[-1][:200])}"
    return text


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def tail(log: Path) -> str:
    """Return the end of a log, and delete the log if it is empty."""
    with log.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace")
    if size == 0:
        log.unlink()
    return text


def _unmet(needs: Sequence[str], rung: str, results: Mapping[str, RungResult]) -> RungResult | None:
    """Return the result of a rung whose prerequisites failed, or None if it can run."""
    missing = [need for need in needs if need in results and results[need].status != "passed"]
    if not missing:
        return None
    # Report a fault rather than a missing GPU, because the user can fix a fault on this machine.
    no_device = all(results[need].no_device for need in missing)
    needed = ", ".join(f"`{need}`" for need in missing if not results[need].no_device)
    detail = NO_GPU if no_device else f"needs {needed}"
    return RungResult(rung=rung, status="skipped", elapsed_s=0.0, detail=detail, no_device=no_device)


def _contradict(result: RungResult, device: RungResult | None) -> RungResult:
    """Turn a missing GPU into a failure if `device` found one."""
    if not result.no_device or device is None or device.status != "passed":
        return result
    detail = f"{result.detail}, but `device` found one"
    return replace(result, status="failed", no_device=False, detail=detail)


def _with_standin_mark(result: RungResult, load: RungResult | None) -> RungResult:
    """Mention that fake libraries are in use, even if the child died before it could."""
    in_use = load is not None and STANDIN in load.detail
    met = result.status != "skipped" and result.rung not in ("files", "torch")
    if not in_use or not met or STANDIN in result.detail:
        return result
    return replace(result, detail=f"{STANDIN}: {result.detail}")

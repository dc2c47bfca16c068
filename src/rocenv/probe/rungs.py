"""The rungs that show that the runtime is whole: load, version, compile, device, memory.

Each is a function of the child's session. It returns what it found; it raises Failure or CallError where that
is bad news, and NoDevice where there is no GPU to ask.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rocenv.probe import gemm
from rocenv.probe.backend import backend, opened
from rocenv.probe.device import Buffer, Failure
from rocenv.probe.library import SUCCESS, CallError

if TYPE_CHECKING:
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session

# Source: the ELF gABI registry; llvm/llvm-project llvm/docs/AMDGPUUsage.rst, "Code Object".
_EM_AMDGPU = 224
# The name of the target stands in a note of every code object.
_CODE_TARGET = re.compile(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)")
# One copy that the driver sends through its own small buffer, and one for the DMA engine.
_COPY_SIZES = (4096, 16 << 20)
# Of a compiler's log in the rung's detail; the `.log` beside the code object has all of it.
_LOG_SHOWN = 600


def load(session: Session) -> str:
    """Load every library, all symbols bound; where they came from is checked after every rung."""
    session.preload()
    for role in session.task.libraries:
        session.library(role)
    paths = (*session.task.preload, *session.task.libraries.values())
    names = dict.fromkeys(os.path.basename(path) for path in paths)
    origin = "" if session.before is None else " from the prefix alone"
    return ", ".join(names) + origin


def version(session: Session) -> str:
    """Compare what the libraries say they are with what was resolved."""
    found = {
        role: _REPORTS[role](session.library(role)) for role in session.task.libraries if role in _REPORTS
    }
    wrong = [
        f"{role} says it is {found.get(role) or 'nothing'}, resolved was {expected}"
        for role, expected in session.task.expected.items()
        if not version_matches(found.get(role, ""), expected)
    ]
    if wrong:
        raise Failure("; ".join(wrong))
    return ", ".join(f"{role} {number}" for role, number in found.items())


def version_matches(found: str, prefix: str) -> bool:
    """Tell whether `found` starts with the components of `prefix`: 5.7.1 does with 5.7, 5.70 does not."""
    wanted = prefix.split(".")
    return found.split(".")[: len(wanted)] == wanted


def compile_kernel(session: Session) -> str:
    """Compile the GEMM source for the target and keep the code object for the rungs that run it."""
    for stale in (session.code_object, session.code_object.with_suffix(".log")):
        stale.unlink(missing_ok=True)
    work = Path(session.task.work_dir)
    (work / "sgemm.hip").write_text(gemm.SOURCE, encoding="utf-8")
    compiler = session.library("hiprtc")
    program = ctypes.c_void_p()
    source, name = gemm.SOURCE.encode(), b"sgemm.hip"
    compiler.call("hiprtcCreateProgram", ctypes.byref(program), source, name, 0, None, None)
    options = [f"--offload-arch={session.target}".encode(), b"-O3"]
    status = compiler.status_of(
        "hiprtcCompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    log = _compile_log(compiler, program)
    if log:
        session.code_object.with_suffix(".log").write_text(log, encoding="utf-8")
    if status != SUCCESS:
        answer = CallError("hiprtcCompileProgram", status, compiler.status_name(status))
        raise Failure(
            f"{answer} for {session.describe_target()}: {log.strip()[:_LOG_SHOWN] or '(empty log)'}"
        )
    code = _compiled_code(compiler, program)
    compiler.call("hiprtcDestroyProgram", ctypes.byref(program))
    _check_code(code, session.target)
    session.code_object.write_bytes(code)
    return f"{session.code_object.name}, {len(code)} bytes for {session.describe_target()}"


def device(session: Session) -> str:
    """Find a GPU of the right target."""
    return backend(session).open_device(session)


def memory(session: Session) -> str:
    """Allocate, copy there and back, compare, free."""
    runtime = opened(session)
    for size in _COPY_SIZES:
        sent = Random(session.task.seed).randbytes(size)
        with Buffer(runtime, size) as buffer:
            buffer.write(sent)
            received = buffer.read()
        if received != sent:
            wrong = [index for index, (old, new) in enumerate(zip(sent, received, strict=True)) if old != new]
            raise Failure(f"{len(wrong)} of {size} bytes came back changed, the first at offset {wrong[0]}")
    free, total = runtime.memory_info()
    return f"{_COPY_SIZES[-1] >> 20} MiB there and back; {free >> 20} of {total >> 20} MiB free"


def _hip_version(library: Library) -> str:
    number = ctypes.c_int(0)
    library.call("hipRuntimeGetVersion", ctypes.byref(number))
    major, rest = divmod(number.value, 10_000_000)
    return f"{major}.{rest // 100_000}.{rest % 100_000}"


def _rocblas_version(library: Library) -> str:
    text = ctypes.create_string_buffer(256)
    library.call("rocblas_get_version_string", text, len(text))
    return text.value.decode("ascii", "replace").strip(". ")  # 2.47.0.


def _driver_version(library: Library) -> str:
    number = ctypes.c_int(0)
    library.call("cuDriverGetVersion", ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"  # 12020


# hipRTC says 9.0 in every release.
_REPORTS = {"hip": _hip_version, "rocblas": _rocblas_version, "nvcuda": _driver_version}


def _compile_log(compiler: Library, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t(0)
    compiler.call("hiprtcGetProgramLogSize", program, ctypes.byref(size))
    if size.value == 0:
        return ""
    text = ctypes.create_string_buffer(size.value)
    compiler.call("hiprtcGetProgramLog", program, text)
    return text.value.decode("utf-8", "replace")


def _compiled_code(compiler: Library, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t(0)
    compiler.call("hiprtcGetCodeSize", program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    compiler.call("hiprtcGetCode", program, code)
    return code.raw


def _check_code(code: bytes, target: str) -> None:
    if code[:4] != b"\x7fELF":
        raise Failure(f"the compiler's {len(code)} bytes are no ELF file")
    machine = int.from_bytes(code[18:20], "little")
    if machine != _EM_AMDGPU:
        raise Failure(f"the compiler made code for ELF machine {machine}, not for an AMD GPU ({_EM_AMDGPU})")
    made_for = {name.decode() for name in _CODE_TARGET.findall(code)}
    if made_for != {target}:
        raise Failure(
            f"the compiler made code for {', '.join(sorted(made_for)) or 'no target'}, not for {target}"
        )

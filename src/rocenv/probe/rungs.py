"""The rungs, each a function that takes the child's session.

A rung returns a description of what it found. It raises Failure or CallError on errors, and NoDevice if
there is no GPU. Rungs that run computations poison every output buffer beforehand and check it afterward.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rocenv.probe import gemm
from rocenv.probe.device import Buffer, Failure, NotAllocated, Product
from rocenv.probe.library import SUCCESS, CallError
from rocenv.probe.rocm_wheels import check_lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.probe.device import Blas, Runtime
    from rocenv.probe.gemm import Precision
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session

# Source: the ELF gABI registry; llvm/llvm-project llvm/docs/AMDGPUUsage.rst, "Code Object".
_EM_AMDGPU = 224
# A note in every code object contains the target.
_CODE_TARGET = re.compile(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)")
# One copy through the driver's small buffer, and one through the DMA engine.
_COPY_SIZES = (4096, 16 << 20)
# Maximum length of the compiler's log in the rung's detail; the `.log` next to the code object is complete.
_LOG_SHOWN = 600
_SIZE = 128
_KERNEL_SIZE = 2 * gemm.TILE
# The rate is measured at the largest of these sizes that should stay within the budget.
_RATE_SIZES = (256, 512, 1024, 2048, 4096)
_RATE_BUDGET_S = 0.25
_RATE_SAMPLES = 64
# Elements in the block that is repeated to fill large matrices; a prime, so that all rows differ.
_BLOCK = 65521


def load(session: Session) -> str:
    """Load every library and bind all symbols; the libraries' origin is checked after every rung.

    If ROCm comes as wheels, PyTorch finds ROCm's libraries through `rocm_sdk`, which must find the ones
    loaded here.
    """
    session.preload()
    for role in session.task.libraries:
        session.library(role)
    if session.task.lookup:
        check_lookup(session.task)
    paths = (*session.task.preload, *session.task.libraries.values())
    names = dict.fromkeys(os.path.basename(path) for path in paths)
    origin = "" if session.before is None else " from the env only"
    lookup = ", where `rocm_sdk` finds them" if session.task.lookup else ""
    return ", ".join(names) + origin + lookup


def version(session: Session) -> str:
    """Compare the versions that libraries report with the resolved ones."""
    found = {
        role: _REPORTS[role](session.library(role)) for role in session.task.libraries if role in _REPORTS
    }
    wrong = [
        f"{role} reports version {found.get(role) or 'nothing'}, expected {expected}"
        for role, expected in session.task.expected.items()
        if not version_matches(found.get(role, ""), expected)
    ]
    if wrong:
        raise Failure("; ".join(wrong))
    return ", ".join(f"{role} {number}" for role, number in found.items())


def version_matches(found: str, prefix: str) -> bool:
    """Whether `found` starts with the components of `prefix`: 5.7.1 matches 5.7, 5.70 does not."""
    wanted = prefix.split(".")
    return found.split(".")[: len(wanted)] == wanted


def compile_kernel(session: Session) -> str:
    """Compile the GEMM source for the target, and keep the code object for later rungs."""
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
    """Find a GPU with the right target."""
    return session.open_device()


def memory(session: Session) -> str:
    """Allocate memory, copy data there and back, compare, and free it."""
    runtime = session.runtime()
    for size in _COPY_SIZES:
        sent = Random(session.task.seed).randbytes(size)
        with Buffer(runtime, size) as buffer:
            buffer.write(sent)
            received = buffer.read()
        if received != sent:
            wrong = [index for index, (old, new) in enumerate(zip(sent, received, strict=True)) if old != new]
            raise Failure(f"{len(wrong)} of {size} bytes came back wrong, the first at offset {wrong[0]}")
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


# hipRTC reports 9.0 in every release.
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
        raise Failure(f"the compiler's output ({len(code)} bytes) is not an ELF file")
    machine = int.from_bytes(code[18:20], "little")
    if machine != _EM_AMDGPU:
        raise Failure(
            f"the compiler produced code for ELF machine {machine}, not for an AMD GPU ({_EM_AMDGPU})"
        )
    made_for = {name.decode() for name in _CODE_TARGET.findall(code)}
    if made_for != {target}:
        raise Failure(
            f"the compiler produced code for {', '.join(sorted(made_for)) or 'no target'}, not for {target}"
        )


def kernel(session: Session) -> str:
    """Run the compiled kernel on matrices of ones, so that every element of the product is exactly n."""
    n = _KERNEL_SIZE
    ones = [1.0] * (n * n)
    data = _run_kernel(session, n, ones, ones)
    exact = [gemm.Expected(float(n), 0.0)] * (n * n)
    _require(gemm.difference(data, exact, n, "float32"), "the kernel ran, but the result is wrong")
    return f"multiplied {n}x{n} matrices of ones using {session.code_object.name}"


def gemm_own(session: Session) -> str:
    """Multiply random matrices with our own kernel."""
    a, b = _random_pair(session.task.seed, _SIZE, "float32")
    data = _run_kernel(session, _SIZE, a, b)
    expected = gemm.expected_product(a, b, _SIZE, "float32")
    _require(gemm.difference(data, expected, _SIZE, "float32"), f"with seed {session.task.seed}")
    return f"{_SIZE}x{_SIZE} matrix multiplication in float32, within the bound, seed {session.task.seed}"


def blas(session: Session) -> str:
    """Multiply random matrices with rocBLAS or cuBLAS in float32 and float16, then measure the rate."""
    runtime, seed = session.runtime(), session.task.seed
    found = []
    precisions: tuple[Precision, ...] = ("float32", "float16")
    with session.blas() as library:
        for precision in precisions:
            a, b = _random_pair(seed, _SIZE, precision)
            with ExitStack() as stack:
                data = gemm.pack(a, precision), gemm.pack(b, precision)
                product = _place(runtime, stack, _SIZE, *data, precision)
                library.multiply(product)
                result = product.c.read()
            expected = gemm.expected_product(a, b, _SIZE, precision)
            _require(gemm.difference(result, expected, _SIZE, precision), f"{precision} with seed {seed}")
            found.append(f"{precision} within the bound, {_rate(runtime, library, precision, seed)}")
    return f"{'; '.join(found)}; seed {seed}"


def _require(difference: str, what: str) -> None:
    if difference:
        raise Failure(f"{what}: {difference}")


def _random_pair(seed: int, n: int, precision: Precision) -> tuple[list[float], list[float]]:
    both = gemm.random_values(seed, 2 * n * n, precision)
    return both[: n * n], both[n * n :]


def _place(runtime: Runtime, stack: ExitStack, n: int, a: bytes, b: bytes, precision: Precision) -> Product:
    poison = gemm.poison(n * n, precision)
    buffers = []
    for data in (a, b, poison):
        buffer = stack.enter_context(Buffer(runtime, len(data)))
        buffer.write(data)
        buffers.append(buffer)
    return Product(n, precision, *buffers)


def _run_kernel(session: Session, n: int, a: Sequence[float], b: Sequence[float]) -> bytes:
    runtime = session.runtime()
    module = runtime.load_module(session.kernel())
    function = runtime.find_function(module, gemm.KERNEL)
    with ExitStack() as stack:
        product = _place(runtime, stack, n, gemm.pack(a, "float32"), gemm.pack(b, "float32"), "float32")
        arguments = (product.a.address, product.b.address, product.c.address, ctypes.c_int(n))
        groups = n // gemm.TILE
        runtime.launch(function, (groups, groups, 1), (gemm.TILE, gemm.TILE, 1), arguments)
        runtime.synchronize()
        data = product.c.read()
    runtime.unload_module(module)
    return data


def _rate(runtime: Runtime, library: Blas, precision: Precision, seed: int) -> str:
    """Measure the rate at the largest matrix size that fits the time budget, and check samples."""
    rate = "rate not measured"
    for n in _RATE_SIZES:
        try:
            elapsed_s = _timed_product(runtime, library, n, precision, seed)
        except NotAllocated:
            return f"{rate} (no memory for {n}x{n})"
        rate = f"{2 * n**3 / elapsed_s / 1e9:.3g} GFLOP/s at {n}x{n}"
        if 8 * elapsed_s > _RATE_BUDGET_S:
            break
    return rate


def _timed_product(runtime: Runtime, library: Blas, n: int, precision: Precision, seed: int) -> float:
    block = gemm.random_values(seed, _BLOCK, precision)
    repeats, rest = divmod(n * n, _BLOCK)
    data = gemm.pack(block, precision) * repeats + gemm.pack(block[:rest], precision)
    with ExitStack() as stack:
        product = _place(runtime, stack, n, data, data, precision)
        library.multiply(product)  # the first run of a size also loads its kernel
        runtime.synchronize()
        start = time.perf_counter()
        library.multiply(product)
        runtime.synchronize()
        elapsed_s = time.perf_counter() - start
        result = product.c.read()
    _check_samples(result, n, precision, seed, lambda i, j: block[(i * n + j) % _BLOCK])
    return elapsed_s


def _check_samples(
    result: bytes, n: int, precision: Precision, seed: int, entry: Callable[[int, int], float]
) -> None:
    item = len(result) // (n * n)
    random = Random(seed)  # selects the elements to check
    for _ in range(_RATE_SAMPLES):
        i, j = random.randrange(n), random.randrange(n)
        row, column = [entry(i, k) for k in range(n)], [entry(k, j) for k in range(n)]
        at = (i * n + j) * item
        want = gemm.expected_element(row, column, precision)
        _require(
            gemm.difference(result[at : at + item], [want], 1, precision),
            f"{precision} {n}x{n}, element {i},{j}, with seed {seed}",
        )


RUNGS: dict[str, Callable[[Session], str]] = {
    "load": load,
    "version": version,
    "compile": compile_kernel,
    "device": device,
    "memory": memory,
    "kernel": kernel,
    "gemm": gemm_own,
    "blas": blas,
}

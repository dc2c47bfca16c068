"""The rungs that compute: kernel, gemm, blas. Every output is poisoned before its run and compared after."""

from __future__ import annotations

import ctypes
import time
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from rocenv.probe import gemm, hip
from rocenv.probe.session import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.probe.gemm import Precision
    from rocenv.probe.session import Session

_SIZE = 128
_KERNEL_SIZE = 2 * gemm.TILE
# The rate is timed at the largest of these sizes that is expected to stay within the budget.
_RATE_SIZES = (256, 512, 1024, 2048, 4096)
_RATE_BUDGET_S = 0.25
_RATE_SAMPLES = 64
# Elements of the block that large matrices are made of; a prime, so that no two rows are alike.
_BLOCK = 65521


@dataclass(frozen=True, slots=True)
class Product:
    """C = A*B on the device, C already poisoned."""

    n: int
    precision: Precision
    a: hip.Buffer
    b: hip.Buffer
    c: hip.Buffer


def kernel(session: Session) -> str:
    """Launch the compiled kernel on ones: every element of the product is n, exactly."""
    session.open_device()
    n = _KERNEL_SIZE
    ones = [1.0] * (n * n)
    data = _run_kernel(session, n, ones, ones)
    exact = [gemm.Expected(float(n), 0.0)] * (n * n)
    _require(gemm.difference(data, exact, n, "float32"), "the kernel ran, but")
    return f"{gemm.KERNEL} of {session.code_object.name} on {n}x{n} ones"


def gemm_own(session: Session) -> str:
    """Multiply random matrices with the compiled kernel."""
    session.open_device()
    a, b = _random_pair(session.task.seed, _SIZE, "float32")
    data = _run_kernel(session, _SIZE, a, b)
    expected = gemm.expected_product(a, b, _SIZE, "float32")
    _require(gemm.difference(data, expected, _SIZE, "float32"), f"with seed {session.task.seed}")
    return f"float32 {_SIZE}x{_SIZE} within the bound, seed {session.task.seed}"


def blas(session: Session) -> str:
    """Multiply random matrices with rocBLAS in float32 and float16, then time it."""
    session.open_device()
    library = session.library("rocblas")
    handle = ctypes.c_void_p()
    library.call("rocblas_create_handle", ctypes.byref(handle))
    found = []
    precisions: tuple[Precision, ...] = ("float32", "float16")
    for precision in precisions:
        a, b = _random_pair(session.task.seed, _SIZE, precision)
        with ExitStack() as stack:
            product = _place(
                session, stack, _SIZE, gemm.pack(a, precision), gemm.pack(b, precision), precision
            )
            _multiply(library, handle, product)
            data = product.c.read()
        expected = gemm.expected_product(a, b, _SIZE, precision)
        _require(
            gemm.difference(data, expected, _SIZE, precision), f"{precision} with seed {session.task.seed}"
        )
        found.append(f"{precision} within the bound, {_rate(session, library, handle, precision)}")
    library.call("rocblas_destroy_handle", handle)
    return f"{'; '.join(found)}; seed {session.task.seed}"


def _require(difference: str, what: str) -> None:
    if difference:
        raise Failure(f"{what}: {difference}")


def _random_pair(seed: int, n: int, precision: Precision) -> tuple[list[float], list[float]]:
    both = gemm.random_values(seed, 2 * n * n, precision)
    return both[: n * n], both[n * n :]


def _place(session: Session, stack: ExitStack, n: int, a: bytes, b: bytes, precision: Precision) -> Product:
    poison = gemm.poison(n * n, precision)
    buffers = []
    for data in (a, b, poison):
        buffer = stack.enter_context(hip.Buffer(session.library("hip"), len(data)))
        buffer.write(data)
        buffers.append(buffer)
    return Product(n, precision, *buffers)


def _run_kernel(session: Session, n: int, a: Sequence[float], b: Sequence[float]) -> bytes:
    runtime = session.library("hip")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = session.code_object.read_bytes()
    runtime.call("hipModuleLoadData", ctypes.byref(module), image)
    runtime.call("hipModuleGetFunction", ctypes.byref(function), module, gemm.KERNEL.encode())
    with ExitStack() as stack:
        product = _place(session, stack, n, gemm.pack(a, "float32"), gemm.pack(b, "float32"), "float32")
        arguments = (product.a.address, product.b.address, product.c.address, ctypes.c_int(n))
        pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(argument) for argument in arguments))
        grid = (n // gemm.TILE, n // gemm.TILE, 1)
        block = (gemm.TILE, gemm.TILE, 1)
        runtime.call("hipModuleLaunchKernel", function, *grid, *block, 0, None, pointers, None)
        runtime.call("hipDeviceSynchronize")
        data = product.c.read()
    runtime.call("hipModuleUnload", module)
    return data


def _multiply(library: hip.Library, handle: ctypes.c_void_p, product: Product) -> None:
    # rocBLAS is column-major: asked for B*A it sees the transposes, and leaves A*B row-major.
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    n, none = product.n, hip.OPERATION_NONE
    a, b, c = product.a.address, product.b.address, product.c.address
    if product.precision == "float32":
        library.call("rocblas_sgemm", handle, none, none, n, n, n, one, b, n, a, n, zero, c, n)
        return
    f16 = hip.F16_R
    library.call(
        "rocblas_gemm_ex",
        *(handle, none, none, n, n, n, one, b, f16, n, a, f16, n, zero, c, f16, n, c, f16, n),
        *(hip.F32_R, hip.GEMM_ALGO_STANDARD, 0, hip.GEMM_FLAGS_NONE),
    )


def _rate(session: Session, library: hip.Library, handle: ctypes.c_void_p, precision: Precision) -> str:
    """Return the rate at the largest size that is quick, after checking samples of the product there."""
    rate = "no rate"
    for n in _RATE_SIZES:
        try:
            elapsed_s = _timed_product(session, library, handle, n, precision)
        except hip.CallError as error:
            if not error.call.startswith("hipMalloc"):
                raise
            return f"{rate} (no memory for {n}x{n})"
        rate = f"{2 * n**3 / elapsed_s / 1e9:.3g} GFLOP/s at {n}x{n}"
        if 8 * elapsed_s > _RATE_BUDGET_S:
            break
    return rate


def _timed_product(
    session: Session, library: hip.Library, handle: ctypes.c_void_p, n: int, precision: Precision
) -> float:
    block = gemm.random_values(session.task.seed, _BLOCK, precision)
    repeats, rest = divmod(n * n, _BLOCK)
    data = gemm.pack(block, precision) * repeats + gemm.pack(block[:rest], precision)
    runtime = session.library("hip")
    with ExitStack() as stack:
        product = _place(session, stack, n, data, data, precision)
        _multiply(library, handle, product)  # the first run of a size also loads its kernel
        runtime.call("hipDeviceSynchronize")
        start = time.perf_counter()
        _multiply(library, handle, product)
        runtime.call("hipDeviceSynchronize")
        elapsed_s = time.perf_counter() - start
        result = product.c.read()
    _check_samples(session, result, n, precision, lambda i, j: block[(i * n + j) % _BLOCK])
    return elapsed_s


def _check_samples(
    session: Session, result: bytes, n: int, precision: Precision, entry: Callable[[int, int], float]
) -> None:
    item = len(result) // (n * n)
    random = Random(session.task.seed)  # which elements to look at
    for _ in range(_RATE_SAMPLES):
        i, j = random.randrange(n), random.randrange(n)
        row, column = [entry(i, k) for k in range(n)], [entry(k, j) for k in range(n)]
        at = (i * n + j) * item
        want = gemm.expected_element(row, column, precision)
        _require(
            gemm.difference(result[at : at + item], [want], 1, precision),
            f"{precision} {n}x{n}, element {i},{j}, with seed {session.task.seed}",
        )

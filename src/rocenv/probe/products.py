"""The rungs that compute: kernel, gemm, blas. Every output is poisoned before its run and compared after."""

from __future__ import annotations

import ctypes
import time
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING

from rocenv.probe import gemm
from rocenv.probe.backend import backend, opened, opened_blas
from rocenv.probe.device import Buffer, Failure, NotAllocated, Product

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.probe.device import Blas, Runtime
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


def kernel(session: Session) -> str:
    """Launch the compiled kernel on ones: every element of the product is n, exactly."""
    n = _KERNEL_SIZE
    ones = [1.0] * (n * n)
    data = _run_kernel(session, n, ones, ones)
    exact = [gemm.Expected(float(n), 0.0)] * (n * n)
    _require(gemm.difference(data, exact, n, "float32"), "the kernel ran, but")
    return f"{gemm.KERNEL} of {backend(session).kernel_name(session)} on {n}x{n} ones"


def gemm_own(session: Session) -> str:
    """Multiply random matrices with our own kernel."""
    a, b = _random_pair(session.task.seed, _SIZE, "float32")
    data = _run_kernel(session, _SIZE, a, b)
    expected = gemm.expected_product(a, b, _SIZE, "float32")
    _require(gemm.difference(data, expected, _SIZE, "float32"), f"with seed {session.task.seed}")
    return f"float32 {_SIZE}x{_SIZE} within the bound, seed {session.task.seed}"


def blas(session: Session) -> str:
    """Multiply random matrices with rocBLAS or cuBLAS in float32 and float16, then time it."""
    runtime, seed = opened(session), session.task.seed
    found = []
    precisions: tuple[Precision, ...] = ("float32", "float16")
    with opened_blas(session) as library:
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
    runtime = opened(session)
    module = runtime.load_module(backend(session).kernel(session))
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
    """Return the rate at the largest size that is quick, after checking samples of the product there."""
    rate = "no rate"
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
    random = Random(seed)  # which elements to look at
    for _ in range(_RATE_SAMPLES):
        i, j = random.randrange(n), random.randrange(n)
        row, column = [entry(i, k) for k in range(n)], [entry(k, j) for k in range(n)]
        at = (i * n + j) * item
        want = gemm.expected_element(row, column, precision)
        _require(
            gemm.difference(result[at : at + item], [want], 1, precision),
            f"{precision} {n}x{n}, element {i},{j}, with seed {seed}",
        )

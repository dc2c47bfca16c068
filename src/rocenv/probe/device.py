"""Memory, kernels and matrix multiplication on a GPU, with the same calls in HIP and CUDA.

`hip.py` and `cuda.py` contain the function names as tables.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.probe.library import CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.probe.gemm import Precision
    from rocenv.probe.library import Library


class Failure(Exception):
    """The rung failed; the message says why."""


class NoDevice(Exception):
    """There is no usable GPU; the message says why."""


class NotAllocated(CallError):
    """The runtime refused to allocate memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCalls:
    """An API's function names."""

    role: str  # of its library
    allocate: str
    free: str
    upload: str
    download: str
    upload_kind: tuple[int, ...] = ()  # arguments after destination, source and size
    download_kind: tuple[int, ...] = ()
    fill: str  # fills memory with one byte value
    memory_info: str
    synchronize: str
    load_module: str
    find_function: str
    launch: str
    unload_module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlasCalls:
    """A BLAS library's function names and constants."""

    role: str
    create: str
    destroy: str
    settings: tuple[tuple[str, int], ...]  # calls that set up a new handle
    sgemm: str
    gemm_ex: str
    no_transpose: int
    float16: int
    result_apart: bool  # gemm_ex takes the result as D, separate from the addend C
    computation: tuple[int, ...]  # final arguments of gemm_ex: compute type, algorithm …


def count_devices(
    library: Library, start: str, count: str, none: tuple[int, ...], why_none: Callable[[str], str]
) -> int:
    """Initialize an API with `start` and count its devices; raise NoDevice if there is none.

    If there is no device, the functions return a status in `none`; `why_none` formats the message.
    """
    found = ctypes.c_int(0)
    for call, argument in ((start, 0), (count, ctypes.byref(found))):
        status = library.status_of(call, argument)
        if status in none:
            raise NoDevice(why_none(f"{call} returned {status} {library.status_name(status)}".rstrip()))
        library.check(call, status)
    if found.value < 1:
        raise NoDevice(why_none(f"{count} found no devices"))
    return found.value


class Runtime:
    """The API for memory and kernel launches on the current device."""

    def __init__(self, library: Library, calls: RuntimeCalls) -> None:
        self._library = library
        self._calls = calls

    def allocate(self, size_bytes: int) -> ctypes.c_void_p:
        """Return the address of new device memory; raise NotAllocated if there is not enough."""
        address = ctypes.c_void_p()
        call = self._calls.allocate
        try:
            self._library.call(call, ctypes.byref(address), size_bytes)
        except CallError as error:
            raise NotAllocated(f"{call} of {size_bytes} bytes", error.number, error.name) from error
        return address

    def free(self, address: ctypes.c_void_p) -> None:
        """Free memory."""
        self._library.call(self._calls.free, address)

    def upload(self, address: ctypes.c_void_p, data: bytes) -> None:
        """Copy `data` to the device."""
        calls = self._calls
        self._library.call(calls.upload, address, data, len(data), *calls.upload_kind)

    def download(self, address: ctypes.c_void_p, size_bytes: int) -> bytes:
        """Copy data from the device, after earlier launches have finished."""
        calls, data = self._calls, ctypes.create_string_buffer(size_bytes)
        self._library.call(calls.download, data, address, size_bytes, *calls.download_kind)
        return data.raw

    def fill(self, address: ctypes.c_void_p, value: int, size_bytes: int) -> None:
        """Start filling device memory with a byte value."""
        self._library.call(self._calls.fill, address, value, size_bytes)

    def memory_info(self) -> tuple[int, int]:
        """Return the device's free and total memory in bytes."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self._library.call(self._calls.memory_info, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def synchronize(self) -> None:
        """Wait for earlier launches."""
        self._library.call(self._calls.synchronize)

    def load_module(self, image: bytes) -> ctypes.c_void_p:
        """Load a kernel image and return its handle."""
        module = ctypes.c_void_p()
        self._library.call(self._calls.load_module, ctypes.byref(module), image)
        return module

    def find_function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """Return a kernel from a loaded image."""
        function = ctypes.c_void_p()
        self._library.call(self._calls.find_function, ctypes.byref(function), module, name.encode())
        return function

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[ctypes.c_void_p | ctypes.c_int],
    ) -> None:
        """Launch a kernel with these group counts and sizes."""
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._library.call(self._calls.launch, function, *grid, *block, 0, None, pointers, None)

    def unload_module(self, module: ctypes.c_void_p) -> None:
        """Unload an image."""
        self._library.call(self._calls.unload_module, module)


class Buffer:
    """Device memory, freed at the end of its `with` block."""

    def __init__(self, runtime: Runtime, size_bytes: int) -> None:
        self._runtime = runtime
        self.size_bytes = size_bytes
        self.address = ctypes.c_void_p()

    def __enter__(self) -> Buffer:
        self.address = self._runtime.allocate(self.size_bytes)
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is None:  # otherwise, a second error would hide the first
            self._runtime.free(self.address)

    def write(self, data: bytes) -> None:
        """Copy `data`, which must have the buffer's size, to the device."""
        self._runtime.upload(self.address, data)

    def read(self) -> bytes:
        """Return the buffer's contents."""
        return self._runtime.download(self.address, self.size_bytes)


@dataclass(frozen=True, slots=True)
class Product:
    """C = A*B on the device, row-major n x n; C is poisoned beforehand."""

    n: int
    precision: Precision
    a: Buffer
    b: Buffer
    c: Buffer


class Blas:
    """A BLAS with a handle, destroyed at the end of its `with` block."""

    def __init__(self, library: Library, calls: BlasCalls) -> None:
        self._library = library
        self._calls = calls
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> Blas:
        self._library.call(self._calls.create, ctypes.byref(self._handle))
        for name, value in self._calls.settings:
            self._library.call(name, self._handle, value)
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is None:
            self._library.call(self._calls.destroy, self._handle)

    def multiply(self, product: Product) -> None:
        """Start C = A*B, accumulated in float32."""
        # BLAS is column-major: computing B*A of the transposes yields A*B in row-major order.
        calls, n = self._calls, product.n
        one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
        a, b, c = product.a.address, product.b.address, product.c.address
        shape = (self._handle, calls.no_transpose, calls.no_transpose, n, n, n)
        if product.precision == "float32":
            self._library.call(calls.sgemm, *shape, one, b, n, a, n, zero, c, n)
            return
        half = calls.float16
        apart = (c, half, n) if calls.result_apart else ()
        inputs = (one, b, half, n, a, half, n)
        self._library.call(calls.gemm_ex, *shape, *inputs, zero, c, half, n, *apart, *calls.computation)

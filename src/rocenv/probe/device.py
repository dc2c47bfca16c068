"""Memory, kernels and matrix products on a GPU: the same calls in HIP and CUDA, under other names.

`hip.py` and `cuda.py` hold the names, as data.
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
    """The rung failed; the text says how."""


class NoDevice(Exception):
    """There is no usable GPU; the text says why."""


class NotAllocated(CallError):
    """The runtime did not grant memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCalls:
    """What an API calls its functions."""

    role: str  # of its library
    allocate: str
    free: str
    upload: str
    download: str
    upload_kind: tuple[int, ...] = ()  # what follows destination, source and size
    download_kind: tuple[int, ...] = ()
    fill: str  # a byte, over and over
    memory_info: str
    synchronize: str
    load_module: str
    find_function: str
    launch: str
    unload_module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlasCalls:
    """What a BLAS calls its functions, and its constants."""

    role: str
    create: str
    destroy: str
    settings: tuple[tuple[str, int], ...]  # calls made on a new handle
    sgemm: str
    gemm_ex: str
    no_transpose: int
    float16: int
    result_apart: bool  # gemm_ex takes the result as D beside the C that is added
    computation: tuple[int, ...]  # the end of gemm_ex: the type to compute in, the algorithm …


def count_devices(
    library: Library, start: str, count: str, none: tuple[int, ...], why_none: Callable[[str], str]
) -> int:
    """Initialise an API with `start` and count its devices; raises NoDevice if there is none.

    Where there is no device its functions answer one of `none`; `why_none` words that for people.
    """
    found = ctypes.c_int(0)
    for call, argument in ((start, 0), (count, ctypes.byref(found))):
        status = library.status_of(call, argument)
        if status in none:
            raise NoDevice(why_none(f"{call} answered {status} {library.status_name(status)}".rstrip()))
        library.check(call, status)
    if found.value < 1:
        raise NoDevice(why_none(f"{count} found none"))
    return found.value


class Runtime:
    """The API that allocates and launches, with a device made current."""

    def __init__(self, library: Library, calls: RuntimeCalls) -> None:
        self._library = library
        self._calls = calls

    def allocate(self, size_bytes: int) -> ctypes.c_void_p:
        """The address of memory on the device; raises NotAllocated where there is none left."""
        address = ctypes.c_void_p()
        call = self._calls.allocate
        try:
            self._library.call(call, ctypes.byref(address), size_bytes)
        except CallError as error:
            raise NotAllocated(f"{call} of {size_bytes} bytes", error.number, error.name) from error
        return address

    def free(self, address: ctypes.c_void_p) -> None:
        """Give memory back."""
        self._library.call(self._calls.free, address)

    def upload(self, address: ctypes.c_void_p, data: bytes) -> None:
        """Copy `data` to the device."""
        calls = self._calls
        self._library.call(calls.upload, address, data, len(data), *calls.upload_kind)

    def download(self, address: ctypes.c_void_p, size_bytes: int) -> bytes:
        """What the device holds; waits for what was launched before."""
        calls, data = self._calls, ctypes.create_string_buffer(size_bytes)
        self._library.call(calls.download, data, address, size_bytes, *calls.download_kind)
        return data.raw

    def fill(self, address: ctypes.c_void_p, value: int, size_bytes: int) -> None:
        """Start filling memory on the device with a byte."""
        self._library.call(self._calls.fill, address, value, size_bytes)

    def memory_info(self) -> tuple[int, int]:
        """How many bytes the device has free, and how many there are."""
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        self._library.call(self._calls.memory_info, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def synchronize(self) -> None:
        """Wait for what was launched."""
        self._library.call(self._calls.synchronize)

    def load_module(self, image: bytes) -> ctypes.c_void_p:
        """The handle of a loaded kernel image."""
        module = ctypes.c_void_p()
        self._library.call(self._calls.load_module, ctypes.byref(module), image)
        return module

    def find_function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a loaded image."""
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
        """Start a kernel on these groups of threads."""
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._library.call(self._calls.launch, function, *grid, *block, 0, None, pointers, None)

    def unload_module(self, module: ctypes.c_void_p) -> None:
        """Forget a loaded image."""
        self._library.call(self._calls.unload_module, module)


class Buffer:
    """Memory on the device, freed at the end of the `with` block that it belongs to."""

    def __init__(self, runtime: Runtime, size_bytes: int) -> None:
        self._runtime = runtime
        self.size_bytes = size_bytes
        self.address = ctypes.c_void_p()

    def __enter__(self) -> Buffer:
        self.address = self._runtime.allocate(self.size_bytes)
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is None:  # after a failure, a second one would hide the first
            self._runtime.free(self.address)

    def write(self, data: bytes) -> None:
        """Copy `data`, as long as the buffer, to the device."""
        self._runtime.upload(self.address, data)

    def read(self) -> bytes:
        """What the device holds."""
        return self._runtime.download(self.address, self.size_bytes)


@dataclass(frozen=True, slots=True)
class Product:
    """C = A*B on the device, row-major n x n, C already poisoned."""

    n: int
    precision: Precision
    a: Buffer
    b: Buffer
    c: Buffer


class Blas:
    """A BLAS with a handle, destroyed at the end of the `with` block."""

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
        """Start C = A*B, summed in float32."""
        # BLAS is column-major: asked for B*A it sees the transposes, and leaves A*B row-major.
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

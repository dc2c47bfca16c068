"""The C interfaces of HIP, hipRTC and rocBLAS, as one table of prototypes, and calls that cannot fail unseen.

Only the child process of a rung imports this.

Source: ROCm/HIP include/hip/hip_runtime_api.h and hiprtc.h (rocm-5.7.1, 6.0.0, 6.2.0, develop);
ROCm/rocBLAS library/include/internal/rocblas-{types,functions,auxiliary}.h.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from rocenv.probe.wire import CALLING

SUCCESS = 0
NO_DEVICE = 100  # hipErrorNoDevice
INVALID_DEVICE = 101  # hipErrorInvalidDevice: what hipInit answers without a kernel driver in some releases
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
OPERATION_NONE = 111
F16_R, F32_R = 150, 151
GEMM_ALGO_STANDARD = 0
GEMM_FLAGS_NONE = 0

_out = c_void_p  # a pointer that the caller gets something through; ctypes passes byref() and buffers
_sgemm = [
    c_void_p,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    _out,
    c_void_p,
    c_int,
    c_void_p,
    c_int,
    _out,
    c_void_p,
    c_int,
]
_gemm_ex = [
    *(c_void_p, c_int, c_int, c_int, c_int, c_int),  # handle, operations of A and B, m, n, k
    *(_out, c_void_p, c_int, c_int, c_void_p, c_int, c_int),  # alpha; A, type, lda; B, type, ldb
    *(_out, c_void_p, c_int, c_int, c_void_p, c_int, c_int),  # beta; C, type, ldc; D, type, ldd
    *(c_int, c_int, c_int, c_uint),  # compute type, algorithm, solution index, flags
]

# name -> argument types; all of them answer with a status, 0 = success.
PROTOTYPES: dict[str, list[Any]] = {
    "hipInit": [c_uint],
    "hipRuntimeGetVersion": [POINTER(c_int)],
    "hipGetDeviceCount": [POINTER(c_int)],
    "hipSetDevice": [c_int],
    "hipGetDeviceProperties": [_out, c_int],
    "hipGetDevicePropertiesR0600": [_out, c_int],
    "hipMalloc": [POINTER(c_void_p), c_size_t],
    "hipFree": [c_void_p],
    "hipMemcpy": [c_void_p, c_void_p, c_size_t, c_int],
    "hipMemGetInfo": [POINTER(c_size_t), POINTER(c_size_t)],
    "hipDeviceSynchronize": [],
    "hipModuleLoadData": [POINTER(c_void_p), c_char_p],
    "hipModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "hipModuleLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p],
    "hipModuleUnload": [c_void_p],
    "hiprtcCreateProgram": [POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p],
    "hiprtcCompileProgram": [c_void_p, c_int, POINTER(c_char_p)],
    "hiprtcGetProgramLogSize": [c_void_p, POINTER(c_size_t)],
    "hiprtcGetProgramLog": [c_void_p, c_char_p],
    "hiprtcGetCodeSize": [c_void_p, POINTER(c_size_t)],
    "hiprtcGetCode": [c_void_p, c_char_p],
    "hiprtcDestroyProgram": [POINTER(c_void_p)],
    "rocblas_get_version_string": [c_char_p, c_size_t],
    "rocblas_create_handle": [POINTER(c_void_p)],
    "rocblas_destroy_handle": [c_void_p],
    "rocblas_sgemm": _sgemm,
    "rocblas_gemm_ex": _gemm_ex,
}
# role -> the function of its library that names a status
STATUS_NAMES = {
    "hip": "hipGetErrorName",
    "hiprtc": "hiprtcGetErrorString",
    "rocblas": "rocblas_status_to_string",
}


class DevicePropertiesR0000(ctypes.Structure):
    """The head of `hipDeviceProp_t` as `hipGetDeviceProperties` fills it (measured in 5.7.1: 792 bytes)."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("total_global_mem", c_size_t),
        ("_to_warp_size", ctypes.c_char * 12),
        ("warp_size", c_int),
        ("_to_arch", ctypes.c_char * 116),
        ("gcn_arch_name", ctypes.c_char * 256),
        ("_rest", ctypes.c_char * 4096),  # room for what later releases append
    )


class DevicePropertiesR0600(ctypes.Structure):
    """The head of `hipDeviceProp_t` as `hipGetDevicePropertiesR0600` fills it (6.0 and later: 1472 bytes)."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("_uuid_and_luid", ctypes.c_char * 32),
        ("total_global_mem", c_size_t),
        ("_to_warp_size", ctypes.c_char * 12),
        ("warp_size", c_int),
        ("_to_arch", ctypes.c_char * 848),
        ("gcn_arch_name", ctypes.c_char * 256),
        ("_rest", ctypes.c_char * 4096),
    )


class CallError(Exception):
    """A vendor library answered a call with an error."""

    def __init__(self, call: str, number: int, name: str) -> None:
        super().__init__(f"{call} answered {number} {name}".rstrip())
        self.call = call
        self.number = number
        self.name = name


class Library:
    """A loaded vendor library.

    Attributes:
        standin: It is the test equipment of `shims/standin`.
    """

    def __init__(self, role: str, path: str) -> None:
        self.role = role
        self.path = path
        trace(f"dlopen {path}")
        self._library = ctypes.CDLL(path)  # RTLD_NOW | RTLD_LOCAL
        self.standin = self.has("rocenv_standin")

    def has(self, name: str) -> bool:
        """Tell whether the library exports a function."""
        return hasattr(self._library, name)

    def status_of(self, name: str, *arguments: Any) -> int:
        """Call a function of the table and return the status that it answers with."""
        if not self.has(name):
            raise CallError(name, -1, f"(not exported by {self.path})")
        function = self._library[name]
        function.restype, function.argtypes = c_int, PROTOTYPES[name]
        trace(name)
        status: int = function(*arguments)
        return status

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the table; raise CallError unless it succeeds."""
        self.check(name, self.status_of(name, *arguments))

    def check(self, name: str, status: int) -> None:
        """Raise CallError, with the library's own name for it, unless `status` is success."""
        if status != SUCCESS:
            raise CallError(name, status, self.status_name(status))

    def status_name(self, status: int) -> str:
        """Return the library's own name for a status, "" if it has none."""
        namer = STATUS_NAMES.get(self.role)
        if namer is None or not self.has(namer):
            return ""
        function = self._library[namer]
        function.restype, function.argtypes = c_char_p, [c_int]
        return (function(status) or b"").decode("utf-8", "replace")


class Buffer:
    """Memory on the device, freed at the end of the `with` block that it belongs to."""

    def __init__(self, runtime: Library, size_bytes: int) -> None:
        self._runtime = runtime
        self.size_bytes = size_bytes
        self.address = ctypes.c_void_p()

    def __enter__(self) -> Buffer:
        try:
            self._runtime.call("hipMalloc", ctypes.byref(self.address), self.size_bytes)
        except CallError as error:
            raise CallError(f"hipMalloc of {self.size_bytes} bytes", error.number, error.name) from error
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is None:  # after a failure, a second one would hide the first
            self._runtime.call("hipFree", self.address)

    def write(self, data: bytes) -> None:
        """Copy `data`, as long as the buffer, to the device."""
        self._runtime.call("hipMemcpy", self.address, data, self.size_bytes, HOST_TO_DEVICE)

    def read(self) -> bytes:
        """Return what the device holds; waits for what was launched before."""
        data = ctypes.create_string_buffer(self.size_bytes)
        self._runtime.call("hipMemcpy", data, self.address, self.size_bytes, DEVICE_TO_HOST)
        return data.raw


def trace(call: str) -> None:
    """Write the name of a call to stderr before it is made: the last one is where a crash happened."""
    sys.stderr.write(f"{CALLING}{call}\n")
    sys.stderr.flush()


def interposers() -> list[str]:
    """Return the functions of the table that this process offers before any vendor library was loaded.

    Such a function comes from a preloaded library, and would be called in place of the prefix's own.
    """
    if sys.platform == "win32":
        return []
    everything = ctypes.CDLL(None)
    return [name for name in PROTOTYPES if hasattr(everything, name)]


def flush_c_streams() -> None:
    """Write out what vendor libraries printed through C's stdio."""
    if sys.platform != "win32":
        ctypes.CDLL(None).fflush(None)

"""HIP, hipRTC and rocBLAS: prototypes, constants and structures, and the GPUs that HIP lists.

Only the child process of a rung imports this.

Source: ROCm/HIP include/hip/hip_runtime_api.h and hiprtc.h (rocm-5.7.1, 6.0.0, 6.2.0, develop); ROCm/rocBLAS
library/include/internal/rocblas-{types,functions,auxiliary}.h
"""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocenv.probe.device import BlasCalls, Failure, RuntimeCalls, count_devices
from rocenv.probe.library import SUCCESS, status_names_from
from rocenv.probe.wire import NO_GPU

if TYPE_CHECKING:
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session

NO_DEVICE = 100  # hipErrorNoDevice
INVALID_DEVICE = 101  # hipErrorInvalidDevice: returned by hipInit without a kernel driver in some releases
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_PLACE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLACE_BYTES = 64
_OPERATION_NONE = 111
_F16_R, _F32_R = 150, 151
_GEMM_ALGO_STANDARD, _NO_SOLUTION_INDEX, _GEMM_FLAGS_NONE = 0, 0, 0

_out = c_void_p  # an output pointer; ctypes accepts byref() and buffers for it
_sgemm = [
    *(c_void_p, c_int, c_int, c_int, c_int, c_int),  # handle, operations of A and B, m, n, k
    *(_out, c_void_p, c_int, c_void_p, c_int),  # alpha; A, lda; B, ldb
    *(_out, c_void_p, c_int),  # beta; C, ldc
]
_gemm_ex = [
    *(c_void_p, c_int, c_int, c_int, c_int, c_int),  # handle, operations of A and B, m, n, k
    *(_out, c_void_p, c_int, c_int, c_void_p, c_int, c_int),  # alpha; A, type, lda; B, type, ldb
    *(_out, c_void_p, c_int, c_int, c_void_p, c_int, c_int),  # beta; C, type, ldc; D, type, ldd
    *(c_int, c_int, c_int, c_uint),  # compute type, algorithm, solution index, flags
]

# name -> argument types; every function returns a status, 0 for success.
PROTOTYPES: dict[str, list[Any]] = {
    "hipInit": [c_uint],
    "hipRuntimeGetVersion": [POINTER(c_int)],
    "hipGetDeviceCount": [POINTER(c_int)],
    "hipSetDevice": [c_int],
    "hipGetDeviceProperties": [_out, c_int],
    "hipGetDevicePropertiesR0600": [_out, c_int],
    "hipDeviceGetPCIBusId": [c_char_p, c_int, c_int],
    "hipMalloc": [POINTER(c_void_p), c_size_t],
    "hipFree": [c_void_p],
    "hipMemcpy": [c_void_p, c_void_p, c_size_t, c_int],
    "hipMemset": [c_void_p, c_int, c_size_t],
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
STATUS_NAMES = {
    "hip": status_names_from("hipGetErrorName"),
    "hiprtc": status_names_from("hiprtcGetErrorString"),
    "rocblas": status_names_from("rocblas_status_to_string"),
}
RUNTIME = RuntimeCalls(
    role="hip",
    allocate="hipMalloc",
    free="hipFree",
    upload="hipMemcpy",
    upload_kind=(_HOST_TO_DEVICE,),
    download="hipMemcpy",
    download_kind=(_DEVICE_TO_HOST,),
    fill="hipMemset",
    memory_info="hipMemGetInfo",
    synchronize="hipDeviceSynchronize",
    load_module="hipModuleLoadData",
    find_function="hipModuleGetFunction",
    launch="hipModuleLaunchKernel",
    unload_module="hipModuleUnload",
)
BLAS = BlasCalls(
    role="rocblas",
    create="rocblas_create_handle",
    destroy="rocblas_destroy_handle",
    settings=(),
    sgemm="rocblas_sgemm",
    gemm_ex="rocblas_gemm_ex",
    no_transpose=_OPERATION_NONE,
    float16=_F16_R,
    result_apart=True,
    computation=(_F32_R, _GEMM_ALGO_STANDARD, _NO_SOLUTION_INDEX, _GEMM_FLAGS_NONE),
)


class DevicePropertiesR0000(ctypes.Structure):
    """Start of `hipDeviceProp_t` as filled by `hipGetDeviceProperties` (5.7.1: 792 bytes, measured)."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("total_global_mem", c_size_t),
        ("_to_warp_size", ctypes.c_char * 12),
        ("warp_size", c_int),
        ("_to_arch", ctypes.c_char * 116),
        ("gcn_arch_name", ctypes.c_char * 256),
        ("_rest", ctypes.c_char * 4096),  # space for fields added in later releases
    )


class DevicePropertiesR0600(ctypes.Structure):
    """Start of `hipDeviceProp_t` as filled by `hipGetDevicePropertiesR0600` (6.0 and later: 1472 bytes)."""

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


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as described by the runtime."""

    ordinal: int
    target: str  # without `:xnack-` and other features
    name: str
    memory_bytes: int
    wave: int


def open_device(session: Session) -> str:
    """Choose and describe the first GPU with the right target; raise the same errors as `choose_device`."""
    device = choose_device(session)
    return (
        f"{device.name or 'an unnamed GPU'}, {session.describe_target()}, "
        f"{device.memory_bytes / 2**30:.1f} GiB, wave {device.wave}"
    )


def choose_device(session: Session) -> Device:
    """Choose the first GPU with the right target, and make it current.

    Raises:
        NoDevice: There is no GPU.
        Failure: No GPU has the target.
    """
    runtime = session.library("hip")
    found = devices(runtime)
    for device in found:
        if device.target == session.target:
            runtime.call("hipSetDevice", device.ordinal)
            return device
    raise Failure(
        f"the GPU is {', '.join(device.target or '(unnamed)' for device in found)}, "
        f"but the set is for {session.describe_target()}"
    )


def devices(runtime: Library) -> list[Device]:
    """List HIP's GPUs; raise NoDevice if there are none."""
    count = count_devices(runtime, "hipInit", "hipGetDeviceCount", (NO_DEVICE, INVALID_DEVICE), _why_none)
    return [_describe(runtime, ordinal) for ordinal in range(count)]


def _describe(runtime: Library, ordinal: int) -> Device:
    # 6.0 changed the structure and renamed the function that fills it.
    modern = runtime.has("hipGetDevicePropertiesR0600")
    properties = DevicePropertiesR0600() if modern else DevicePropertiesR0000()
    name = "hipGetDevicePropertiesR0600" if modern else "hipGetDeviceProperties"
    runtime.call(name, ctypes.byref(properties), ordinal)
    return Device(
        ordinal,
        properties.gcn_arch_name.decode("ascii", "replace").partition(":")[0],
        properties.name.decode("utf-8", "replace").strip(),
        properties.total_global_mem,
        properties.warp_size,
    )


def place_on_bus(runtime: Library, ordinal: int) -> str:
    """Return a GPU's PCI address (`0000:03:00.0`), or "" if HIP does not provide it."""
    text = ctypes.create_string_buffer(_PLACE_BYTES)
    if not runtime.has("hipDeviceGetPCIBusId"):
        return ""
    if runtime.status_of("hipDeviceGetPCIBusId", text, len(text), ordinal) != SUCCESS:
        return ""
    place = text.value.decode("ascii", "replace").lower()
    return place if _PLACE.fullmatch(place) else ""


def _why_none(answer: str) -> str:
    if os.name == "posix":
        # The kernel driver's device file; under WSL 2 it is /dev/dxg.
        if not os.path.exists("/dev/kfd") and not os.path.exists("/dev/dxg"):
            return f"{NO_GPU}: /dev/kfd does not exist ({answer})"
        if os.path.exists("/dev/kfd") and not os.access("/dev/kfd", os.R_OK | os.W_OK):
            why = "no permission to open /dev/kfd; join the `render` group"
            return f"{NO_GPU} for this user: {why} ({answer})"
    return f"{NO_GPU}: {answer}"

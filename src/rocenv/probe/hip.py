"""The C interfaces of HIP, hipRTC and rocBLAS: prototypes, constants and structures.

Only the child process of a rung imports this.

Source: ROCm/HIP include/hip/hip_runtime_api.h and hiprtc.h (rocm-5.7.1, 6.0.0, 6.2.0, develop);
ROCm/rocBLAS library/include/internal/rocblas-{types,functions,auxiliary}.h.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from rocenv.probe.device import BlasCalls, RuntimeCalls
from rocenv.probe.library import Interface, named_by

NO_DEVICE = 100  # hipErrorNoDevice
INVALID_DEVICE = 101  # hipErrorInvalidDevice: what hipInit answers without a kernel driver in some releases
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2
_OPERATION_NONE = 111
_F16_R, _F32_R = 150, 151
_GEMM_ALGO_STANDARD, _NO_SOLUTION_INDEX, _GEMM_FLAGS_NONE = 0, 0, 0

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
INTERFACES = {
    "hip": Interface(PROTOTYPES, named_by("hipGetErrorName")),
    "hiprtc": Interface(PROTOTYPES, named_by("hiprtcGetErrorString")),
    "rocblas": Interface(PROTOTYPES, named_by("rocblas_status_to_string")),
}
RUNTIME = RuntimeCalls(
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

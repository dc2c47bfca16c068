"""CUDA's driver API and cuBLAS, from ZLUDA or NVIDIA: prototypes, constants, and GPU selection.

Only the child process of a rung imports this.

Source: https://docs.nvidia.com/cuda/cuda-driver-api/ and https://docs.nvidia.com/cuda/cublas/ (11.8, 13.0);
lshqqytiger/ZLUDA@5e71745 zluda/src/cuda.rs and zluda_blas/src/lib.rs for the functions that ZLUDA implements.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_void_p
from typing import TYPE_CHECKING, Any

from rocenv.core.variables import VISIBLE
from rocenv.probe import hip
from rocenv.probe.device import BlasCalls, Failure, NoDevice, RuntimeCalls, count_devices
from rocenv.probe.library import SUCCESS, status_names_from
from rocenv.probe.wire import NO_GPU

if TYPE_CHECKING:
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
# Source: lshqqytiger/ZLUDA@5e71745:zluda/src/impl/device.rs
_ZLUDA = "[ZLUDA]"
_NAME_BYTES = 256
ATTRIBUTE_INTEGRATED = 18
_OPERATION_NONE = 0
_R_16F = 2
_COMPUTE_32F = 68
_GEMM_DEFAULT = -1
# CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: otherwise parts of a float16 product may be summed in
# float16.
_MATH_FULL_REDUCTION = 16

_out = c_void_p  # an output pointer; ctypes accepts byref() and buffers for it
_device_address = c_void_p  # CUdeviceptr, 64 bits
_matrix = [c_void_p, c_int]  # address, leading dimension
_typed_matrix = [c_void_p, c_int, c_int]  # address, type, leading dimension
_shape = [c_void_p, c_int, c_int, c_int, c_int, c_int]  # handle, operations of A and B, m, n, k

# name -> argument types; every function returns a status, 0 for success.
PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxSynchronize": [],
    "cuMemAlloc_v2": [POINTER(_device_address), c_size_t],
    "cuMemFree_v2": [_device_address],
    "cuMemcpyHtoD_v2": [_device_address, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, _device_address, c_size_t],
    "cuMemsetD8_v2": [_device_address, c_ubyte, c_size_t],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p],
    "cuModuleUnload": [c_void_p],
    "cublasCreate_v2": [POINTER(c_void_p)],
    "cublasDestroy_v2": [c_void_p],
    "cublasSetMathMode": [c_void_p, c_int],
    "cublasSgemm_v2": [*_shape, _out, *_matrix, *_matrix, _out, *_matrix],
    "cublasGemmEx": [*_shape, _out, *_typed_matrix, *_typed_matrix, _out, *_typed_matrix, c_int, c_int],
}


def _driver_status_name(library: Library, status: int) -> str:
    if not library.has("cuGetErrorName"):
        return ""
    name = c_char_p()
    answered = library.function("cuGetErrorName", c_int, c_int, POINTER(c_char_p))(status, ctypes.byref(name))
    return (name.value or b"").decode("utf-8", "replace") if answered == SUCCESS else ""


STATUS_NAMES = {"nvcuda": _driver_status_name, "cublas": status_names_from("cublasGetStatusName")}
RUNTIME = RuntimeCalls(
    role="nvcuda",
    allocate="cuMemAlloc_v2",
    free="cuMemFree_v2",
    upload="cuMemcpyHtoD_v2",
    download="cuMemcpyDtoH_v2",
    fill="cuMemsetD8_v2",
    memory_info="cuMemGetInfo_v2",
    synchronize="cuCtxSynchronize",
    load_module="cuModuleLoadData",
    find_function="cuModuleGetFunction",
    launch="cuLaunchKernel",
    unload_module="cuModuleUnload",
)
BLAS = BlasCalls(
    role="cublas",
    create="cublasCreate_v2",
    destroy="cublasDestroy_v2",
    settings=(("cublasSetMathMode", _MATH_FULL_REDUCTION),),
    sgemm="cublasSgemm_v2",
    gemm_ex="cublasGemmEx",
    no_transpose=_OPERATION_NONE,
    float16=_R_16F,
    result_apart=False,
    computation=(_COMPUTE_32F, _GEMM_DEFAULT),
)
# Our kernel for the `gemm` rung, with the same arguments and launch dimensions as gemm.SOURCE. It uses only
# what every PTX compiler supports: no shared memory, no instruction newer than sm_30.
KERNEL = b"""\
// C = A * B, row-major n x n, n a multiple of 16.
// Launch 16x16 threads on an (n/16) x (n/16) grid.
.version 6.0
.target sm_30
.address_size 64

.visible .entry sgemm(
    .param .u64 sgemm_A,
    .param .u64 sgemm_B,
    .param .u64 sgemm_C,
    .param .u32 sgemm_n
)
{
    .reg .pred %more;
    .reg .b32 %n;
    .reg .b32 %x;
    .reg .b32 %y;
    .reg .b32 %group;
    .reg .b32 %column;
    .reg .b32 %row;
    .reg .b32 %at;
    .reg .b32 %k;
    .reg .b64 %a;
    .reg .b64 %b;
    .reg .b64 %c;
    .reg .b64 %offset;
    .reg .b64 %stride;
    .reg .f32 %left;
    .reg .f32 %right;
    .reg .f32 %sum;

    ld.param.u64 %a, [sgemm_A];
    ld.param.u64 %b, [sgemm_B];
    ld.param.u64 %c, [sgemm_C];
    ld.param.u32 %n, [sgemm_n];
    cvta.to.global.u64 %a, %a;
    cvta.to.global.u64 %b, %b;
    cvta.to.global.u64 %c, %c;

    mov.u32 %x, %tid.x;
    mov.u32 %group, %ctaid.x;
    mad.lo.s32 %column, %group, 16, %x;
    mov.u32 %y, %tid.y;
    mov.u32 %group, %ctaid.y;
    mad.lo.s32 %row, %group, 16, %y;

    // a = &A[row][0], b = &B[0][column], c = &C[row][column]
    mul.lo.s32 %at, %row, %n;
    mul.wide.s32 %offset, %at, 4;
    add.s64 %a, %a, %offset;
    mul.wide.s32 %offset, %column, 4;
    add.s64 %b, %b, %offset;
    add.s32 %at, %at, %column;
    mul.wide.s32 %offset, %at, 4;
    add.s64 %c, %c, %offset;
    mul.wide.s32 %stride, %n, 4;

    mov.f32 %sum, 0f00000000;
    mov.u32 %k, 0;
step:
    ld.global.f32 %left, [%a];
    ld.global.f32 %right, [%b];
    fma.rn.f32 %sum, %left, %right, %sum;
    add.s64 %a, %a, 4;
    add.s64 %b, %b, %stride;
    add.s32 %k, %k, 1;
    setp.lt.s32 %more, %k, %n;
    @%more bra step;

    st.global.f32 [%c], %sum;
    ret;
}
"""


def open_device(session: Session) -> str:
    """Make the first device current, as programs do, and describe it.

    Raises:
        NoDevice: There is no device.
        Failure: The device is not ZLUDA's or has a different target, or HIP sees a GPU that ZLUDA does not.
    """
    driver = session.library("nvcuda")
    zluda = "hip" in session.task.libraries
    try:
        count = count_devices(driver, "cuInit", "cuDeviceGetCount", (NO_DEVICE,), f"{NO_GPU}: {{}}".format)
    except NoDevice as error:
        if zluda:
            _require_blind_hip(session, str(error))
        raise
    device, name, memory = ctypes.c_int(0), ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_size_t(0)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDeviceGetName", name, len(name), device)
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    shown = name.value.decode("utf-8", "replace").strip() or "an unnamed GPU"
    if zluda:
        if not shown.endswith(_ZLUDA):
            raise Failure(f"nvcuda is not ZLUDA's: its device name `{shown}` does not contain {_ZLUDA}")
        _require_target(session, driver, device)
    target = session.task.target if zluda else "target not checked (no HIP)"
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    return f"{shown}, {target}, {memory.value / 2**30:.1f} GiB, the first of {count}"


def _require_blind_hip(session: Session, answer: str) -> None:
    """Raise Failure if HIP finds a GPU but ZLUDA found none, because ZLUDA is then incompatible."""
    try:
        found = hip.devices(session.library("hip"))
    except NoDevice:
        return
    seen = ", ".join(f"{each.name} ({each.target})" for each in found)
    raise Failure(
        f"HIP sees {seen}, but ZLUDA does not ({answer.removeprefix(NO_GPU + ': ')}); "
        "the build may be too old for the display driver"
    )


def _require_target(session: Session, driver: Library, device: ctypes.c_int) -> None:
    """Raise Failure unless HIP's first GPU, which is also ZLUDA's, has the set's target."""
    found = hip.devices(session.library("hip"))
    target, first = session.task.target, found[0]
    if first.target == target:
        return
    integrated = " integrated" if _is_integrated(driver, device) else ""
    text = f"the first{integrated} GPU is {first.name} ({first.target}), but the set is for {target}"
    right = [each for each in found if each.target == target]
    if not right:
        raise Failure(text)
    number = _number(right[0].ordinal)
    raise Failure(
        f"{text}, which is {right[0].name}: set {VISIBLE}={number} to use that one; "
        "if the env sets the variable, recreate the env on this machine from its lock"
    )


def _number(ordinal: int) -> str:
    """Return the HIP_VISIBLE_DEVICES value that selects a visible GPU, given its current number."""
    visible = [each.strip() for each in os.environ.get(VISIBLE, "").split(",")]
    return visible[ordinal] if ordinal < len(visible) and visible[ordinal] else str(ordinal)


def _is_integrated(driver: Library, device: ctypes.c_int) -> bool:
    answer = ctypes.c_int(0)
    status = driver.status_of("cuDeviceGetAttribute", ctypes.byref(answer), ATTRIBUTE_INTEGRATED, device)
    return status == 0 and answer.value == 1

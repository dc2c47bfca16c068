"""The GPU that programs for CUDA get: through ZLUDA, and then the one of HIP behind it, or NVIDIA's own."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from rocenv.core.model import VISIBLE
from rocenv.probe import cuda, hip_device
from rocenv.probe.device import Failure, NoDevice
from rocenv.probe.wire import NO_GPU

if TYPE_CHECKING:
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session

# Source: lshqqytiger/ZLUDA@5e71745:zluda/src/impl/device.rs
_ZLUDA = "[ZLUDA]"
_NAME_BYTES = 256


def open_device(session: Session) -> str:
    """Make the first device current, the one that programs take, and describe it.

    Raises:
        NoDevice: There is none.
        Failure: It is not ZLUDA's, its target is another, or HIP sees a GPU that ZLUDA does not.
    """
    driver = session.library("nvcuda")
    zluda = "hip" in session.task.libraries
    try:
        count = _count(driver)
    except NoDevice as error:
        if zluda:
            _require_blind_hip(session, str(error))
        raise
    device, name, memory = ctypes.c_int(0), ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_size_t(0)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDeviceGetName", name, len(name), device)
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    shown = name.value.decode("utf-8", "replace").strip() or "a GPU without a name"
    if zluda:
        if not shown.endswith(_ZLUDA):
            raise Failure(f"nvcuda is not ZLUDA's: its device calls itself `{shown}`, without {_ZLUDA}")
        _require_target(session, driver, device)
    target = session.task.target if zluda else "target not compared, there is no HIP behind it"
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    return f"{shown}, {target}, {memory.value / 2**30:.1f} GiB, the first of {count}"


def _count(driver: Library) -> int:
    count = ctypes.c_int(0)
    for call, argument in (("cuInit", 0), ("cuDeviceGetCount", ctypes.byref(count))):
        status = driver.status_of(call, argument)
        if status == cuda.NO_DEVICE:
            raise NoDevice(f"{NO_GPU}: {call} answered {status} {driver.status_name(status)}".rstrip())
        driver.check(call, status)
    if count.value < 1:
        raise NoDevice(f"{NO_GPU}: cuDeviceGetCount found none")
    return count.value


def _require_blind_hip(session: Session, answer: str) -> None:
    """Raise Failure if HIP sees a GPU: then it is ZLUDA that does not get on with what is installed here."""
    try:
        found = hip_device.devices(session.library("hip"))
    except NoDevice:
        return
    seen = ", ".join(f"{each.name} ({each.target})" for each in found)
    raise Failure(
        f"HIP sees {seen}, ZLUDA does not ({answer.removeprefix(NO_GPU + ': ')}): "
        "is the build older than what the display driver asks for?"
    )


def _require_target(session: Session, driver: Library, device: ctypes.c_int) -> None:
    """Raise Failure unless the first GPU of HIP, which is ZLUDA's first, has the set's target."""
    found = hip_device.devices(session.library("hip"))
    target, first = session.task.target, found[0]
    if first.target == target:
        return
    integrated = " integrated" if _is_integrated(driver, device) else ""
    text = f"the first{integrated} GPU is {first.name} ({first.target}), the set is for {target}"
    right = [each for each in found if each.target == target]
    if not right:
        raise Failure(text)
    number = _number(right[0].ordinal)
    raise Failure(
        f"{text}, which {right[0].name} has: with {VISIBLE}={number} programs see that one; "
        "what the env sets itself is set anew by `rocenv create NEW --from LOCK` on this machine"
    )


def _number(ordinal: int) -> str:
    """Return what the variable calls the GPU that has this number among those that it lets programs see."""
    visible = [each.strip() for each in os.environ.get(VISIBLE, "").split(",")]
    return visible[ordinal] if ordinal < len(visible) and visible[ordinal] else str(ordinal)


def _is_integrated(driver: Library, device: ctypes.c_int) -> bool:
    answer = ctypes.c_int(0)
    status = driver.status_of("cuDeviceGetAttribute", ctypes.byref(answer), cuda.ATTRIBUTE_INTEGRATED, device)
    return status == 0 and answer.value == 1

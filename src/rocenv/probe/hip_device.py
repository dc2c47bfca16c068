"""GPUs as HIP describes them, and the one that a set is for."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.probe import hip
from rocenv.probe.device import Failure, NoDevice
from rocenv.probe.library import SUCCESS
from rocenv.probe.wire import NO_GPU

if TYPE_CHECKING:
    from rocenv.probe.library import Library
    from rocenv.probe.session import Session


_PLACE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLACE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the runtime describes it."""

    ordinal: int
    target: str  # without `:xnack-` and the like
    name: str
    memory_bytes: int
    wave: int


def open_device(session: Session) -> str:
    """Choose the first GPU of the right target and describe it; raise as `choose_device`."""
    device = choose_device(session)
    return (
        f"{device.name or 'a GPU without a name'}, {session.describe_target()}, "
        f"{device.memory_bytes / 2**30:.1f} GiB, wave {device.wave}"
    )


def choose_device(session: Session) -> Device:
    """Choose the first GPU of the right target, and make it current.

    Raises:
        NoDevice: There is none.
        Failure: None has the target.
    """
    runtime = session.library("hip")
    found = devices(runtime)
    for device in found:
        if device.target == session.target:
            runtime.call("hipSetDevice", device.ordinal)
            return device
    raise Failure(
        f"the GPU is {', '.join(device.target or '(nameless)' for device in found)}, "
        f"the set is for {session.describe_target()}"
    )


def devices(runtime: Library) -> list[Device]:
    """Return the GPUs that HIP sees, one at least; raise NoDevice where it sees none."""
    count = ctypes.c_int(0)
    for call, argument in (("hipInit", 0), ("hipGetDeviceCount", ctypes.byref(count))):
        status = runtime.status_of(call, argument)
        if status in (hip.NO_DEVICE, hip.INVALID_DEVICE):
            raise NoDevice(_why_none(f"{call} answered {status} {runtime.status_name(status)}".rstrip()))
        runtime.check(call, status)
    if count.value < 1:
        raise NoDevice(_why_none("hipGetDeviceCount found none"))
    return [_describe(runtime, ordinal) for ordinal in range(count.value)]


def _describe(runtime: Library, ordinal: int) -> Device:
    # 6.0 changed the structure and gave the function that fills it a new name.
    modern = runtime.has("hipGetDevicePropertiesR0600")
    properties = hip.DevicePropertiesR0600() if modern else hip.DevicePropertiesR0000()
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
    """Return where a GPU sits, `0000:03:00.0`, "" where HIP does not say."""
    text = ctypes.create_string_buffer(_PLACE_BYTES)
    if not runtime.has("hipDeviceGetPCIBusId"):
        return ""
    if runtime.status_of("hipDeviceGetPCIBusId", text, len(text), ordinal) != SUCCESS:
        return ""
    place = text.value.decode("ascii", "replace").lower()
    return place if _PLACE.fullmatch(place) else ""


def _why_none(answer: str) -> str:
    if os.name == "posix":
        # The kernel driver's door; under WSL 2 it is /dev/dxg.
        if not os.path.exists("/dev/kfd") and not os.path.exists("/dev/dxg"):
            return f"{NO_GPU}: there is no /dev/kfd ({answer})"
        if os.path.exists("/dev/kfd") and not os.access("/dev/kfd", os.R_OK | os.W_OK):
            return (
                f"{NO_GPU} for this user: no permission on /dev/kfd, is it in the group `render`? ({answer})"
            )
    return f"{NO_GPU}: {answer}"

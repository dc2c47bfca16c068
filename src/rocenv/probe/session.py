"""What the rungs of one child share: the task, the libraries it opened, and the device it works on."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.model import OVERRIDE
from rocenv.probe import hip, maps
from rocenv.probe.wire import NO_GPU, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 3


class Failure(Exception):
    """The rung failed; the text says how."""


class NoDevice(Exception):
    """There is no usable GPU; the text says why."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the runtime describes it."""

    ordinal: int
    target: str  # without `:xnack-` and the like
    name: str
    memory_bytes: int
    wave: int


class Session:
    """The state of one child.

    Attributes:
        before: The libraries that were mapped before any vendor library, None where that cannot be known.
        interposers: Functions of the vendor libraries that were there before them.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.before = maps.mapped_libraries()
        self.interposers = hip.interposers()
        self._libraries: dict[str, hip.Library] = {}

    @property
    def standin(self) -> bool:
        """One of the libraries in use is test equipment."""
        return any(library.standin for library in self._libraries.values())

    @property
    def target(self) -> str:
        """The target that code has to be compiled for: what the override pretends, else the set's own."""
        return overridden_target(os.environ.get(OVERRIDE, "")) or self.task.target

    @property
    def code_object(self) -> Path:
        """Where `compile` leaves the kernel and `kernel` and `gemm` find it."""
        return Path(self.task.work_dir, f"sgemm_{self.target}.co")

    def library(self, role: str) -> hip.Library:
        """Return the loaded library of a role; raise Failure if it cannot be loaded.

        HIP always comes first: the others ask for it by name, and get the one that is there already.
        """
        if role != "hip":
            self.library("hip")
        if role not in self._libraries:
            path = self.task.libraries.get(role)
            if path is None:
                raise Failure(f"the set has no library for `{role}`")
            try:
                self._libraries[role] = hip.Library(role, path)
            except OSError as error:
                raise Failure(f"{os.path.basename(path)} does not load: {error}") from error
        return self._libraries[role]

    def leaks(self) -> list[str]:
        """Return what is wrong with where the loaded libraries came from."""
        found = []
        if self.interposers:
            names = ", ".join(f"`{name}`" for name in self.interposers[:_SHOWN])
            more = f" and {len(self.interposers) - _SHOWN} more" if len(self.interposers) > _SHOWN else ""
            found.append(f"there before its library was loaded (LD_PRELOAD?): {names}{more}")
        now = maps.mapped_libraries()
        if self.before is not None and now is not None:
            found += [
                f"from outside the prefix: {path}" for path in maps.outsiders(self.before, now, self.task)
            ]
        return found

    def open_device(self) -> Device:
        """Choose the first GPU of the right target and make it current; raise NoDevice or Failure."""
        runtime = self.library("hip")
        devices = list(_devices(runtime))
        for device in devices:
            if device.target == self.target:
                runtime.call("hipSetDevice", device.ordinal)
                return device
        raise Failure(
            f"the GPU is {', '.join(device.target or '(nameless)' for device in devices)}, "
            f"the set is for {self.describe_target()}"
        )

    def describe_target(self) -> str:
        """Return the target, and where it is the override's, that it is."""
        if self.target == self.task.target:
            return self.target
        return f"{self.target} ({OVERRIDE}={os.environ[OVERRIDE]}, in place of {self.task.target})"


def overridden_target(value: str) -> str:
    """Return the target that a value of HSA_OVERRIDE_GFX_VERSION stands for, "" if it is none.

    Three decimals; the last two become hexadecimal digits: 9.0.10 is gfx90a.
    """
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return ""
    major, minor, step = map(int, parts)
    return f"gfx{major}{minor:x}{step:x}"


def _devices(runtime: hip.Library) -> Iterator[Device]:
    count = ctypes.c_int(0)
    for call, argument in (("hipInit", 0), ("hipGetDeviceCount", ctypes.byref(count))):
        status = runtime.status_of(call, argument)
        if status in (hip.NO_DEVICE, hip.INVALID_DEVICE):
            raise NoDevice(_why_no_device(f"{call} answered {status} {runtime.status_name(status)}".rstrip()))
        runtime.check(call, status)
    if count.value < 1:
        raise NoDevice(_why_no_device("hipGetDeviceCount found none"))
    # 6.0 changed the structure and gave the function that fills it a new name.
    modern = runtime.has("hipGetDevicePropertiesR0600")
    for ordinal in range(count.value):
        properties = hip.DevicePropertiesR0600() if modern else hip.DevicePropertiesR0000()
        name = "hipGetDevicePropertiesR0600" if modern else "hipGetDeviceProperties"
        runtime.call(name, ctypes.byref(properties), ordinal)
        yield Device(
            ordinal,
            properties.gcn_arch_name.decode("ascii", "replace").partition(":")[0],
            properties.name.decode("utf-8", "replace").strip(),
            properties.total_global_mem,
            properties.warp_size,
        )


def _why_no_device(answer: str) -> str:
    if os.name == "posix":
        # The kernel driver's door; under WSL 2 it is /dev/dxg.
        if not os.path.exists("/dev/kfd") and not os.path.exists("/dev/dxg"):
            return f"{NO_GPU}: there is no /dev/kfd ({answer})"
        if os.path.exists("/dev/kfd") and not os.access("/dev/kfd", os.R_OK | os.W_OK):
            return (
                f"{NO_GPU} for this user: no permission on /dev/kfd, is it in the group `render`? ({answer})"
            )
    return f"{NO_GPU}: {answer}"

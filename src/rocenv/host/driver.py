"""The kernel, its GPU driver, and whether this process may use what they offer."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from rocenv.host.gpu import printable
from rocenv.system.machine import access_errno, list_folder, open_errno, read_attribute

_KFD = "/dev/kfd"
_RIGHTS = "sudo usermod -aG render,video $USER   # then log in again"
KEPT_OUT = "start the container with `--device /dev/kfd --device /dev/dri`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What runs the GPUs of a machine."""

    kernel: str = ""  # version of the Linux kernel
    amdgpu: str = ""  # version of AMD's own build of the driver; "" = the kernel's
    loaded: bool = False  # amdgpu is there
    display: str = ""  # what Windows calls the version of the display driver, "32.0.12033.1030"
    release: str = ""  # of the display driver as AMD counts, "24.12.1"; "" = not known
    wsl: bool = False


class Barrier(NamedTuple):
    """Why a device cannot be used by this process, and what to do about it."""

    why: str
    remedy: str


def linux_driver() -> Driver:
    """What the kernel says of itself and of amdgpu."""
    text = read_attribute("/proc/version")[0]
    version = re.match(r"Linux version (\S+)", text)
    return Driver(
        kernel=printable(version[1]) if version else "",
        amdgpu=printable(read_attribute("/sys/module/amdgpu/version")[0]),
        loaded=bool(list_folder("/sys/module/amdgpu")),
        wsl="microsoft" in text.lower() and access_errno("/dev/dxg") != errno.ENOENT,
    )


def kfd_barrier() -> Barrier | None:
    """Why `/dev/kfd`, without which nothing computes, does not open; None where it does.

    It is really opened: in a container the mode says yes where the kernel says no.
    """
    error = open_errno(_KFD)
    if error == 0:
        return None
    if error == errno.ENOENT:
        return Barrier(why=f"`{_KFD}` is not there, as in a container that was not given it", remedy=KEPT_OUT)
    if error == errno.EACCES:
        return Barrier(why=f"no permission to open `{_KFD}`", remedy=_RIGHTS)
    if error == errno.EPERM:
        return Barrier(why=f"the container's rules forbid `{_KFD}`", remedy=KEPT_OUT)
    name = errno.errorcode.get(error, str(error))
    return Barrier(
        why=f"`{_KFD}` does not open: {name} ({os.strerror(error)}), which is no matter of permissions",
        remedy="sudo dmesg | grep -iE 'kfd|amdgpu' | tail   # of the host, where this is a container",
    )


def render_barrier(minor: int) -> Barrier | None:
    """Why a GPU's render node cannot be used, going by its mode; None where it can."""
    path = f"/dev/dri/renderD{minor}"
    error = access_errno(path)
    if error == errno.ENOENT:
        return Barrier(why=f"`{path}` is not there, as in a container that was not given it", remedy=KEPT_OUT)
    return Barrier(why=f"no permission for `{path}`", remedy=_RIGHTS) if error else None

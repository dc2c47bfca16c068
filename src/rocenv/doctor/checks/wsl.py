"""Checks of Linux on Windows (WSL 2): its device, the driver of Windows, and what ROCm reaches the GPU by.

`CHECKS` are rows of the table.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from rocenv.core.versions import lowest
from rocenv.doctor.check import Check
from rocenv.doctor.checks.windows import envs_of
from rocenv.doctor.env_files import files_of
from rocenv.doctor.seen import Seen
from rocenv.host.wsl import interop_is_off
from rocenv.resolve.drivers import display_is_older, wsl_needs
from rocenv.system.machine import access_errno, list_folder, read_attribute

if TYPE_CHECKING:
    from rocenv.doctor.scene import Env, Scene

_DEVICE = "/dev/dxg"
_SWITCH = "HSA_ENABLE_DXG_DETECTION"
_FOLDERS = ("/opt/rocm/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib")
# What reaches the GPU: a library, and in older releases a package in place of the runtime.
_LIBRARY = "librocdxg.so"
_PACKAGE = "hsa-runtime-rocr4wsl-amdgpu"


def wsl_without_gpu(_scene: Scene) -> Seen | None:
    """Linux on Windows to which Windows gives no GPU."""
    if not is_wsl() or access_errno(_DEVICE) != errno.ENOENT:
        return None
    return Seen("wsl_without_gpu", {}, (_kernel_line(), _DEVICE))


def wsl_windows_silent(scene: Scene) -> Seen | None:
    """Windows did not say which GPUs there are, most often since interop is off."""
    host = scene.host
    if not host.driver.wsl or host.gpus or host.named or host.driver.display:
        return None
    return Seen("wsl_interop_off" if interop_is_off() else "wsl_windows_silent", {}, (host.why,))


def wsl_driver_old(scene: Scene) -> Seen | None:
    """The display driver of Windows is older than what the ROCm of an env needs, or the newest ROCm."""
    display = scene.host.driver.display
    if not scene.host.driver.wsl or not display:
        return None
    releases = [env.rocm for env in envs_of(scene) if env.rocm]
    for rocm in releases or [lowest(row.rocm) for row in scene.matrix.wsl if "<" not in row.rocm]:
        row = wsl_needs(rocm, scene.matrix)
        if row is not None and display_is_older(display, row.driver_file):
            values = {"driver": scene.host.driver.release or display, "rocm": rocm}
            values |= {"oldest": row.driver, "file": row.driver_file}
            return Seen("wsl_driver_old", values, (f"{display} < {row.driver_file}",))
    return None


def wsl_without_runtime(scene: Scene) -> Seen | None:
    """Linux on Windows with a GPU, and no ROCm that knows how to reach it there."""
    if not scene.host.driver.wsl or scene.asked or _in_system() or any(map(_in_env, scene.envs)):
        return None
    return Seen("wsl_without_runtime", {}, (_kernel_line(),))


def wsl_env_without_library(scene: Scene) -> Seen | None:
    """The ROCm of the env has not what it needs to reach the GPU, and neither has the machine."""
    env = scene.asked
    row = wsl_needs(env.rocm, scene.matrix) if env and env.rocm else None
    if env is None or row is None or not scene.host.driver.wsl or not files_of(env) or _in_env(env):
        return None
    if row.library != "none" and _in_system():
        return None
    tells = "wsl_env_without_library" if row.library == "separate" else "wsl_env_unfit"
    return Seen(tells, {"env": env.name, "rocm": env.rocm}, (f"{env.prefix.path}: no {_LIBRARY}",))


def wsl_detection_off(scene: Scene) -> Seen | None:
    """A variable keeps ROCm from looking for the GPU, or is not set where an older ROCm needs it."""
    if not scene.host.driver.wsl:
        return None
    value = scene.environ.get(_SWITCH)
    if value == "0":
        return Seen("wsl_detection_off", {"value": value}, (f"{_SWITCH}={value}",))
    rows = {version: wsl_needs(version, scene.matrix) for version in _system_versions()}
    old = [version for version, row in rows.items() if row is not None and row.switched]
    if value == "1" or not old or not _in_system():
        return None
    return Seen("wsl_detection_unset", {"rocm": old[0]}, (f"/opt/rocm-{old[0]}, {_SWITCH}: {value or '-'}",))


def is_wsl() -> bool:
    """Tell whether the machine is Linux on Windows, of whichever version."""
    return "microsoft" in _kernel_line().lower()


def _in_env(env: Env) -> bool:
    return any(path.rpartition("/")[2].startswith(_LIBRARY) for path in files_of(env))


def _in_system() -> bool:
    """Whether the system has a ROCm that can reach the GPU."""
    folders = [*_FOLDERS, *(f"/opt/{name}/lib" for name in list_folder("/opt") if "rocm" in name)]
    if any(name.startswith(_LIBRARY) for folder in folders for name in list_folder(folder)):
        return True
    return f"Package: {_PACKAGE}\n" in read_attribute("/var/lib/dpkg/status", 64 << 20)[0]


def _system_versions() -> list[str]:
    """Return the versions of ROCm in /opt, as its folders are called."""
    found = (re.fullmatch(r"rocm-([0-9]+(?:\.[0-9]+)+)", name) for name in list_folder("/opt"))
    return [match[1] for match in found if match]


def _kernel_line() -> str:
    return read_attribute("/proc/version")[0].partition(" (")[0].strip()


CHECKS: tuple[Check, ...] = (
    Check("wsl_without_gpu", wsl_without_gpu, "linux"),
    Check("wsl_windows_silent", wsl_windows_silent, "linux"),
    Check("wsl_driver_old", wsl_driver_old, "linux"),
    Check("wsl_without_runtime", wsl_without_runtime, "linux"),
    Check("wsl_env_without_library", wsl_env_without_library, "linux", of_env=True),
    Check("wsl_detection_off", wsl_detection_off, "linux"),
)

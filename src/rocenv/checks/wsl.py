"""WSL 2 checks: the GPU device, the Windows driver, and the library through which ROCm uses the GPU."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from rocenv.checks.context import short_name
from rocenv.checks.env import files_of
from rocenv.core.versions import lowest, version_of
from rocenv.findings import Observation
from rocenv.host.ranking import called
from rocenv.host.wsl import CARD_EXAMPLE, interop_is_off
from rocenv.resolve.drivers import display_is_older, named_driver, wsl_needs
from rocenv.system.machine import access_errno, list_folder, read_attribute

if TYPE_CHECKING:
    from rocenv.checks.context import CheckContext, Env
    from rocenv.data.knowledge import WslNeeds

_DEVICE = "/dev/dxg"
_SWITCH = "HSA_ENABLE_DXG_DETECTION"
_FOLDERS = ("/opt/rocm/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib")
# ROCm uses the GPU through a library; older releases use a package that replaces the runtime.
_LIBRARY = "librocdxg.so"
_PACKAGE = "hsa-runtime-rocr4wsl-amdgpu"


def wsl_without_gpu(_context: CheckContext) -> Observation | None:
    """This WSL instance has no access to a GPU."""
    if not is_wsl() or access_errno(_DEVICE) != errno.ENOENT:
        return None
    return Observation("wsl_without_gpu", {}, (_kernel_line(), _DEVICE))


def wsl_windows_silent(context: CheckContext) -> Observation | None:
    """Windows did not report its GPUs, usually because interop is off."""
    host = context.host
    if not host.driver.wsl or host.gpus or host.named or host.driver.display:
        return None
    return Observation("wsl_interop_off" if interop_is_off() else "wsl_windows_silent", {}, (host.why,))


def wsl_driver_old(context: CheckContext) -> Observation | None:
    """The Windows display driver is too old for an env's ROCm or, without envs, for any ROCm on WSL."""
    display = context.host.driver.display
    if not context.host.driver.wsl or not display:
        return None
    releases = [env.rocm for env in context.relevant_envs if env.rocm]
    for rocm in releases or [lowest(row.rocm) for row in _newest_needs(context)]:
        row = wsl_needs(rocm, context.matrix)
        if row is not None and display_is_older(display, row):
            values = {"driver": context.host.driver.release or display, "rocm": rocm}
            values |= {"oldest": row.driver, "file": row.driver_file}
            return Observation("wsl_driver_old", values, (f"{display} < {row.driver_file}",))
    return None


def wsl_gpu_unlisted(context: CheckContext) -> Observation | None:
    """AMD does not list the GPU as supported on WSL."""
    gpu, rows = context.host.gpu, _newest_needs(context)
    if not context.host.driver.wsl or gpu is None or not gpu.target or not rows:
        return None
    if not rows[0].targets or gpu.target in rows[0].targets:
        return None
    return Observation("wsl_gpu_unlisted", {"gpu": short_name(gpu), "gfx": gpu.target}, (called(gpu),))


def wsl_without_runtime(context: CheckContext) -> Observation | None:
    """This WSL distribution has a GPU but no ROCm installation that can use it."""
    if not context.host.driver.wsl or context.env or _in_system() or any(map(_in_env, context.envs)):
        return None
    included = [row for row in context.matrix.wsl if row.library == "included"]
    if not included:
        return None
    oldest = min((lowest(row.rocm) for row in included), key=version_of)
    newest = max(included, key=lambda row: version_of(lowest(row.rocm)))
    command = "rocenv create --torch"
    if context.host.gpu is None:
        command += f" {CARD_EXAMPLE}   # use your card"
    values = {"rocm": oldest, "driver": named_driver(newest)}
    return Observation("wsl_without_runtime", values, (_kernel_line(),), commands={"create": command})


def wsl_env_without_library(context: CheckContext) -> Observation | None:
    """Neither the env nor the system has the library through which ROCm uses the GPU."""
    env = context.env
    row = wsl_needs(env.rocm, context.matrix) if env and env.rocm else None
    if env is None or row is None or not context.host.driver.wsl or not files_of(env) or _in_env(env):
        return None
    if row.library != "none" and _in_system():
        return None
    name = "wsl_env_without_library" if row.library == "separate" else "wsl_env_unfit"
    return Observation(name, {"env": env.name, "rocm": env.rocm}, (f"{env.prefix.path}: no {_LIBRARY}",))


def wsl_detection_off(context: CheckContext) -> Observation | None:
    """A variable keeps ROCm from detecting the GPU, or is unset although the system's old ROCm needs it."""
    if not context.host.driver.wsl:
        return None
    value = context.environ.get(_SWITCH)
    if value == "0":
        return Observation("wsl_detection_off", {"value": value}, (f"{_SWITCH}={value}",))
    rows = {version: wsl_needs(version, context.matrix) for version in _system_versions()}
    old = [version for version, row in rows.items() if row is not None and row.switched]
    if value == "1" or not old or not _in_system():
        return None
    return Observation(
        "wsl_detection_unset", {"rocm": old[0]}, (f"/opt/rocm-{old[0]}, {_SWITCH}: {value or '-'}",)
    )


def _newest_needs(context: CheckContext) -> list[WslNeeds]:
    """The requirements of the newest ROCm releases."""
    return [row for row in context.matrix.wsl if "<" not in row.rocm]


def is_wsl() -> bool:
    """Whether the machine is WSL, version 1 or 2."""
    return "microsoft" in _kernel_line().lower()


def _in_env(env: Env) -> bool:
    return any(path.rpartition("/")[2].startswith(_LIBRARY) for path in files_of(env))


def _in_system() -> bool:
    """Whether the system has a ROCm installation that can use the GPU."""
    folders = [*_FOLDERS, *(f"/opt/{name}/lib" for name in list_folder("/opt") if "rocm" in name)]
    if any(name.startswith(_LIBRARY) for folder in folders for name in list_folder(folder)):
        return True
    return f"Package: {_PACKAGE}\n" in read_attribute("/var/lib/dpkg/status", 64 << 20)[0]


def _system_versions() -> list[str]:
    """The ROCm versions in /opt, by folder name."""
    found = (re.fullmatch(r"rocm-([0-9]+(?:\.[0-9]+)+)", name) for name in list_folder("/opt"))
    return [match[1] for match in found if match]


def _kernel_line() -> str:
    return read_attribute("/proc/version")[0].partition(" (")[0].strip()

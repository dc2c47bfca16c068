"""Windows checks: the C++ runtime, quarantined files, ROCENV_HOME, and libraries on PATH."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.checks.windows import path_folders
from rocenv.core.errors import PrefixError
from rocenv.core.versions import allows
from rocenv.findings import Observation
from rocenv.host.defender import excluded, history, watches
from rocenv.host.registry import paths_are_limited
from rocenv.host.system32 import is_system_folder, names_in, system_libraries
from rocenv.install.path_length import refuse_long
from rocenv.preload import zluda_of
from rocenv.system.machine import cloud_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.checks.context import CheckContext
    from rocenv.host.defender import Quarantined

_CUDA_DRIVER = "nvcuda.dll"  # NVIDIA's is in System32; ZLUDA's is anywhere else
_NVIDIA = "NVIDIA"
_SHOWN = 10


def vc_runtime_missing(context: CheckContext) -> Observation | None:
    """Visual C++ runtime libraries are missing from System32."""
    there = system_libraries()
    missing = [name for name in context.threshold("vc_runtime") if there is not None and name not in there]
    if not missing:
        return None
    return Observation("vc_runtime_missing", {"libraries": ", ".join(missing)})


def vc_runtime_old(context: CheckContext) -> Observation | None:
    """The Visual C++ runtime is older than the one that newer libraries require."""
    oldest = context.threshold("vc_runtime_oldest")[0]
    there = system_libraries() or {}
    for name in context.threshold("vc_runtime"):
        version = there.get(name, "")
        if version and allows(f"<{oldest}", version):
            return Observation(
                "vc_runtime_old", {"version": version, "oldest": oldest}, (rf"System32\{name}: {version}",)
            )
    return None


def defender_took(context: CheckContext) -> tuple[Observation, ...]:
    """Microsoft Defender quarantined files from an env or any copy of ZLUDA, and they are still missing."""
    names = {name.lower() for row in context.matrix.zluda for name in row.files}
    envs = os.path.join(str(context.home.envs), "")
    taken = [
        each
        for each in history()
        if _is_below(each.path, envs) or ntpath.basename(each.path).lower() in names
        if context.elsewhere or _is_gone(each.path)
    ]
    found = []
    for env in context.relevant_envs:
        folder = os.path.join(str(env.prefix.path), "")
        own = [each for each in taken if _is_below(each.path, folder)]
        taken = [each for each in taken if each not in own]
        if own:
            found.append(_took("defender_took_of_env", own, {"env": env.name, "home": _home(context)}))
    if taken:
        found.append(_took("defender_took_zluda", taken, {"folder": ntpath.dirname(taken[0].path)}))
    return tuple(found)


def _took(row: str, taken: list[Quarantined], values: dict[str, str]) -> Observation:
    values |= {"file": ntpath.basename(taken[0].path), "threat": taken[0].threat}
    return Observation(
        row, values, tuple(f"{each.when} {each.threat}: {each.path}" for each in taken[:_SHOWN])
    )


def _is_below(path: str, folder: str) -> bool:
    return ntpath.normcase(path).startswith(ntpath.normcase(folder))


def _is_gone(path: str) -> bool:
    """Whether a file is missing from an existing folder. If both are missing, the user removed them."""
    native = path.replace("\\", os.sep)
    return os.path.isdir(os.path.dirname(native)) and not os.path.lexists(native)


def defender_not_told(context: CheckContext) -> Observation | None:
    """Defender scans the folder with the envs, and tends to quarantine ZLUDA's files."""
    home = _home(context)
    if not _has_zluda(context) or not watches() or excluded(home) is not False:
        return None
    return Observation("defender_not_told", {"home": home})


def home_too_deep(context: CheckContext) -> Observation | None:
    """ROCENV_HOME is so long that paths below it exceed Windows' path limit."""
    if not paths_are_limited():
        return None
    home = _home(context)
    try:
        refuse_long(Path(home), [context.threshold("deepest_path")[0]])
    except PrefixError:
        return Observation("home_too_deep", {"home": home, "length": str(len(home))}, (home,))
    return None


def home_in_cloud(context: CheckContext) -> Observation | None:
    """ROCENV_HOME is in a folder that a cloud service synchronizes."""
    home = _home(context)
    around = "" if context.elsewhere else cloud_folder(context.home.envs)
    for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial"):
        folder = context.variable(name)
        if folder and _is_below(home + "\\", folder.rstrip("\\") + "\\"):
            around = around or folder
    around = around or _folder_named_like_a_cloud(home, context.threshold("cloud_folders"))
    return Observation("home_in_cloud", {"home": home, "folder": around}, (home,)) if around else None


def _folder_named_like_a_cloud(home: str, names: Iterable[str]) -> str:
    r"""The parent folder named after a cloud service, such as `Dropbox (Team)`, or ""."""
    known = [name.lower() for name in names]
    parts = home.split("\\")
    for count, part in enumerate(map(str.lower, parts), 1):
        if any(part == name or part.startswith(f"{name} (") for name in known):
            return "\\".join(parts[:count])
    return ""


def other_zluda_on_path(context: CheckContext) -> Observation | None:
    """PATH contains other ZLUDA or CUDA libraries; in `launch`, only if they precede the env's."""
    if context.launch is not None:
        return _before_the_env(context)
    if not _has_zluda(context):
        return None
    wanted = {_CUDA_DRIVER} | {
        file.stands_for.lower() for row in context.matrix.shim_map for file in row.files
    }
    for folder in path_folders(context):
        found = sorted(wanted & (names_in(folder) or frozenset()))
        if found and not is_system_folder(folder, context.variable("SYSTEMROOT")):
            return Observation("other_zluda_on_path", {"folder": folder, "library": found[0]}, tuple(found))
    return None


def _before_the_env(context: CheckContext) -> Observation | None:
    env = context.the_env
    build = zluda_of(env.record.lock)
    names = build.shims.driver if build and build.shims else ()
    for folder in filter(None, context.the_launch.start.environ.get("PATH", "").split(os.pathsep)):
        if _is_below(os.path.join(os.path.abspath(folder), ""), os.path.join(str(env.prefix.path), "")):
            return None  # programs find the env's libraries first
        found = [name for name in names if os.path.isfile(os.path.join(folder, name))]
        if found:
            return Observation("other_zluda_on_path", {"folder": folder, "library": found[0]}, tuple(found))
    return None


def zluda_in_system32(context: CheckContext) -> Observation | None:
    """System32 has a CUDA driver library, which CUDA programs load, but there is no NVIDIA GPU."""
    there = system_libraries() or {}
    if _CUDA_DRIVER not in there or _NVIDIA in context.host.others or not context.host.gpus:
        return None
    evidence = rf"System32\{_CUDA_DRIVER}: {there[_CUDA_DRIVER]}".removesuffix(": ")
    return Observation("zluda_in_system32", {"library": _CUDA_DRIVER}, (evidence,))


def other_hip_on_path(context: CheckContext) -> Observation | None:
    """A folder on PATH that is not a HIP SDK contains a copy of the HIP runtime."""
    for folder in path_folders(context):
        names = names_in(folder) or frozenset()
        found = sorted(name for name in names if name.startswith("amdhip64"))
        is_sdk = any(name.startswith("hiprtc") for name in names)
        if found and not is_sdk and not is_system_folder(folder, context.variable("SYSTEMROOT")):
            return Observation("other_hip_on_path", {"folder": folder, "library": found[0]}, tuple(found))
    return None


def _home(context: CheckContext) -> str:
    """ROCENV_HOME on the machine being examined."""
    return (context.variable("ROCENV_HOME") if context.elsewhere else "") or str(context.home.path)


def _has_zluda(context: CheckContext) -> bool:
    return any(part.kind == "zluda" for env in context.relevant_envs for part in env.record.lock.components)

r"""Checks of what lies on a Windows machine: the C++ runtime, what Defender took, paths, libraries on PATH.

`CHECKS` are rows of the table. Of an examined machine: `windows/system32.json` and
`folders.json` (`host/system32.py`), `registry.json` (`host/registry.py`) and `defender.xml`
(`host/defender.py`); its ROCENV_HOME, PATH and OneDrive are among the scene's variables.
"""

from __future__ import annotations

import ntpath
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.core.versions import allows
from rocenv.doctor.check import Check
from rocenv.doctor.checks.windows import envs_of, path_folders, variable
from rocenv.doctor.seen import Seen
from rocenv.host.defender import excluded, history, watches
from rocenv.host.registry import paths_are_limited
from rocenv.host.system32 import is_system_folder, names_in, system_libraries
from rocenv.install.path_length import refuse_long
from rocenv.system.machine import cloud_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.doctor.scene import Env, Scene
    from rocenv.host.defender import Quarantined

_DRIVER = "nvcuda.dll"  # of CUDA, by name: NVIDIA's lies in System32, a ZLUDA's anywhere else
_NVIDIA = "NVIDIA"
_SHOWN = 10


def vc_runtime_missing(scene: Scene) -> Seen | None:
    """Libraries of the Visual C++ runtime that are not in System32."""
    there = system_libraries()
    missing = [name for name in scene.gauge("vc_runtime") if there is not None and name not in there]
    if not missing:
        return None
    return Seen("vc_runtime_missing", {"libraries": ", ".join(missing)})


def vc_runtime_old(scene: Scene) -> Seen | None:
    """A Visual C++ runtime that is older than what newer libraries are built with."""
    oldest = scene.gauge("vc_runtime_oldest")[0]
    there = system_libraries() or {}
    for name in scene.gauge("vc_runtime"):
        version = there.get(name, "")
        if version and allows(f"<{oldest}", version):
            return Seen(
                "vc_runtime_old", {"version": version, "oldest": oldest}, (rf"System32\{name}: {version}",)
            )
    return None


def defender_took(scene: Scene) -> tuple[Seen, ...]:
    """Files of an env, or of a ZLUDA anywhere, that Microsoft Defender took and that did not come back."""
    names = {name.lower() for row in scene.matrix.zluda for name in row.files}
    own = os.path.join(str(scene.home.envs), "")
    taken = [
        each
        for each in history()
        if _lies_in(each.path, own) or ntpath.basename(each.path).lower() in names
        if scene.elsewhere or _is_gone(each.path)
    ]
    found = []
    for env in envs_of(scene):
        of_env = [each for each in taken if _is_of(each, env)]
        taken = [each for each in taken if each not in of_env]
        if of_env:
            found.append(_took("defender_took_of_env", of_env, {"env": env.name, "home": _home(scene)}))
    if taken:
        found.append(_took("defender_took_zluda", taken, {"folder": ntpath.dirname(taken[0].path)}))
    return tuple(found)


def _took(tells: str, taken: list[Quarantined], values: dict[str, str]) -> Seen:
    values |= {"file": ntpath.basename(taken[0].path), "threat": taken[0].threat}
    return Seen(tells, values, tuple(f"{each.when} {each.threat}: {each.path}" for each in taken[:_SHOWN]))


def _is_of(taken: Quarantined, env: Env) -> bool:
    return _lies_in(taken.path, os.path.join(str(env.prefix.path), ""))


def _lies_in(path: str, folder: str) -> bool:
    return ntpath.normcase(path).startswith(ntpath.normcase(folder))


def _is_gone(path: str) -> bool:
    """Tell whether a file is missing where it was; a folder that is gone as well was removed by its user."""
    native = path.replace("\\", os.sep)
    return os.path.isdir(os.path.dirname(native)) and not os.path.lexists(native)


def defender_not_told(scene: Scene) -> Seen | None:
    """Envs with ZLUDA, whose files Defender likes to take, in a folder that it is not told to leave alone."""
    home = _home(scene)
    if not _with_zluda(scene) or not watches() or excluded(home) is not False:
        return None
    return Seen("defender_not_told", {"home": home})


def home_too_deep(scene: Scene) -> Seen | None:
    """A ROCENV_HOME so deep that files below it pass Windows' limit for a path, which holds."""
    if not paths_are_limited():
        return None
    home = _home(scene)
    try:
        refuse_long(Path(home), [scene.gauge("deepest_path")[0]])
    except PrefixError:
        return Seen("home_too_deep", {"home": home, "length": str(len(home))}, (home,))
    return None


def home_in_cloud(scene: Scene) -> Seen | None:
    """A ROCENV_HOME in a folder that a program keeps in step with its cloud."""
    home = _home(scene)
    around = "" if scene.elsewhere else cloud_folder(scene.home.envs)
    for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial"):
        folder = variable(scene, name)
        if folder and _lies_in(home + "\\", folder.rstrip("\\") + "\\"):
            around = around or folder
    around = around or _called_like_a_cloud(home, scene.gauge("cloud_folders"))
    return Seen("home_in_cloud", {"home": home, "folder": around}, (home,)) if around else None


def _called_like_a_cloud(home: str, names: Iterable[str]) -> str:
    r"""Return the folder around a path that bears a cloud's name, as `Dropbox (Team)`; "" = there is none."""
    known = [name.lower() for name in names]
    parts = home.split("\\")
    for count, part in enumerate(map(str.lower, parts), 1):
        if any(part == name or part.startswith(f"{name} (") for name in known):
            return "\\".join(parts[:count])
    return ""


def other_zluda_on_path(scene: Scene) -> Seen | None:
    """Another ZLUDA, or CUDA's own libraries, on PATH beside envs with ZLUDA."""
    if not _with_zluda(scene):
        return None
    wanted = {_DRIVER} | {file.stands_for.lower() for row in scene.matrix.shim_map for file in row.files}
    for folder in path_folders(scene):
        found = sorted(wanted & (names_in(folder) or frozenset()))
        if found and not is_system_folder(folder, variable(scene, "SYSTEMROOT")):
            return Seen("other_zluda_on_path", {"folder": folder, "library": found[0]}, tuple(found))
    return None


def zluda_in_system32(scene: Scene) -> Seen | None:
    """CUDA's driver library in System32 of a machine without an NVIDIA card: all programs take that one."""
    there = system_libraries() or {}
    if _DRIVER not in there or _NVIDIA in scene.host.others or not scene.host.gpus:
        return None
    evidence = rf"System32\{_DRIVER}: {there[_DRIVER]}".removesuffix(": ")
    return Seen("zluda_in_system32", {"library": _DRIVER}, (evidence,))


def other_hip_on_path(scene: Scene) -> Seen | None:
    """A copy of HIP's runtime on PATH that is part of no HIP SDK."""
    for folder in path_folders(scene):
        names = names_in(folder) or frozenset()
        found = sorted(name for name in names if name.startswith("amdhip64"))
        is_sdk = any(name.startswith("hiprtc") for name in names)
        if found and not is_sdk and not is_system_folder(folder, variable(scene, "SYSTEMROOT")):
            return Seen("other_hip_on_path", {"folder": folder, "library": found[0]}, tuple(found))
    return None


def _home(scene: Scene) -> str:
    """Return ROCENV_HOME as the examined machine has it."""
    return (variable(scene, "ROCENV_HOME") if scene.elsewhere else "") or str(scene.home.path)


def _with_zluda(scene: Scene) -> bool:
    return any(part.kind == "zluda" for env in envs_of(scene) for part in env.record.lock.components)


CHECKS: tuple[Check, ...] = (
    Check("vc_runtime_missing", vc_runtime_missing, "windows"),
    Check("vc_runtime_old", vc_runtime_old, "windows"),
    Check("defender_took", defender_took, "windows", tells="defender_took_of_env"),
    Check("defender_not_told", defender_not_told, "windows"),
    Check("home_too_deep", home_too_deep, "windows"),
    Check("home_in_cloud", home_in_cloud, "windows"),
    Check("other_zluda_on_path", other_zluda_on_path, "windows"),
    Check("zluda_in_system32", zluda_in_system32, "windows"),
    Check("other_hip_on_path", other_hip_on_path, "windows"),
)

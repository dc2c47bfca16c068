r"""Checks of a Windows machine's display driver, HIP SDKs and variables; of its GPUs `windows_gpus` has some.

`CHECKS` are rows of the table.
Of an examined machine: `windows/video_controllers.json` and `hipinfo.txt` (`host/windows_texts.py`),
`system32.json` and `folders.json` (`host/system32.py`), `registry.json` (`host/registry.py`). Its variables
are the scene's.
"""

from __future__ import annotations

import ntpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.model import Machine
from rocenv.core.versions import allows, series
from rocenv.doctor.check import Check
from rocenv.doctor.seen import Seen
from rocenv.host.hip_sdk import installed_sdks
from rocenv.host.registry import values
from rocenv.host.system32 import names_in, system_libraries
from rocenv.resolve.suggest import suggest_env
from rocenv.resolve.verdicts import Facts, applies, known_broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import Verdict
    from rocenv.doctor.scene import Env, Scene

_ENVIRONMENT = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
_HIP_PATH = re.compile(r"HIP_PATH(_[0-9]+)?", re.IGNORECASE)
_SHOWN = 10
_RUNTIME = re.compile(r"amdhip64(_[0-9]+)?\.dll")


@dataclass(frozen=True, slots=True)
class Sdk:
    """A HIP SDK that is installed."""

    folder: str
    version: str = ""  # "" = that cannot be told
    missing: tuple[str, ...] = ()  # files that belong into it
    mixed: tuple[str, ...] = ()  # files of several releases


def path_folders(scene: Scene) -> list[str]:
    """Return the folders on PATH of a Windows machine, without those of rocenv's own envs."""
    own = ntpath.normcase(str(scene.home.path))
    found = [each.strip().strip('"') for each in variable(scene, "PATH").split(";")]
    return [each for each in found if each and not ntpath.normcase(each).startswith(own)]


def variable(scene: Scene, name: str) -> str:
    """Return a variable of a Windows machine, which counts no case in names; "" where it is not set."""
    wanted = name.upper()
    alike = (value for key, value in scene.environ.items() if key.upper() == wanted)
    return scene.environ.get(name) or next(alike, "")


def envs_of(scene: Scene) -> tuple[Env, ...]:
    """Return the env that was asked about, or else all."""
    return (scene.asked,) if scene.asked else scene.envs


def _sdks(scene: Scene) -> list[Sdk]:
    if not scene.elsewhere:
        found = installed_sdks(scene.matrix)
        return [
            Sdk(str(each.folder), each.row.version if each.row else "", each.missing, each.mixed)
            for each in found
        ]
    folders = dict.fromkeys(folder for _name, folder in _hip_paths(scene))
    return [Sdk(each, _release(each, scene)) for each in folders if _holds_hip(each)]


def _hip_paths(scene: Scene) -> Iterator[tuple[str, str]]:
    """Return HIP_PATH and its likes, without those of an env that is active."""
    own = ntpath.normcase(str(scene.home.path))
    for name, value in sorted(scene.environ.items()):
        folder = value.strip().strip('"').rstrip("\\")
        if _HIP_PATH.fullmatch(name) and folder and not ntpath.normcase(folder).startswith(own):
            yield name.upper(), folder


def _holds_hip(folder: str) -> bool | None:
    """Tell whether a folder is one of a HIP SDK; None where that is not known."""
    names = names_in(ntpath.join(folder, "bin"))
    return None if names is None else any(each.startswith(("amdhip64", "hiprtc")) for each in names)


def _release(folder: str, scene: Scene) -> str:
    names = names_in(ntpath.join(folder, "bin")) or ()
    rows = [row for row in scene.matrix.hip_sdk if row.hiprtc and row.hiprtc[0].lower() in names]
    return rows[0].version if len(rows) == 1 else ""


def driver_breaks_env(scene: Scene) -> tuple[Seen, ...]:
    """An env whose set is known not to work with the display driver."""
    release = scene.host.driver.release
    found = (_driver_and(env, release, scene) for env in envs_of(scene) if release)
    return tuple(seen for seen in found if seen is not None)


def _driver_and(env: Env, release: str, scene: Scene) -> Seen | None:
    for row in known_broken(env.record.lock, scene.matrix, release):
        if row.driver:
            return _driver_seen(env, row, release, scene)
    wanted = _driver_of_wheels(env, scene)
    if not wanted or allows(wanted, release):
        return None
    found = {"env": env.name, "driver": release, "wanted": wanted}
    return Seen("driver_too_old", found, (f"ROCm {env.rocm}",))


def _driver_of_wheels(env: Env, scene: Scene) -> str:
    """Return the display drivers that an env's ROCm asks for, which only wheels do; "" = any."""
    parts = {(part.channel, part.version) for part in env.record.lock.components if part.kind == "rocm"}
    return next((row.driver for row in scene.matrix.rocm_wheels if (row.channel, row.version) in parts), "")


def _driver_seen(env: Env, row: Verdict, release: str, scene: Scene) -> Seen:
    machine = Machine(platform="windows", driver=release)
    create = suggest_env(env.record.lock, scene.matrix, machine, name=env.prefix.free_name())
    zluda = next((part.version for part in env.record.lock.components if part.kind == "zluda"), "")
    found = {"env": env.name, "driver": release, "zluda": zluda, "create": create}
    return Seen("driver_breaks_env", found, (row.what, f"source: {row.source}"))


def driver_reported(scene: Scene) -> Seen | None:
    """The very release of the display driver that is installed was reported as trouble for a GPU here."""
    release, targets = scene.host.driver.release, {gpu.target for gpu in scene.host.gpus}
    rows = [
        row
        for row in scene.matrix.verdict
        if release and row.driver.startswith("==") and not row.only_if and row.verdict != "works"
        if any(applies(row, Facts(platform="windows", target=each, driver=release)) for each in targets)
    ]
    if not rows:
        return None
    told = tuple(dict.fromkeys(f"{row.what} (source: {row.source.partition(';')[0]})" for row in rows))
    return Seen("driver_reported", {"driver": release}, told)


def hip_runtime_absent(scene: Scene) -> Seen | None:
    """A display driver of AMD that has brought no HIP runtime."""
    found = system_libraries()
    if found is None or not scene.host.driver.display or any(map(_RUNTIME.fullmatch, found)):
        return None
    return Seen("hip_runtime_absent", {"driver": scene.host.driver.release or scene.host.driver.display})


def hip_runtime_shadowed(scene: Scene) -> Seen | None:
    """A HIP runtime in System32, which is taken before an SDK's, and is of another release."""
    there = system_libraries() or {}
    for name, version, where, is_wheels in _runtimes(scene):
        driver = there.get(name.lower(), "")
        if not driver or series(driver) == series(version):
            continue
        older = allows(f"<{series(version)}", driver)
        found = {"library": name, "driver": series(driver), "rocm": series(version), "where": where}
        evidence = (rf"System32\{name}: {driver}", f"{where}: {version}")
        tells = "hip_runtime_old" if older else "hip_runtime_shadowed"
        return Seen("hip_runtime_beside_wheels" if is_wheels else tells, found, evidence)
    return None


def _runtimes(scene: Scene) -> Iterator[tuple[str, str, str, bool]]:
    """Return the HIP runtimes that programs should take: name, release, whose it is, whether of wheels."""
    rows = {row.version: row for row in scene.matrix.hip_sdk}
    # A venv with ZLUDA loads its env's own runtime before anything asks for one by name.
    envs = (env for env in envs_of(scene) if not (env.prefix.path / env.record.lock.python).exists())
    wanted = [(env.rocm, str(env.prefix.path)) for env in envs]
    wanted += [(sdk.version, sdk.folder) for sdk in _sdks(scene)]
    for version, where in wanted:
        for name in rows[version].runtime if version in rows else ():
            yield name, version, where, False
    for env in envs_of(scene):
        rocm = env.record.lock.part("rocm")
        if rocm is not None and rocm.is_wheels and rocm.layout is not None:
            layout = rocm.layout
            yield layout.libraries["hip"], layout.runtime.get("hip", env.rocm), str(env.prefix.path), True


def hip_sdk_damaged(scene: Scene) -> Seen | None:
    """A HIP SDK that is not whole, or into which files of another release were copied."""
    for sdk in _sdks(scene):
        if sdk.missing:
            found = {"folder": sdk.folder, "rocm": series(sdk.version)}
            return Seen("hip_sdk_damaged", found, tuple(f"{name}: ENOENT" for name in sdk.missing[:_SHOWN]))
        if sdk.mixed:
            return Seen("hip_sdk_mixed", {"folder": sdk.folder}, sdk.mixed)
    return None


def hip_path_stale(scene: Scene) -> Seen | None:
    """A HIP_PATH that leads to no HIP SDK."""
    for name, folder in _hip_paths(scene):
        if _holds_hip(folder) is False:
            return Seen("hip_path_stale", {"variable": name, "folder": folder}, (f"{name}={folder}",))
    return None


def hip_path_unset(scene: Scene) -> Seen | None:
    """A HIP SDK is installed, and HIP_PATH is not set: in no window at all, or only not in this one."""
    if variable(scene, "HIP_PATH"):
        return None
    set_by = next((value for name, value in _machine_variables() if name.upper() == "HIP_PATH"), "")
    if set_by and _holds_hip(set_by.rstrip("\\")) is not False:
        return Seen("hip_path_unseen", {"folder": set_by}, (f"HIP_PATH={set_by}",))
    whole = [sdk for sdk in _sdks(scene) if sdk.version and not sdk.missing]
    if not whole:
        return None
    folder = whole[0].folder.rstrip("\\")
    # With a backslash at its end, as the installer sets it: batch files go on with `bin` right behind it.
    return Seen("hip_path_unset", {"folder": folder, "value": folder + "\\"}, (folder,))


def _machine_variables() -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in (values(_ENVIRONMENT) or {}).items()]


def hip_path_differs(scene: Scene) -> Seen | None:
    """PATH leads to another release of HIP than HIP_PATH."""
    own = dict(_hip_paths(scene)).get("HIP_PATH", "")
    wanted = _release(own, scene) if own else ""
    for folder in path_folders(scene) if wanted else ():
        if ntpath.basename(folder.rstrip("\\")).lower() != "bin":
            continue
        found = _release(ntpath.dirname(folder.rstrip("\\")), scene)
        if found == wanted:
            return None
        if found:
            both = {"rocm": series(wanted), "other": series(found), "folder": folder}
            return Seen("hip_path_differs", both, (f"HIP_PATH={own}", f"PATH: {folder}"))
    return None


CHECKS: tuple[Check, ...] = (
    Check("driver_breaks_env", driver_breaks_env, "windows"),
    Check("driver_reported", driver_reported, "windows"),
    Check("hip_runtime_absent", hip_runtime_absent, "windows"),
    Check("hip_runtime_shadowed", hip_runtime_shadowed, "windows"),
    Check("hip_sdk_damaged", hip_sdk_damaged, "windows"),
    Check("hip_path_stale", hip_path_stale, "windows"),
    Check("hip_path_unset", hip_path_unset, "windows"),
    Check("hip_path_differs", hip_path_differs, "windows"),
)

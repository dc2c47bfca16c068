"""Windows checks: GPUs, display drivers, HIP SDKs, and the variables that point to SDKs."""

from __future__ import annotations

import ntpath
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.checks.devices import gpus_hidden, hip_selection
from rocenv.core.model import Machine
from rocenv.core.versions import allows, series
from rocenv.findings import Observation
from rocenv.host.hip_sdk import InstalledSdk, installed_sdks
from rocenv.host.registry import values
from rocenv.host.system32 import names_in, system_libraries
from rocenv.host.windows import controllers_text, parse_controllers
from rocenv.resolve.suggest import suggest_env
from rocenv.resolve.verdicts import Facts, applies, known_broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.checks.context import CheckContext, Env
    from rocenv.data.knowledge import Verdict
    from rocenv.data.windows import HipSdk
    from rocenv.host import Gpu

_ENVIRONMENT = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
_HIP_PATH = re.compile(r"HIP_PATH(_[0-9]+)?", re.IGNORECASE)
_SHOWN = 10
_HIP_ERROR = re.compile(r"\bhipError\w+")
_HIP_RUNTIME = re.compile(r"amdhip64(_[0-9]+)?\.dll")


def path_folders(context: CheckContext) -> list[str]:
    """The folders on PATH, except those of rocenv's envs."""
    own = ntpath.normcase(str(context.home.path))
    found = [each.strip().strip('"') for each in context.variable("PATH").split(";")]
    return [each for each in found if each and not ntpath.normcase(each).startswith(own)]


def _sdks(context: CheckContext) -> tuple[InstalledSdk, ...]:
    if not context.elsewhere:
        return installed_sdks(context.matrix)
    folders = dict.fromkeys(folder for _name, folder in _hip_paths(context) if _holds_hip(folder))
    return tuple(
        InstalledSdk(folder=Path(each), found_by="HIP_PATH", row=_row_of(each, context)) for each in folders
    )


def _hip_paths(context: CheckContext) -> Iterator[tuple[str, str]]:
    """HIP_PATH, HIP_PATH_57 and so on with their folders, except those of an active env."""
    own = ntpath.normcase(str(context.home.path))
    for name, value in sorted(context.environ.items()):
        folder = value.strip().strip('"').rstrip("\\")
        if _HIP_PATH.fullmatch(name) and folder and not ntpath.normcase(folder).startswith(own):
            yield name.upper(), folder


def _holds_hip(folder: str) -> bool | None:
    """Whether a folder is a HIP SDK, or None if unknown."""
    names = names_in(ntpath.join(folder, "bin"))
    return None if names is None else any(each.startswith(("amdhip64", "hiprtc")) for each in names)


def _row_of(folder: str, context: CheckContext) -> HipSdk | None:
    """An SDK's release row, or None if unknown."""
    names = names_in(ntpath.join(folder, "bin")) or ()
    rows = [row for row in context.matrix.hip_sdk if row.hiprtc and row.hiprtc[0].lower() in names]
    return rows[0] if len(rows) == 1 else None


def display_driver_missing(context: CheckContext) -> Observation | None:
    """An AMD GPU uses Windows' basic display driver, which does not include HIP."""
    plain = context.threshold("basic_display")[0].lower()
    found = next((gpu for gpu in context.host.gpus if gpu.name.lower().startswith(plain)), None)
    if found is None:
        return None
    return Observation("display_driver_missing", {"name": found.name}, (f"{found.name} ({found.pci_id})",))


def no_gpu_on_windows(context: CheckContext) -> Observation | None:
    """The machine has no AMD GPU, or none that HIP lists."""
    gpus, driver = context.host.gpus, context.host.driver
    if any(gpu.usable for gpu in gpus) or context.host.named:
        return None
    if display_driver_missing(context) or gpus_hidden(context):
        return None  # other checks report the reason
    adapters = [each.name for each in parse_controllers(controllers_text()) if each.name]
    if not gpus:
        return Observation("no_gpu_on_windows", {}, tuple(adapters)) if adapters else None
    found = {"gpu": _label(gpus[0]), "driver": driver.release or driver.display}
    name, value = hip_selection(context)
    found["variable"] = name if value else ""
    set_ = (f"{name}={value}",) if value else ()
    error = _HIP_ERROR.search(gpus[0].why_not)
    lines = [" ".join(filter(None, (_label(gpu), gpu.pci_id))) for gpu in gpus]
    return Observation("gpu_unlisted", found, (*lines, *set_, *([error[0]] if error else [])))


def _label(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.target})" if gpu.name and gpu.target else gpu.name or gpu.target


def driver_breaks_env(context: CheckContext) -> tuple[Observation, ...]:
    """An env's set is known to fail with the display driver."""
    release = context.host.driver.release
    found = (_conflict(env, release, context) for env in context.relevant_envs if release)
    # The env may still work for this app, so let it start.
    severity = "warning" if context.launch else ""
    return tuple(replace(each, severity=severity) for each in found if each is not None)


def _conflict(env: Env, release: str, context: CheckContext) -> Observation | None:
    for row in known_broken(env.record.lock, context.matrix, release):
        if row.driver:
            return _known_conflict(env, row, release, context)
    wanted = _driver_of_wheels(env, context)
    if not wanted or allows(wanted, release):
        return None
    found = {"env": env.name, "driver": release, "wanted": wanted}
    return Observation("driver_too_old", found, (f"ROCm {env.rocm}",))


def _driver_of_wheels(env: Env, context: CheckContext) -> str:
    """The display drivers that an env's ROCm wheels require, or "" if any driver works."""
    parts = {(part.channel, part.version) for part in env.record.lock.components if part.kind == "rocm"}
    return next((row.driver for row in context.matrix.rocm_wheels if (row.channel, row.version) in parts), "")


def _known_conflict(env: Env, row: Verdict, release: str, context: CheckContext) -> Observation:
    machine = Machine(platform="windows", driver=release)
    create = suggest_env(env.record.lock, context.matrix, machine, name=env.prefix.free_name())
    zluda = next((part.version for part in env.record.lock.components if part.kind == "zluda"), "")
    found = {"env": env.name, "driver": release, "zluda": zluda}
    evidence = (row.what, f"source: {row.source}")
    return Observation("driver_breaks_env", found, evidence, commands={"create": create})


def driver_reported(context: CheckContext) -> Observation | None:
    """Users have reported problems with this exact display driver on the same kind of GPU."""
    release, targets = context.host.driver.release, {gpu.target for gpu in context.host.gpus}
    rows = [
        row
        for row in context.matrix.verdict
        if release and row.driver.startswith("==") and not row.only_if and row.verdict != "works"
        if any(applies(row, Facts(platform="windows", target=each, driver=release)) for each in targets)
    ]
    if not rows:
        return None
    evidence = tuple(dict.fromkeys(f"{row.what} (source: {row.source.partition(';')[0]})" for row in rows))
    return Observation("driver_reported", {"driver": release}, evidence)


def hip_runtime_absent(context: CheckContext) -> Observation | None:
    """AMD's display driver is installed without a HIP runtime."""
    found = system_libraries()
    if found is None or not context.host.driver.display or any(map(_HIP_RUNTIME.fullmatch, found)):
        return None
    return Observation(
        "hip_runtime_absent", {"driver": context.host.driver.release or context.host.driver.display}
    )


def hip_runtime_shadowed(context: CheckContext) -> Observation | None:
    """System32, which Windows searches first, has a HIP runtime from a different release than the SDK."""
    there = system_libraries() or {}
    for name, version, where, is_wheels in _runtimes(context):
        driver = there.get(name.lower(), "")
        if not driver or series(driver) == series(version):
            continue
        older = allows(f"<{series(version)}", driver)
        found = {"library": name, "driver": series(driver), "rocm": series(version), "where": where}
        evidence = (rf"System32\{name}: {driver}", f"{where}: {version}")
        row = "hip_runtime_old" if older else "hip_runtime_shadowed"
        return Observation("hip_runtime_beside_wheels" if is_wheels else row, found, evidence)
    return None


def _runtimes(context: CheckContext) -> Iterator[tuple[str, str, str, bool]]:
    """The HIP runtimes that programs should load, as (file name, release, folder, whether from wheels)."""
    rows = {row.version: row for row in context.matrix.hip_sdk}
    # Skip envs with a venv: a ZLUDA venv preloads the env's runtime, and wheels are handled below.
    envs = (env for env in context.relevant_envs if not (env.prefix.path / env.record.lock.python).exists())
    wanted = [(env.rocm, str(env.prefix.path)) for env in envs]
    wanted += [(sdk.row.version, str(sdk.folder)) for sdk in _sdks(context) if sdk.row]
    for version, where in wanted:
        for name in rows[version].runtime if version in rows else ():
            yield name, version, where, False
    for env in context.relevant_envs:
        rocm = env.record.lock.part("rocm")
        if rocm is not None and rocm.is_wheels and rocm.layout is not None:
            layout = rocm.layout
            yield layout.libraries["hip"], layout.runtime.get("hip", env.rocm), str(env.prefix.path), True


def hip_sdk_damaged(context: CheckContext) -> Observation | None:
    """A HIP SDK is missing files or contains files from a different release."""
    for sdk in _sdks(context):
        if sdk.row and sdk.missing:
            found = {"folder": str(sdk.folder), "rocm": series(sdk.row.version)}
            return Observation(
                "hip_sdk_damaged", found, tuple(f"{name}: ENOENT" for name in sdk.missing[:_SHOWN])
            )
        if sdk.mixed:
            values = {"folder": str(sdk.folder), "name": context.home.unused_name("demo")}
            return Observation("hip_sdk_mixed", values, sdk.mixed)
    return None


def hip_path_stale(context: CheckContext) -> Observation | None:
    """HIP_PATH points to a folder without a HIP SDK."""
    for name, folder in _hip_paths(context):
        if _holds_hip(folder) is False:
            return Observation("hip_path_stale", {"variable": name, "folder": folder}, (f"{name}={folder}",))
    return None


def hip_path_unset(context: CheckContext) -> Observation | None:
    """A HIP SDK is installed, but HIP_PATH is not set, or was set after this window was opened."""
    if context.variable("HIP_PATH"):
        return None
    set_by = next((value for name, value in _machine_variables() if name.upper() == "HIP_PATH"), "")
    if set_by and _holds_hip(set_by.rstrip("\\")) is not False:
        return Observation("hip_path_unseen", {"folder": set_by}, (f"HIP_PATH={set_by}",))
    whole = [sdk for sdk in _sdks(context) if sdk.row and not sdk.missing]
    if not whole:
        return None
    folder = str(whole[0].folder).rstrip("\\")
    # With a trailing backslash, as the installer sets it: batch files append `bin` to it.
    return Observation("hip_path_unset", {"folder": folder, "value": folder + "\\"}, (folder,))


def _machine_variables() -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in (values(_ENVIRONMENT) or {}).items()]


def hip_path_differs(context: CheckContext) -> Observation | None:
    """PATH and HIP_PATH point to different HIP releases."""
    own = dict(_hip_paths(context)).get("HIP_PATH", "")
    wanted = _row_of(own, context) if own else None
    for folder in path_folders(context) if wanted else ():
        if ntpath.basename(folder.rstrip("\\")).lower() != "bin":
            continue
        found = _row_of(ntpath.dirname(folder.rstrip("\\")), context)
        if found == wanted:
            return None
        if found and wanted:
            both = {"rocm": series(wanted.version), "other": series(found.version), "folder": folder}
            return Observation("hip_path_differs", both, (f"HIP_PATH={own}", f"PATH: {folder}"))
    return None

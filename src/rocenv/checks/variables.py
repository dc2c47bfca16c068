"""Linux: check environment variables that affect every program, inside and outside of envs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.active_env import active_names, env_around
from rocenv.checks.context import distro, short_name
from rocenv.core.variables import OVERRIDE
from rocenv.findings import Observation
from rocenv.host.ranking import override_notes, supported_today
from rocenv.system.machine import is_folder, list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.checks.context import CheckContext

_HIP = re.compile(r"libamdhip64\.so\.([0-9]+(?:\.[0-9]+)*)")
_ROCM_FOLDER = re.compile(r"rocm|/hip\b|amdgpu", re.IGNORECASE)
_PATHS = ("HIP_PATH", "ROCM_PATH", "ROCM_HOME", "HIP_HOME", "HIP_DEVICE_LIB_PATH")
# The dynamic loader's default folders. Source: glibc:sysdeps/unix/sysv/linux/ldconfig, Debian, Fedora
_LOADER_FOLDERS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)


def override_wrong(context: CheckContext) -> Observation | None:
    """HSA_OVERRIDE_GFX_VERSION is set for every program, or its value is wrong for a GPU on this machine."""
    value = context.environ.get(OVERRIDE, "").strip()
    gpus = [gpu for gpu in context.host.gpus if gpu.target and gpu.state != "unable"]
    if not value or not gpus:
        return None
    values = {"value": value, "gfx": gpus[0].target, "gpu": short_name(gpus[0])}
    parts = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,3})\.([0-9]{1,3})", value)
    if not parts:
        return Observation("override_malformed", values, (f"{OVERRIDE}={value}",))
    support, rows = supported_today(context.matrix), context.matrix.override
    for gpu in gpus:
        own = values | {"gfx": gpu.target, "gpu": short_name(gpu)}
        known = [row for row in rows if row.target == gpu.target and row.value in (value, "*")]
        evidence = (f"{OVERRIDE}={value}",)
        if any(row.verdict == "block" for row in known):
            return Observation("override_blocked", own, evidence)
        if override_notes(value, [gpu], support, rows):
            same = "{}{:x}{:x}".format(*map(int, parts.groups())) == gpu.target.removeprefix("gfx")
            return Observation("override_idle" if same else "override_needless", own, evidence)
        if not known and not gpu.target.startswith(f"gfx{parts[1]}"):
            return Observation("override_foreign", own, evidence)
    if any(active_names(context.home, context.environ)):
        return None  # the env set it for its own programs
    return Observation("override_global", values, (f"{OVERRIDE}={value}",))


def rocm_path_stale(context: CheckContext) -> Observation | None:
    """A variable points to a ROCm installation that no longer exists."""
    stale = [
        (name, folder)
        for name, folder in _named_folders(context)
        if not is_folder(folder) and _is_known(folder, context)
    ]
    if not stale:
        return None
    name, folder = stale[0]
    there = [f"/opt/{each}" for each in list_folder("/opt") if each.startswith("rocm")]
    values = {"variable": name, "folder": folder, "there": ", ".join(there)}
    return Observation("rocm_path_stale", values, tuple(f"{name}: {folder}" for name, folder in stale))


def rocm_paths_differ(context: CheckContext) -> Observation | None:
    """Variables point to different ROCm releases."""
    found: dict[str, str] = {}  # version -> where it was first found
    programs = [("PATH", os.path.dirname(folder)) for folder in _listed("PATH", context)]
    for name, folder in [*_named_folders(context), *programs]:
        if not env_around(context.home, folder):
            for version in _versions(folder):
                found.setdefault(version, f"{name}: {folder} ({version})")
    return _mixed("rocm_paths_differ", found)


def two_rocms(context: CheckContext) -> Observation | None:
    """The dynamic loader finds HIP runtimes from two ROCm releases in LD_LIBRARY_PATH and its own folders."""
    found: dict[str, str] = {}
    listed = context.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in [*filter(os.path.isabs, listed), *_configured(), *_LOADER_FOLDERS]:
        if not env_around(context.home, folder):
            for version in _hip_versions(folder):
                found.setdefault(version, f"{folder}: libamdhip64.so.{version}")
    return _mixed("two_rocms", found)


def _mixed(row: str, found: dict[str, str]) -> Observation | None:
    if len(found) < 2:
        return None
    first, second, *_ = found
    values = {"first": first, "second": second, "distro": distro()}
    return Observation(row, values, tuple(found.values()))


def _named_folders(context: CheckContext) -> Iterator[tuple[str, str]]:
    """The ROCm folders in variables, as (variable, folder)."""
    for name in _PATHS:
        if os.path.isabs(folder := context.environ.get(name, "")):
            yield name, folder
    for folder in _listed("LD_LIBRARY_PATH", context):
        yield "LD_LIBRARY_PATH", folder


def _listed(name: str, context: CheckContext) -> list[str]:
    folders = [folder.rstrip("/") for folder in context.environ.get(name, "").split(":")]
    return [folder for folder in folders if os.path.isabs(folder) and _ROCM_FOLDER.search(folder)]


def _is_known(folder: str, context: CheckContext) -> bool:
    """Whether a folder is known to be missing; a snapshot of a machine may not contain all folders."""
    return is_folder(os.path.dirname(folder.rstrip("/"))) or not context.elsewhere


def _versions(folder: str) -> Iterator[str]:
    """The HIP versions in a ROCm tree or one of its library folders."""
    root = folder.rstrip("/")
    places = [root, *(f"{root}/{name}" for name in ("lib", "lib64"))]
    for place in places:
        yield from _hip_versions(place)


def _hip_versions(folder: str) -> Iterator[str]:
    """The HIP versions in a folder, from names such as libamdhip64.so.6.2.60204; ignores shorter links."""
    found = (_HIP.fullmatch(name) for name in list_folder(folder) if name.startswith("libamdhip64"))
    versions = [match[1] for match in found if match]
    yield from (each for each in versions if not any(other.startswith(f"{each}.") for other in versions))


def _configured() -> list[str]:
    """The folders in ld.so.conf, in order."""
    folder = "/etc/ld.so.conf.d"
    names = [name for name in list_folder(folder) if name.endswith(".conf")]
    texts = [read_attribute(f"{folder}/{name}")[0] for name in names]
    lines = [line.partition("#")[0].strip() for text in texts for line in text.splitlines()]
    lines += [line.strip() for line in read_attribute("/etc/ld.so.conf")[0].splitlines()]
    return [line for line in lines if line.startswith("/")]

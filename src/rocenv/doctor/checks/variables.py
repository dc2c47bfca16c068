"""Checks of Linux: variables that act on every program, whatever env it is started in."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.core.variables import OVERRIDE
from rocenv.doctor.distribution import distro
from rocenv.doctor.gpu_names import short_name
from rocenv.doctor.seen import Seen
from rocenv.host.ranking import override_notes, supported_today
from rocenv.system.machine import is_folder, list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.doctor.scene import Scene

_HIP = re.compile(r"libamdhip64\.so\.([0-9]+(?:\.[0-9]+)*)")
_OF_ROCM = re.compile(r"rocm|/hip\b|amdgpu", re.IGNORECASE)
_PATHS = ("HIP_PATH", "ROCM_PATH", "ROCM_HOME", "HIP_HOME", "HIP_DEVICE_LIB_PATH")
# Where the loader looks without being told. Source: glibc:sysdeps/unix/sysv/linux/ldconfig, Debian, Fedora
_SYSTEM = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def override_wrong(scene: Scene) -> Seen | None:
    """HSA_OVERRIDE_GFX_VERSION is set for every program, and does nothing for a GPU here, or harm."""
    value = scene.environ.get(OVERRIDE, "").strip()
    gpus = [gpu for gpu in scene.host.gpus if gpu.target and gpu.state != "unable"]
    if not value or not gpus:
        return None
    values = {"value": value, "gfx": gpus[0].target, "gpu": short_name(gpus[0])}
    stands_for = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,3})\.([0-9]{1,3})", value)
    if not stands_for:
        return Seen("override_malformed", values, (f"{OVERRIDE}={value}",))
    support, rows = supported_today(scene.matrix), scene.matrix.override
    for gpu in gpus:
        mine = values | {"gfx": gpu.target, "gpu": short_name(gpu)}
        known = [row for row in rows if row.target == gpu.target and row.value in (value, "*")]
        evidence = (f"{OVERRIDE}={value}",)
        if any(row.verdict == "block" for row in known):
            return Seen("override_blocked", mine, evidence)
        if override_notes(value, [gpu], support, rows):
            same = "{}{:x}{:x}".format(*map(int, stands_for.groups())) == gpu.target.removeprefix("gfx")
            return Seen("override_idle" if same else "override_needless", mine, evidence)
        if not known and not gpu.target.startswith(f"gfx{stands_for[1]}"):
            return Seen("override_foreign", mine, evidence)
    if _in_env(scene):
        return None  # an env sets it for its own programs
    return Seen("override_global", values, (f"{OVERRIDE}={value}",))


def _in_env(scene: Scene) -> bool:
    """Tell whether an env is active, so that its variables are set."""
    return any(_within(each, str(scene.home.envs)) for each in scene.environ.get("PATH", "").split(":"))


def rocm_path_stale(scene: Scene) -> Seen | None:
    """A variable leads to a ROCm that is not there any more."""
    stale = [
        (name, folder)
        for name, folder in _named_folders(scene)
        if not is_folder(folder) and _is_known(folder, scene)
    ]
    if not stale:
        return None
    name, folder = stale[0]
    there = [f"/opt/{each}" for each in list_folder("/opt") if each.startswith("rocm")]
    values = {"variable": name, "folder": folder, "there": ", ".join(there)}
    return Seen("rocm_path_stale", values, tuple(f"{name}: {folder}" for name, folder in stale))


def rocm_paths_differ(scene: Scene) -> Seen | None:
    """One variable leads to one ROCm, and another to another."""
    found: dict[str, str] = {}  # version -> where it was found, once each
    programs = [("PATH", os.path.dirname(folder)) for folder in _listed("PATH", scene)]
    for name, folder in [*_named_folders(scene), *programs]:
        if not _within(folder, str(scene.home.envs)):
            for version in _versions(folder):
                found.setdefault(version, f"{name}: {folder} ({version})")
    return _mixed("rocm_paths_differ", found)


def two_rocms(scene: Scene) -> Seen | None:
    """The loader finds the HIP of two ROCm releases, one by its variable and one in its own folders."""
    found: dict[str, str] = {}
    own = str(scene.home.envs)
    listed = scene.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in [*filter(os.path.isabs, listed), *_configured(), *_SYSTEM]:
        if not _within(folder, own):
            for version in _hip_versions(folder):
                found.setdefault(version, f"{folder}: libamdhip64.so.{version}")
    return _mixed("two_rocms", found)


def _mixed(tells: str, found: dict[str, str]) -> Seen | None:
    if len(found) < 2:
        return None
    first, second, *_ = found
    values = {"first": first, "second": second, "distro": distro()}
    return Seen(tells, values, tuple(found.values()))


def _named_folders(scene: Scene) -> Iterator[tuple[str, str]]:
    """Return the folders that the machine's variables name as ROCm's."""
    for name in _PATHS:
        if os.path.isabs(folder := scene.environ.get(name, "")):
            yield name, folder
    for folder in _listed("LD_LIBRARY_PATH", scene):
        yield "LD_LIBRARY_PATH", folder


def _listed(name: str, scene: Scene) -> list[str]:
    folders = [folder.rstrip("/") for folder in scene.environ.get(name, "").split(":")]
    return [folder for folder in folders if os.path.isabs(folder) and _OF_ROCM.search(folder)]


def _is_known(folder: str, scene: Scene) -> bool:
    """Tell whether it would be known if a folder were there: a copy of a machine has not all of it."""
    return is_folder(os.path.dirname(folder.rstrip("/"))) or not scene.elsewhere


def _versions(folder: str) -> Iterator[str]:
    """Return the versions of HIP in a tree, whether its root or a folder of it is named."""
    root = folder.rstrip("/")
    places = [root, *(f"{root}/{name}" for name in ("lib", "lib64"))]
    for place in places:
        yield from _hip_versions(place)


def _hip_versions(folder: str) -> Iterator[str]:
    """Return the versions of HIP in a folder by the names of its files: 6.2.60204; links name fewer parts."""
    found = (_HIP.fullmatch(name) for name in list_folder(folder) if name.startswith("libamdhip64"))
    versions = [match[1] for match in found if match]
    yield from (each for each in versions if not any(other.startswith(f"{each}.") for other in versions))


def _configured() -> list[str]:
    """Return the folders that the loader's settings name, in their order."""
    folder = "/etc/ld.so.conf.d"
    names = [name for name in list_folder(folder) if name.endswith(".conf")]
    texts = [read_attribute(f"{folder}/{name}")[0] for name in names]
    lines = [line.partition("#")[0].strip() for text in texts for line in text.splitlines()]
    lines += [line.strip() for line in read_attribute("/etc/ld.so.conf")[0].splitlines()]
    return [line for line in lines if line.startswith("/")]


def _within(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))

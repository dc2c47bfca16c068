"""Whose the GPU's devices are, and which groups this user would have to be in."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rocenv.system.machine import is_there, machine_path, read_attribute, tried

if TYPE_CHECKING:
    from collections.abc import Mapping

# Their groups on all distributions that AMD names, and in its own rules for udev.
USUAL = ("render", "video")
_SIGNS_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/.singularity.d")
# Set in each container of theirs. Sources: systemd:docs/CONTAINER_INTERFACE.md, apptainer
_VARIABLES = ("container", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
# The first process of a host is in none of these, whatever containers run beside it.
_CGROUP = re.compile(
    r"[:/](?:kubepods|docker|lxc|libpod|containerd|cri-containerd|crio|garden)(?=[-./:]|$)(?!\.service)"
)
# Where the layers of a container lie; a live medium's root is an overlay too, and none of theirs.
_LAYERS = re.compile(r"/docker/|/containers/storage/|containerd|/kubelet/|/buildkit/|/crio/|/podman/")
_FROM_OUTSIDE = ("/", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf")  # what a runtime mounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What keeps a user from devices."""

    lacking: tuple[str, ...]  # groups of devices that this process is not in, by name where they have one
    waiting: bool = False  # the user has been added to all of them, and has not logged in since
    closed_to_group: bool = False  # no group may open one of them
    lines: tuple[str, ...] = ()  # as `ls -l` would show them


def in_container(environ: Mapping[str, str]) -> bool:
    """Tell whether the examined machine is seen from within a container.

    Args:
        environ: Variables of its environment.
    """
    if any(is_there(sign) for sign in _SIGNS_OF_CONTAINERS) or any(environ.get(name) for name in _VARIABLES):
        return True
    # A pack has not all of what tells it.
    return tried("container", "/proc/self/mountinfo", _is_contained, False) or _is_contained()


def _is_contained() -> bool:
    if _CGROUP.search(read_attribute("/proc/1/cgroup")[0]):
        return True
    for line in read_attribute("/proc/self/mountinfo", 1 << 20)[0].splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[4] in _FROM_OUTSIDE and _LAYERS.search(_without_point(fields)):
            return True
    return False


def _without_point(fields: list[str]) -> str:
    return " ".join((fields[3], *fields[5:]))


def rights(paths: list[str], user: str) -> Rights:
    """Return what keeps this process, of a user of this name, from devices that are there."""
    names, members = _groups()
    own = tried("groups", "", _own_groups, "").split()
    owners: dict[str, str] = {}
    closed, lines = False, []
    for path in paths:
        # A copy belongs to who made it: nothing is known there.
        mode, _, number = tried("owner", path, partial(_owner, path), "").partition(" ")
        if not mode:
            continue
        owners[names.get(number, number)] = number
        closed = closed or mode[5] != "w" or number == "0"
        lines.append(f"{mode} {names.get(number, number)} {path}")
    if not owners:
        return Rights(lacking=USUAL, lines=tuple(paths))
    lacking = tuple(name for name, number in owners.items() if number not in own)
    waiting = bool(lacking) and all(user in members.get(name, ()) for name in lacking)
    return Rights(lacking=lacking, waiting=waiting, closed_to_group=closed, lines=tuple(lines))


def _own_groups() -> str:
    return " ".join(map(str, sorted({os.getegid(), *os.getgroups()})))


def _owner(path: str) -> str:
    """Return mode and group of a device: `crw-rw---- 105`; "" where it is not there."""
    try:
        state = os.stat(machine_path(path))
    except OSError:
        return ""
    return f"{stat.filemode(state.st_mode)} {state.st_gid}"


def _groups() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the names of groups by number, and their members, as the machine's own list has them."""
    names: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for line in read_attribute("/etc/group", 1 << 20)[0].splitlines():
        fields = line.split(":")
        if len(fields) == 4 and fields[2].isdecimal():
            names.setdefault(fields[2], fields[0])
            members[fields[0]] = fields[3].split(",")
    return names, members

"""GPU checks: presence, driver and permissions on Linux, and the variables that hide GPUs."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rocenv.checks.context import distro, short_name
from rocenv.checks.wsl import is_wsl
from rocenv.core.variables import VISIBLE
from rocenv.findings import Observation
from rocenv.host import kfd, pci
from rocenv.host.products import unsupported
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_is_older
from rocenv.system.machine import (
    access_errno,
    is_there,
    machine_path,
    open_errno,
    read_attribute,
    tried,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.checks.context import CheckContext
    from rocenv.host import Gpu

KFD = "/dev/kfd"
_GROUPS = ("render", "video")  # in AMD's udev rules on all supported distributions
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/.singularity.d")
# Sources: systemd:docs/CONTAINER_INTERFACE.md, apptainer
_CONTAINER_VARIABLES = ("container", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
# A host's first process is not in any of these cgroups, even if the host runs containers.
_CGROUP = re.compile(
    r"[:/](?:kubepods|docker|lxc|libpod|containerd|cri-containerd|crio|garden)(?=[-./:]|$)(?!\.service)"
)
# Paths of container layers. A live system's root is an overlay too, but with different paths.
_LAYERS = re.compile(r"/docker/|/containers/storage/|containerd|/kubelet/|/buildkit/|/crio/|/podman/")
_CONTAINER_MOUNTS = ("/", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf")


def no_gpu(context: CheckContext) -> Observation | None:
    """There is no AMD GPU on the PCI bus."""
    host = context.host
    if host.gpus or host.named or is_wsl():
        return None
    return Observation("no_gpu", {"container": "yes" if in_container(context.environ) else ""}, (host.why,))


def kfd_closed(context: CheckContext) -> Observation | None:
    """This user does not have permission to open the compute device."""
    if not kfd.gpu_nodes() or open_errno(KFD) != errno.EACCES:
        return None
    return _closed("kfd_closed", [KFD, *_render_nodes(context)], context)


def render_node_closed(context: CheckContext) -> Observation | None:
    """This user can open the compute device but not the GPU's render node."""
    if not kfd.gpu_nodes() or open_errno(KFD) != 0:
        return None
    closed = [path for path in _render_nodes(context) if access_errno(path) == errno.EACCES]
    return _closed("render_node_closed", closed, context) if closed else None


def _closed(row: str, paths: list[str], context: CheckContext) -> Observation:
    """Find out why this process cannot open devices that exist."""
    names, members = _groups()
    own = tried("groups", "", _own_groups, "").split()
    owners: dict[str, str] = {}
    excludes_groups, lines = False, []
    for path in paths:
        # Files in a snapshot belong to the user who created it.
        mode, _, number = tried("owner", path, partial(_mode_and_group, path), "").partition(" ")
        if mode:
            owners[names.get(number, number)] = number
            excludes_groups = excludes_groups or mode[5] != "w" or number == "0"
            lines.append(f"{mode} {names.get(number, number)} {path}")  # as in `ls -l`
    missing = [name for name, number in owners.items() if number not in own] if owners else [*_GROUPS]
    user = context.environ.get("USER") or context.environ.get("LOGNAME") or ""
    needs_login = bool(owners and missing) and all(user in members.get(name, ()) for name in missing)
    values = {
        "groups": ",".join(name for name in missing if not name.isdecimal()),
        "number": next((name for name in missing if name.isdecimal()), ""),  # if the group has no name
        "waiting": "yes" if needs_login else "",
        "rule": "yes" if excludes_groups else "",
        "container": "yes" if in_container(context.environ) else "",
        "device": paths[0],
    }
    return Observation(row, values, tuple(lines or paths))


def kfd_refuses(context: CheckContext) -> Observation | None:
    """Opening the compute device fails for a reason other than missing permissions."""
    error = open_errno(KFD) if kfd.gpu_nodes() else 0
    if error in (0, errno.EACCES, errno.EPERM, errno.ENOENT):
        return None
    name = errno.errorcode.get(error, str(error))
    values = {"error": name, "meaning": os.strerror(error), "kernel": context.host.driver.kernel}
    return Observation("kfd_refuses", values, (f"open {KFD}: {name}, {os.strerror(error)}",))


def container_without_devices(context: CheckContext) -> Observation | None:
    """The kernel lists a GPU, but its device files are missing, for example in a container."""
    if is_wsl():
        return None
    gpus = context.host.gpus
    values = {"container": "yes" if in_container(context.environ) else ""}
    error = open_errno(KFD)
    # Outside of containers, the files are missing because udev did not create them.
    row = "container_without_devices" if values["container"] else "devices_missing"
    if kfd.gpu_nodes() and error in (errno.ENOENT, errno.EPERM):
        return Observation(row, values, (f"open {KFD}: {errno.errorcode[error]}",))
    if any(gpu.usable for gpu in gpus) or error:
        return None
    barred = [gpu for gpu in gpus if gpu.state == "barred" and _lacks_render_node(gpu)]
    evidence = tuple(f"{called(gpu)}: {gpu.why_not}" for gpu in barred)
    return Observation(row, values, evidence) if barred else None


def _lacks_render_node(gpu: Gpu) -> bool:
    if gpu.render_minor is None:
        return True  # its node is unreadable, for example in a container without access to the GPU
    return access_errno(f"/dev/dri/renderD{gpu.render_minor}") == errno.ENOENT


def gpu_never_supported(context: CheckContext) -> Observation | None:
    """ROCm does not support this generation of GPUs."""
    gpus = context.host.gpus
    found = [(gpu, row) for gpu in gpus if (row := unsupported(gpu.pci_id, context.matrix))]
    if not found or any(gpu.state != "unable" for gpu in gpus):
        return None
    gpu, row = found[0]
    values = {"gpu": short_name(gpu), "generation": row.title.partition(" (")[0], "device": gpu.pci_id}
    return Observation("gpu_never_supported", values, (f"{called(gpu)}: {row.why}",))


def gpu_without_driver(context: CheckContext) -> Observation | None:
    """A GPU has no driver, or one that does not support compute."""
    works = any(gpu.state != "unable" for gpu in context.host.gpus)
    for device in pci.devices():
        if device.vendor != pci.AMD or device.driver == "amdgpu" or (works and device.driver):
            continue
        if unsupported(device.device, context.matrix):
            continue
        gpu = next((each for each in context.host.gpus if each.address == device.address), None)
        values = _named(gpu, context) | {"driver": device.driver}
        evidence = (f"{device.address} {pci.AMD:04x}:{device.device}, driver: {device.driver or '-'}",)
        oldest = values["oldest"]
        if oldest and not context.host.driver.amdgpu and kernel_is_older(context.host.driver.kernel, oldest):
            return Observation("kernel_too_old_for_gpu", values, evidence)
        row = {"": "gpu_without_driver", "vfio-pci": "gpu_reserved"}.get(device.driver, "gpu_on_old_driver")
        return Observation(row, values, evidence)
    return None


def kfd_missing(context: CheckContext) -> Observation | None:
    """The GPU has a driver, but the kernel has no compute driver (KFD)."""
    gpus = [gpu for gpu in context.host.gpus if gpu.state == "unable" and gpu.node is None]
    bound = {device.address for device in pci.devices() if device.driver == "amdgpu"}
    without = [gpu for gpu in gpus if gpu.address in bound and not unsupported(gpu.pci_id, context.matrix)]
    if not without or kfd.present():
        return None
    if in_container(context.environ):
        return Observation("container_without_devices", {"container": "yes"}, (without[0].why_not,))
    return Observation("kfd_missing", _named(without[0], context), (kfd.NODES, without[0].why_not))


def gpu_not_set_up(context: CheckContext) -> Observation | None:
    """The driver failed to set up a GPU."""
    failed = [gpu for gpu in context.host.gpus if gpu.state == "unable" and gpu.node is not None]
    if not failed:
        return None
    evidence = tuple(f"{called(gpu)}: {gpu.why_not}" for gpu in failed)
    return Observation("gpu_not_set_up", _named(failed[0], context), evidence)


def igpu_first(context: CheckContext) -> Observation | None:
    """The first visible GPU, which most programs use, is integrated, but the machine has a card."""
    stages = _stages(context)
    if not stages or not stages[-1].visible:
        return None
    first = stages[-1].visible[0]
    chosen = next((stage for stage in stages if _selects_igpu(stage)), None)
    # HIP's variable indexes the GPUs that ROCr's leaves visible.
    listed = (chosen or stages[-1]).among
    cards = _cards(listed)
    if not cards or not first.integrated:
        return None
    wanted = ",".join(str(number) for number, gpu in enumerate(listed) if gpu in cards)
    values = {"igpu": short_name(first), "card": short_name(cards[0]), "wanted": wanted}
    evidence = [f"{stage.name}={stage.value}" for stage in stages if stage.value]
    evidence += [f"{number}: {called(gpu)}" for number, gpu in enumerate(listed)]
    if chosen is None:
        return Observation("igpu_first", values, tuple(evidence))
    values |= {"variable": chosen.name, "value": chosen.value or ""}
    return Observation("igpu_selected", values, tuple(evidence))


def _selects_igpu(stage: _Stage) -> bool:
    """Whether this variable is what keeps programs from using a card first."""
    if not stage.value or not stage.visible or not _cards(stage.among):
        return False
    return stage.visible[0].integrated is True and (
        not stage.among[0].integrated or not _cards(stage.visible)
    )


def _cards(gpus: tuple[Gpu, ...]) -> list[Gpu]:
    return [gpu for gpu in gpus if gpu.integrated is False and gpu.usable]


def gpus_hidden(context: CheckContext) -> Observation | None:
    """A variable hides every GPU."""
    stages = _stages(context)
    empty = next((stage for stage in stages or () if not stage.visible), None)
    if not stages or empty is None:
        return None
    set_ = tuple(f"{stage.name}={stage.value}" for stage in stages if stage.value is not None)
    return Observation("gpus_hidden", {"variable": empty.name, "value": empty.value or ""}, set_)


_ROCR_VARIABLE = "ROCR_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class _Stage:
    """A variable that selects GPUs; the next variable renumbers those that remain."""

    name: str
    value: str | None  # None if not set
    among: tuple[Gpu, ...]  # the GPUs that it selects from
    visible: tuple[Gpu, ...]


def _stages(context: CheckContext) -> tuple[_Stage, ...] | None:
    """The GPUs that remain after ROCr's variable and then HIP's; None without GPUs, or if a list is invalid.

    Windows has no ROCr.

    Source: ROCm/rocm-systems:projects/rocr-runtime amd_filter_device.cpp, projects/clr rocdevice.cpp
    """
    numbered = [(gpu.hip_index, gpu) for gpu in context.host.gpus if gpu.hip_index is not None]
    gpus = tuple(gpu for _, gpu in sorted(numbered, key=lambda each: each[0]))
    rocr = context.environ.get(_ROCR_VARIABLE) if context.platform == "linux" else None
    name, hip = hip_selection(context)
    after_rocr = gpus if rocr is None else _selected(rocr, gpus)
    after_hip = after_rocr if not hip or not after_rocr else _selected(hip, after_rocr)
    if not gpus or after_rocr is None or after_hip is None:
        return None
    return _Stage(_ROCR_VARIABLE, rocr, gpus, after_rocr), _Stage(name, hip or None, after_rocr, after_hip)


def hip_selection(context: CheckContext) -> tuple[str, str]:
    """The variable that selects GPUs for HIP, and its value. Unlike ROCr, HIP treats "" as not set."""
    names = (VISIBLE, "CUDA_VISIBLE_DEVICES")  # HIP falls back to CUDA's variable
    found = ((name, context.variable(name).strip()) for name in names)
    return next(((name, value) for name, value in found if value), (VISIBLE, ""))


def _selected(text: str, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...] | None:
    """The GPUs that a list selects; ROCr and HIP stop at the first entry that they cannot use."""
    selected: list[Gpu] = []
    for token in (each.strip() for each in text.split(",")):
        if token.upper().startswith("GPU-"):
            return None  # a UUID, which the kernel does not report
        number = int(token) if token.isascii() and token.isdecimal() and len(token) < 10 else len(gpus)
        if number >= len(gpus):
            break
        selected.append(gpus[number])
    return tuple(selected)


def _named(gpu: Gpu | None, context: CheckContext) -> dict[str, str]:
    target = gpu.target if gpu else ""
    kernels = (row.linux for row in context.matrix.first_kernel if row.target == target)
    return {
        "gpu": short_name(gpu) if gpu else "",
        "gfx": target,
        "kernel": context.host.driver.kernel,
        "oldest": next(kernels, ""),
        "loaded": "yes" if context.host.driver.loaded else "",
        "distro": distro(),
    }


def _render_nodes(context: CheckContext) -> list[str]:
    minors = [gpu.render_minor for gpu in context.host.gpus if gpu.render_minor is not None]
    paths = [f"/dev/dri/renderD{minor}" for minor in minors]
    return [path for path in paths if is_there(path)]


def in_container(environ: Mapping[str, str]) -> bool:
    """Whether the machine being examined is a container, based on files, variables and mounts."""
    if any(is_there(path) for path in _CONTAINER_FILES):
        return True
    if any(environ.get(name) for name in _CONTAINER_VARIABLES):
        return True
    # A support bundle contains this result, but not all the files that it is based on.
    return tried("container", "/proc/self/mountinfo", _has_container_mounts, False) or _has_container_mounts()


def _has_container_mounts() -> bool:
    if _CGROUP.search(read_attribute("/proc/1/cgroup")[0]):
        return True
    for line in read_attribute("/proc/self/mountinfo", 1 << 20)[0].splitlines():
        fields = line.split(" ")
        is_mount = len(fields) > 4 and fields[4] in _CONTAINER_MOUNTS
        if is_mount and _LAYERS.search(" ".join((fields[3], *fields[5:]))):
            return True
    return False


def _own_groups() -> str:
    return " ".join(map(str, sorted({os.getegid(), *os.getgroups()})))


def _mode_and_group(path: str) -> str:
    """A device's mode and group, such as `crw-rw---- 105`, or "" if it does not exist."""
    try:
        state = os.stat(machine_path(path))
    except OSError:
        return ""
    return f"{stat.filemode(state.st_mode)} {state.st_gid}"


def _groups() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Group names by number, and group members by name, from /etc/group."""
    names: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for line in read_attribute("/etc/group", 1 << 20)[0].splitlines():
        fields = line.split(":")
        if len(fields) == 4 and fields[2].isdecimal():
            names.setdefault(fields[2], fields[0])
            members[fields[0]] = fields[3].split(",")
    return names, members

"""Checks of Linux: is there a GPU, does a driver have it, may this user open it, is it the first one."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.doctor.checks.wsl import is_wsl
from rocenv.doctor.distribution import distro
from rocenv.doctor.gpu_names import short_name
from rocenv.doctor.rights import in_container, rights
from rocenv.doctor.seen import Seen
from rocenv.host import kfd, pci
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_is_older
from rocenv.system.machine import access_errno, is_there, open_errno

if TYPE_CHECKING:
    from rocenv.doctor.scene import Scene
    from rocenv.host import Gpu

KFD = "/dev/kfd"


def no_gpu(scene: Scene) -> Seen | None:
    """Nothing of AMD on the PCI bus."""
    host = scene.host
    if host.gpus or host.named or is_wsl():
        return None
    return Seen("no_gpu", {"container": "yes" if in_container(scene.environ) else ""}, (host.why,))


def kfd_closed(scene: Scene) -> Seen | None:
    """The compute device is there, and this user may not open it."""
    if not kfd.gpu_nodes() or open_errno(KFD) != errno.EACCES:
        return None
    return _closed("kfd_closed", [KFD, *_render_nodes(scene)], scene)


def render_node_closed(scene: Scene) -> Seen | None:
    """The compute device opens, and a GPU's own device does not."""
    if not kfd.gpu_nodes() or open_errno(KFD) != 0:
        return None
    closed = [path for path in _render_nodes(scene) if access_errno(path) == errno.EACCES]
    return _closed("render_node_closed", closed, scene) if closed else None


def _closed(tells: str, paths: list[str], scene: Scene) -> Seen:
    user = scene.environ.get("USER") or scene.environ.get("LOGNAME") or ""
    found = rights(paths, user)
    values = {
        "groups": ",".join(name for name in found.lacking if not name.isdecimal()),
        "number": next((name for name in found.lacking if name.isdecimal()), ""),
        "waiting": "yes" if found.waiting else "",
        "rule": "yes" if found.closed_to_group else "",
        "container": "yes" if in_container(scene.environ) else "",
        "device": paths[0],
    }
    return Seen(tells, values, found.lines)


def kfd_refuses(scene: Scene) -> Seen | None:
    """The compute device does not open, whoever asks."""
    error = open_errno(KFD) if kfd.gpu_nodes() else 0
    if error in (0, errno.EACCES, errno.EPERM, errno.ENOENT):
        return None
    name = errno.errorcode.get(error, str(error))
    values = {"error": name, "meaning": os.strerror(error), "kernel": scene.host.driver.kernel}
    return Seen("kfd_refuses", values, (f"open {KFD}: {name}, {os.strerror(error)}",))


def container_without_devices(scene: Scene) -> Seen | None:
    """The kernel has a GPU, and the devices to reach it are not here, as in a container."""
    if is_wsl():
        return None
    gpus = scene.host.gpus
    values = {"container": "yes" if in_container(scene.environ) else ""}
    error = open_errno(KFD)
    # Without a container the same looks like a driver whose devices were not made.
    tells = "container_without_devices" if values["container"] else "devices_missing"
    if kfd.gpu_nodes() and error in (errno.ENOENT, errno.EPERM):
        return Seen(tells, values, (f"open {KFD}: {errno.errorcode[error]}",))
    if any(gpu.usable for gpu in gpus) or error:
        return None
    kept = [gpu for gpu in gpus if gpu.state == "barred" and _kept_out(gpu)]
    evidence = tuple(f"{called(gpu)}: {gpu.why_not}" for gpu in kept)
    return Seen(tells, values, evidence) if kept else None


def _kept_out(gpu: Gpu) -> bool:
    if gpu.render_minor is None:
        return True  # its node cannot be read, as the kernel has it for GPUs that a container was not given
    return access_errno(f"/dev/dri/renderD{gpu.render_minor}") == errno.ENOENT


def gpu_without_driver(scene: Scene) -> Seen | None:
    """No driver, or one that does not compute, has a GPU."""
    works = any(gpu.state != "unable" for gpu in scene.host.gpus)
    for device in pci.devices():
        if device.vendor != pci.AMD or device.driver == "amdgpu" or (works and device.driver):
            continue
        gpu = next((each for each in scene.host.gpus if each.address == device.address), None)
        values = _named(gpu, scene) | {"driver": device.driver}
        evidence = (f"{device.address} {pci.AMD:04x}:{device.device}, driver: {device.driver or '-'}",)
        oldest = values["oldest"]
        if oldest and not scene.host.driver.amdgpu and kernel_is_older(scene.host.driver.kernel, oldest):
            return Seen("kernel_too_old_for_gpu", values, evidence)
        tells = {"": "gpu_without_driver", "vfio-pci": "gpu_reserved"}.get(device.driver, "gpu_on_old_driver")
        return Seen(tells, values, evidence)
    return None


def kfd_missing(scene: Scene) -> Seen | None:
    """The driver has the GPU, and the kernel has no compute part."""
    gpus = [gpu for gpu in scene.host.gpus if gpu.state == "unable" and gpu.node is None]
    bound = {device.address for device in pci.devices() if device.driver == "amdgpu"}
    without = [gpu for gpu in gpus if gpu.address in bound]
    if not without or kfd.present():
        return None
    if in_container(scene.environ):
        return Seen("container_without_devices", {"container": "yes"}, (without[0].why_not,))
    return Seen("kfd_missing", _named(without[0], scene), (kfd.NODES, without[0].why_not))


def gpu_not_set_up(scene: Scene) -> Seen | None:
    """The driver gave up on a GPU while it set it up."""
    failed = [gpu for gpu in scene.host.gpus if gpu.state == "unable" and gpu.node is not None]
    if not failed:
        return None
    evidence = tuple(f"{called(gpu)}: {gpu.why_not}" for gpu in failed)
    return Seen("gpu_not_set_up", _named(failed[0], scene), evidence)


def igpu_first(scene: Scene) -> Seen | None:
    """Programs take the first GPU, and that is the processor's own beside a card."""
    stages = _stages(scene)
    if not stages:
        return None
    listed, seen = stages[0].left, stages[-1].left
    cards = [gpu for gpu in seen if gpu.integrated is False and gpu.usable]
    if not cards or not seen[0].integrated:
        return None
    # HIP's variable counts what ROCr's leaves.
    wanted = ",".join(str(number) for number, gpu in enumerate(listed) if gpu in cards)
    values = {"igpu": short_name(seen[0]), "card": short_name(cards[0]), "wanted": wanted}
    evidence = [f"{stage.name}={stage.value}" for stage in stages if stage.value]
    evidence += [f"{number}: {called(gpu)}" for number, gpu in enumerate(listed)]
    return Seen("igpu_first", values, tuple(evidence))


def gpus_hidden(scene: Scene) -> Seen | None:
    """A variable hides every GPU from programs."""
    stages = _stages(scene)
    empty = next((stage for stage in stages or () if not stage.left), None)
    if not stages or empty is None:
        return None
    set_ = tuple(f"{stage.name}={stage.value}" for stage in stages if stage.value is not None)
    return Seen("gpus_hidden", {"variable": empty.name, "value": empty.value or ""}, set_)


_OF_ROCR = "ROCR_VISIBLE_DEVICES"
_OF_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # CUDA's is read where its own is not set


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a variable leaves of the GPUs; the next one counts these."""

    name: str
    value: str | None  # None = it is not set
    left: tuple[Gpu, ...]


def _stages(scene: Scene) -> tuple[_Stage, ...] | None:
    """Return what is left behind ROCr, then behind HIP; None where there are no GPUs, or it cannot be told.

    Source: ROCm/rocm-systems:projects/rocr-runtime amd_filter_device.cpp, projects/clr rocdevice.cpp
    """
    gpus = tuple(gpu for gpu in scene.host.gpus if gpu.hip_index is not None)
    of_rocr = scene.environ.get(_OF_ROCR)
    name = next((name for name in _OF_HIP if scene.environ.get(name)), _OF_HIP[0])
    of_hip = scene.environ.get(name) or None  # set to nothing means not set, to HIP alone
    behind_rocr = gpus if of_rocr is None else _kept(of_rocr, gpus)
    behind_hip = behind_rocr if of_hip is None or not behind_rocr else _kept(of_hip, behind_rocr)
    if not gpus or behind_rocr is None or behind_hip is None:
        return None
    return _Stage(_OF_ROCR, of_rocr, behind_rocr), _Stage(name, of_hip, behind_hip)


def _kept(text: str, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...] | None:
    """Return the GPUs of a list; neither reads on behind what it cannot use."""
    kept: list[Gpu] = []
    for token in (each.strip() for each in text.split(",")):
        if token.upper().startswith("GPU-"):
            return None  # a unique id, which the kernel does not say
        number = int(token) if token.isascii() and token.isdecimal() and len(token) < 10 else len(gpus)
        if number >= len(gpus):
            break
        kept.append(gpus[number])
    return tuple(kept)


def _named(gpu: Gpu | None, scene: Scene) -> dict[str, str]:
    target = gpu.target if gpu else ""
    kernels = (row.linux for row in scene.matrix.first_kernel if row.target == target)
    return {
        "gpu": short_name(gpu) if gpu else "",
        "gfx": target,
        "kernel": scene.host.driver.kernel,
        "oldest": next(kernels, ""),
        "loaded": "yes" if scene.host.driver.loaded else "",
        "distro": distro(),
    }


def _render_nodes(scene: Scene) -> list[str]:
    minors = [gpu.render_minor for gpu in scene.host.gpus if gpu.render_minor is not None]
    paths = [f"/dev/dri/renderD{minor}" for minor in minors]
    return [path for path in paths if is_there(path)]

"""Checks of Linux: is there a GPU, does a driver have it, may this user open it, is it the first one."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from rocenv.doctor.rights import in_container, rights
from rocenv.doctor.seen import Seen
from rocenv.host import kfd, pci
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_is_older
from rocenv.system.machine import access_errno, is_there, list_folder, open_errno, read_attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.doctor.scene import Scene
    from rocenv.host import Gpu

KFD = "/dev/kfd"
_ROCM_FOLDERS = ("/opt/rocm/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib")
# What reaches the GPU below Windows: a library, and in older releases a package in place of the runtime.
_WSL_LIBRARY = "librocdxg.so"
_WSL_PACKAGE = "hsa-runtime-rocr4wsl-amdgpu"


def no_gpu(scene: Scene) -> Seen | None:
    """Nothing of AMD on the PCI bus."""
    host = scene.host
    if host.gpus or host.named or _is_wsl():
        return None
    return Seen("no_gpu", {"container": "yes" if in_container() else ""}, (host.why,))


def wsl_without_gpu(scene: Scene) -> Seen | None:
    """Linux on Windows to which Windows gives no GPU."""
    if not _is_wsl() or access_errno("/dev/dxg") != errno.ENOENT:
        return None
    return Seen("wsl_without_gpu", {}, (_kernel_line(), "/dev/dxg"))


def wsl_without_runtime(scene: Scene) -> Seen | None:
    """Linux on Windows with a GPU, and no ROCm that knows how to reach it there."""
    if not _is_wsl() or access_errno("/dev/dxg") == errno.ENOENT:
        return None
    folders = [*_ROCM_FOLDERS, *(f"/opt/{name}/lib" for name in list_folder("/opt") if "rocm" in name)]
    there = any(name.startswith(_WSL_LIBRARY) for folder in folders for name in list_folder(folder))
    installed = read_attribute("/var/lib/dpkg/status", 64 << 20)[0]
    if there or f"Package: {_WSL_PACKAGE}\n" in installed:
        return None
    return Seen("wsl_without_runtime", {}, (_kernel_line(),))


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
        "numbers": ",".join(name for name in found.lacking if name.isdecimal()),
        "waiting": "yes" if found.waiting else "",
        "rule": "yes" if found.closed_to_group else "",
        "container": "yes" if in_container() else "",
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
    if _is_wsl():
        return None
    gpus = scene.host.gpus
    values = {"container": "yes" if in_container() else ""}
    error = open_errno(KFD)
    if kfd.gpu_nodes() and error in (errno.ENOENT, errno.EPERM):
        return Seen("container_without_devices", values, (f"open {KFD}: {errno.errorcode[error]}",))
    if any(gpu.usable for gpu in gpus) or error:
        return None
    kept = [gpu for gpu in gpus if gpu.state == "barred" and _kept_out(gpu)]
    evidence = tuple(f"{called(gpu)}: {gpu.why_not}" for gpu in kept)
    return Seen("container_without_devices", values, evidence) if kept else None


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
    if in_container():
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
    seen = _visible(scene)
    cards = [gpu for gpu in seen or () if gpu.integrated is False and gpu.usable]
    if not seen or not cards or not seen[0].integrated:
        return None
    listed = [gpu for gpu in scene.host.gpus if gpu.hip_index is not None]
    wanted = ",".join(str(gpu.hip_index) for gpu in listed if gpu in cards)
    values = {
        "igpu": seen[0].name or seen[0].target,
        "card": cards[0].name or cards[0].target,
        "wanted": wanted,
    }
    return Seen("igpu_first", values, tuple(f"{gpu.hip_index}: {called(gpu)}" for gpu in listed))


def gpus_hidden(scene: Scene) -> Seen | None:
    """A variable hides every GPU from programs."""
    names = [name for name in _HIDING if scene.environ.get(name, "").strip()]
    if not names or _visible(scene) != ():
        return None
    set_ = tuple(f"{name}={scene.environ[name]}" for name in names)
    return Seen("gpus_hidden", {"variable": names[0], "value": scene.environ[names[0]]}, set_)


# In the order in which they act. HIP reads CUDA's only where its own is not set.
_HIDING = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def _visible(scene: Scene) -> tuple[Gpu, ...] | None:
    """Return the GPUs in the order that programs see; None where there are none, or it cannot be told."""
    gpus: Sequence[Gpu] = [gpu for gpu in scene.host.gpus if gpu.hip_index is not None]
    if not gpus:
        return None
    shown = [scene.environ.get(name, "").strip() for name in _HIDING]
    for text in (shown[0], shown[1] or shown[2]):
        if text and not text.replace(",", "").replace("-", "").replace(" ", "").isdecimal():
            return None  # by their unique ids, which the kernel does not say
        kept = []
        for number in map(int, filter(str.strip, text.split(","))):
            if not 0 <= number < len(gpus):
                break  # neither reads on behind one that is not there
            kept.append(gpus[number])
        gpus = kept if text else gpus
    return tuple(gpus)


def _named(gpu: Gpu | None, scene: Scene) -> dict[str, str]:
    target = gpu.target if gpu else ""
    kernels = (row.linux for row in scene.matrix.first_kernel if row.target == target)
    return {
        "gpu": (gpu.name or gpu.target or gpu.pci_id) if gpu else "",
        "gfx": target,
        "kernel": scene.host.driver.kernel,
        "oldest": next(kernels, ""),
        "loaded": "yes" if scene.host.driver.loaded else "",
    }


def _render_nodes(scene: Scene) -> list[str]:
    minors = [gpu.render_minor for gpu in scene.host.gpus if gpu.render_minor is not None]
    paths = [f"/dev/dri/renderD{minor}" for minor in minors]
    return [path for path in paths if is_there(path)]


def _is_wsl() -> bool:
    return "microsoft" in _kernel_line().lower()


def _kernel_line() -> str:
    return read_attribute("/proc/version")[0].partition(" (")[0].strip()

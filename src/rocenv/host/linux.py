"""Detect the GPUs on a Linux machine: KFD nodes, then PCI cards that KFD skipped.

A node's target comes from the kernel if the kernel reports it, and otherwise from the PCI ID. Detection
neither loads libraries nor wakes GPUs.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rocenv.host import kfd, pci
from rocenv.host.gpu import Driver, Found, Gpu, printable, target_name
from rocenv.system.machine import access_errno, list_folder, open_errno, read_attribute, unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.data.rows import Matrix


_KFD = "/dev/kfd"
_RIGHTS = "sudo usermod -aG render,video $USER   # then log in again"
_GRANT_ACCESS = "start the container with `--device /dev/kfd --device /dev/dri`"


def linux_gpus(matrix: Matrix) -> Found:
    """List the GPUs in KFD node order (also HIP's order), then those that KFD skipped."""
    ids = pci.Ids(matrix)
    devices = pci.devices()
    nodes = kfd.gpu_nodes()
    cards = _cards(nodes, [device for device in devices if device.vendor == pci.AMD])
    closed = kfd_barrier() if nodes else None
    gpus: list[Gpu] = []
    remedies: dict[str, None] = {}
    for node in nodes:
        gpu = _of_node(node, cards.get(node.number), ids)
        barrier = _barrier(node, closed)
        if gpu.state == "usable" and barrier:
            gpu = replace(gpu, state="barred", why_not=barrier.why)
            remedies[barrier.remedy] = None
        gpus.append(gpu)
    known = {card.address for card in cards.values()}
    gpus += [_left_out(each, ids) for each in devices if each.vendor == pci.AMD and each.address not in known]
    others = dict.fromkeys(pci.MAKERS[each.vendor] for each in devices if each.vendor in pci.MAKERS)
    return Found(
        gpus=tuple(gpus),
        others=tuple(others),
        remedies=tuple(remedies),
        notes=_partitions(gpus),
        unknown=next(
            (f"`{path}` cannot be read" for path in (kfd.NODES, pci.DEVICES) if unreadable(path)), ""
        ),
    )


def _cards(nodes: tuple[kfd.Node, ...], devices: list[pci.Device]) -> Mapping[int, pci.Device]:
    """Map each node to its card; several partitions can share a card."""
    at = {device.address: device for device in devices}
    cards = {}
    for node in nodes:
        card = next((at[address] for address in node.addresses() if address in at), None)
        if card and not node.unreadable:
            cards[node.number] = card
    # Unreadable nodes also have cards, so match them with the remaining cards, both in bus order.
    spare = [device for device in devices if device.driver == "amdgpu" and device not in cards.values()]
    cards.update(zip((node.number for node in nodes if node.unreadable), spare, strict=False))
    return cards


def _of_node(node: kfd.Node, card: pci.Device | None, ids: pci.Ids) -> Gpu:
    device, revision = (card.device, card.revision) if card else (node.device, "")
    said = node.value("gfx_target_version")
    target = target_name(said) if said else ids.target(device, revision)
    # Old APUs have one KFD node for the CPU and the GPU; newer ones have two.
    integrated = True if node.value("cpu_cores_count") else ids.integrated(target, device, revision)
    vram = card.vram_bytes if card and (integrated or not node.memory_bytes) else node.memory_bytes
    gpu = Gpu(
        source="KFD" if said else "KFD, target by PCI id",
        target=target,
        name=(card.product if card else "") or ids.product(device, revision),
        pci_id=f"{pci.AMD:04x}:{device}" if device else "",
        address=card.address if card else "",
        integrated=integrated,
        vram_bytes=vram or node.memory_bytes or None,
        gtt_bytes=card.gtt_bytes if card else None,
        compute_units=node.compute_units or None,
        node=node.number,
        render_minor=node.value("drm_render_minor") or None,
    )
    if not node.unreadable and (not node.compute_units or node.gpu_id == 0):
        return replace(gpu, state="unable", why_not=f"the driver failed to initialize KFD node {node.number}")
    return gpu


def _barrier(node: kfd.Node, closed: Barrier | None) -> Barrier | None:
    if node.unreadable:
        why = f"KFD node {node.number} is not readable, as in a container without access to it"
        return Barrier(why, _GRANT_ACCESS)
    minor = node.value("drm_render_minor")
    return closed or (render_barrier(minor) if minor else None)


def _left_out(device: pci.Device, ids: pci.Ids) -> Gpu:
    target = ids.target(device.device, device.revision)
    return Gpu(
        source="PCI",
        target=target,
        name=device.product or ids.product(device.device, device.revision),
        pci_id=f"{pci.AMD:04x}:{device.device}",
        address=device.address,
        integrated=ids.integrated(target, device.device, device.revision),
        vram_bytes=device.vram_bytes,
        gtt_bytes=device.gtt_bytes,
        state="unable",
        why_not=ids.unsupported(device.device) or _why_left_out(device.driver),
    )


def _why_left_out(driver: str) -> str:
    if not driver:
        return "no driver is bound to it; load `amdgpu` with `sudo modprobe amdgpu`"
    if driver == "vfio-pci":
        return "it is reserved for a virtual machine: `vfio-pci` is bound to it"
    if driver != "amdgpu":
        return f"the `{driver}` driver is bound to it, but only `amdgpu` supports compute"
    if not kfd.present():
        return (
            "`amdgpu` is bound to it, but the compute driver (KFD) is missing or hidden from this container"
        )
    return (
        "`amdgpu` is bound to it, but the compute driver (KFD) skipped it: the GPU is too old, or its slot"
        " lacks PCIe atomics; `sudo dmesg | grep kfd` shows which"
    )


def _partitions(gpus: list[Gpu]) -> tuple[str, ...]:
    places = [gpu.address for gpu in gpus if gpu.node is not None and gpu.address]
    boards = [address for address in dict.fromkeys(places) if places.count(address) > 1]
    if not boards:
        return ()
    count = sum(places.count(address) for address in boards)
    whole = "one board" if len(boards) == 1 else f"{len(boards)} boards"
    return (f"{count} of these are partitions of {whole}, sharing memory and compute units",)


class Barrier(NamedTuple):
    """Why this process cannot use a device, and what to do about it."""

    why: str
    remedy: str


def linux_driver() -> Driver:
    """Read the kernel and amdgpu versions."""
    text = read_attribute("/proc/version")[0]
    version = re.match(r"Linux version (\S+)", text)
    return Driver(
        kernel=printable(version[1]) if version else "",
        amdgpu=printable(read_attribute("/sys/module/amdgpu/version")[0]),
        loaded=bool(list_folder("/sys/module/amdgpu")),
        wsl="microsoft" in text.lower() and access_errno("/dev/dxg") != errno.ENOENT,
    )


def firmware(address: str) -> dict[str, str]:
    """Read the firmware and VBIOS versions of the GPU at a PCI address; the kernel caches them.

    Source: torvalds/linux:drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.c, amdgpu_atombios.c
    """
    device = f"/sys/bus/pci/devices/{address}"
    paths = {
        name.removesuffix("_fw_version"): f"{device}/fw_version/{name}"
        for name in list_folder(f"{device}/fw_version")
        if name.endswith("_fw_version")
    }
    paths["vbios"] = f"{device}/vbios_version"
    found = {name: printable(read_attribute(path)[0]) for name, path in paths.items()}
    return {name: version for name, version in found.items() if version.strip("0x")}


def kfd_barrier() -> Barrier | None:
    """Return why `/dev/kfd` cannot be opened (every GPU program needs it), or None if it can.

    This opens the device, because in a container the kernel can forbid what the mode allows.
    """
    match error := open_errno(_KFD):
        case 0:
            return None
        case errno.ENOENT:
            return _absent(_KFD)
        case errno.EACCES:
            return Barrier(f"no permission to open `{_KFD}`", _RIGHTS)
        case errno.EPERM:
            return Barrier(f"the container has no access to `{_KFD}`", _GRANT_ACCESS)
    name = errno.errorcode.get(error, str(error))
    return Barrier(
        f"cannot open `{_KFD}`: {name} ({os.strerror(error)}); this is not a permission problem",
        "sudo dmesg | grep -iE 'kfd|amdgpu' | tail   # on the host, if this is a container",
    )


def render_barrier(minor: int) -> Barrier | None:
    """Return why a GPU's render node cannot be used, judging by its mode, or None if it can."""
    path = f"/dev/dri/renderD{minor}"
    error = access_errno(path)
    if error == errno.ENOENT:
        return _absent(path)
    return Barrier(f"no permission to open `{path}`", _RIGHTS) if error else None


def _absent(path: str) -> Barrier:
    return Barrier(f"`{path}` does not exist, as in a container without access to it", _GRANT_ACCESS)

"""Checks of Linux: the kernel and its driver, with each env, and by what they have logged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.doctor.kernel_log import kernel_log, matching
from rocenv.doctor.seen import Seen
from rocenv.host import kfd, pci
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested, tested_drivers
from rocenv.resolve.versions import series
from rocenv.system.machine import list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.doctor.scene import Env, Scene

# Source: torvalds/linux:drivers/gpu/drm/amd/{amdkfd/kfd_device.c,amdgpu/amdgpu_device.c,amdgpu/amdgpu_job.c}
_REJECTED = re.compile(r"kfd.*PCI rejects atomics")
_UNSUPPORTED = re.compile(r"kfd.*\bnot supported in kfd")
_INIT_FAILED = re.compile(r"amdgpu.*(Fatal error during GPU init|probe of \S+ failed with error)")
_FIRMWARE = re.compile(
    r"Direct firmware load for amdgpu/\S+ failed|Failed to (load|get) .*firmware|failed to init \w+ firmware"
)
_RESET = re.compile(
    r"amdgpu.*(GPU reset begin|ring \S+ timeout|MES failed to respond|GPU reset\(\d+\) failed|"
    r"Hang detected|GPU Recovery Failed)",
    re.IGNORECASE,
)
_FAULT = re.compile(r"amdgpu.*\[\w*hub\w*\] .*(page fault|no-retry page fault)", re.IGNORECASE)
_IO_FAULT = re.compile(r"AMD-Vi: Event logged \[?IO_PAGE_FAULT", re.IGNORECASE)


def driver_apart(scene: Scene) -> Seen | None:
    """An env's ROCm was not tested with AMD's kernel driver that is loaded."""
    # A version of three parts (6.10.5) is the module's own, and does not say which ROCm it came with.
    version = scene.host.driver.amdgpu
    driver = kernel_driver(version, scene.matrix) if version.count(".") > 3 else ""
    apart = [
        (env, release)
        for env, release in _releases(scene)
        if driver and tested(driver, release, scene.matrix) is False
    ]
    if not apart:
        return None
    env, release = apart[0]
    drivers, _ = tested_drivers(release, scene.matrix)
    values = {"driver": driver, "rocm": release, "env": env.name, "tested": ", ".join(drivers)}
    evidence = [f"/sys/module/amdgpu/version: {version}"]
    evidence += [f"{env.name}: ROCm {release}" for env, release in apart]
    return Seen("driver_apart", values, tuple(evidence))


def kernel_too_old_for_env(scene: Scene) -> Seen | None:
    """The kernel, whose own driver is used, is older than all that an env's ROCm was tested on."""
    driver = scene.host.driver
    if driver.amdgpu or driver.wsl or not driver.kernel:
        return None
    older = []
    for env, release in _releases(scene):
        oldest, _ = oldest_kernel(release, scene.matrix)
        if oldest and kernel_is_older(driver.kernel, oldest):
            older.append((env, release, oldest))
    if not older:
        return None
    env, release, oldest = older[0]
    values = {"kernel": driver.kernel, "oldest": oldest, "rocm": release, "env": env.name}
    lines = (f"{env.name}: ROCm {release}, tested on Linux {oldest}" for env, release, oldest in older)
    return Seen("kernel_too_old_for_env", values, (f"Linux {driver.kernel}", *lines))


def _releases(scene: Scene) -> Iterator[tuple[Env, str]]:
    """Return the series of ROCm with which each env meets the driver, that in torch's wheels too."""
    for env in (scene.asked,) if scene.asked else scene.envs:
        found = dict.fromkeys(filter(None, (env.rocm, _bundled(env))))
        for release in dict.fromkeys(series(version) for version in found):
            yield env, release


def _bundled(env: Env) -> str:
    """Return the release inside torch's wheels: 6.4 of `2.9.1+rocm6.4`; "" where it is not said."""
    versions = (part.version for part in env.record.lock.components if part.kind == "torch")
    found = re.search(r"\+rocm([0-9]+\.[0-9.]*[0-9])", next(versions, ""))
    return found[1] if found else ""


def gpu_left_out(scene: Scene) -> Seen | None:
    """The driver has a GPU, and its compute part left it out."""
    if not kfd.present():
        return None
    bound = {device.address for device in pci.devices() if device.driver == "amdgpu"}
    works = any(gpu.state != "unable" for gpu in scene.host.gpus)
    gpus = [
        gpu
        for gpu in scene.host.gpus
        if gpu.node is None and gpu.address in bound and not (works and gpu.integrated)
    ]
    if not gpus:
        return None
    log = kernel_log() or []
    values = {"gpu": gpus[0].name or gpus[0].target or gpus[0].pci_id, "gfx": gpus[0].target}
    evidence = tuple(f"{called(gpu)}: {gpu.pci_id}" for gpu in gpus)
    for tells, pattern in (("pcie_atomics_missing", _REJECTED), ("gpu_too_old_for_kfd", _UNSUPPORTED)):
        if lines := matching(log, pattern):
            return Seen(tells, values, (*evidence, *lines))
    return Seen("gpu_left_out", values, evidence)


def gpu_init_failed(scene: Scene) -> Seen | None:
    """The kernel's log tells that the driver could not start a GPU."""
    log = kernel_log() or []
    failed = matching(log, _INIT_FAILED)
    if not failed:
        return None
    firmware = matching(log, _FIRMWARE)
    file = next((found[0] for line in firmware if (found := re.search(r"amdgpu/\S+\.bin", line))), "")
    return Seen("firmware_missing" if firmware else "gpu_init_failed", {"file": file}, (*firmware, *failed))


def gpu_resets(scene: Scene) -> Seen | None:
    """The kernel's log tells of a GPU that hung."""
    lines = matching(kernel_log() or [], _RESET)
    return Seen("gpu_resets", {"kernel": scene.host.driver.kernel}, lines) if lines else None


def gpu_page_faults(scene: Scene) -> Seen | None:
    """The kernel's log tells of programs that touched memory that the GPU does not have."""
    lines = matching(kernel_log() or [], _FAULT)
    return Seen("gpu_page_faults", {}, lines) if lines else None


def iommu_faults(scene: Scene) -> Seen | None:
    """The kernel's log tells that the IOMMU refused what a GPU wanted."""
    addresses = [gpu.address.removeprefix("0000:") for gpu in scene.host.gpus if gpu.address]
    log = kernel_log() or []
    lines = [line for line in log if _IO_FAULT.search(line) and any(at in line for at in addresses)]
    return Seen("iommu_faults", {}, matching(lines, _IO_FAULT)) if lines else None


def iommu_between_gpus(scene: Scene) -> Seen | None:
    """Several cards, each of whose transfers the IOMMU translates."""
    cards = [gpu for gpu in scene.host.gpus if gpu.usable and gpu.address and not gpu.integrated]
    addresses = dict.fromkeys(gpu.address for gpu in cards)
    kinds = {address: _iommu_of(address) for address in addresses}
    translated = [address for address, kind in kinds.items() if kind.startswith("DMA")]
    if len(addresses) < 2 or not translated:
        return None
    line = read_attribute("/proc/cmdline")[0].strip()
    evidence = tuple(f"{address} iommu_group/type: {kinds[address]}" for address in translated)
    options = " ".join(word for word in line.split() if "iommu" in word)
    return Seen("iommu_between_gpus", {"count": str(len(addresses)), "options": options}, evidence)


def _iommu_of(address: str) -> str:
    """Return how the IOMMU treats a device: `DMA`, `DMA-FQ`, `identity`; "" where there is none.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-kernel-iommu_groups
    """
    group = f"{pci.DEVICES}/{address}/iommu_group"
    return read_attribute(f"{group}/type")[0].strip() if list_folder(group) else ""

"""Checks of Linux: the kernel and its driver, with each env, and by what they have logged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.versions import series
from rocenv.doctor.distribution import distro
from rocenv.doctor.gpu_names import short_name
from rocenv.doctor.kernel_log import kernel_log, matching
from rocenv.doctor.seen import Seen
from rocenv.host import kfd, pci
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested, tested_drivers
from rocenv.system.machine import list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.doctor.scene import Env, Scene
    from rocenv.doctor.seen import Found

# Sources: torvalds/linux:drivers/gpu/drm/amd/{amdkfd/kfd_device.c,amdkfd/kfd_device_queue_manager.c,
# amdgpu/amdgpu_device.c,amdgpu/amdgpu_job.c,amdgpu/mes_v11_0.c}, drivers/iommu/{amd/iommu.c,intel/dmar.c}
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_REJECTED = re.compile(r"PCI rejects atomics|PCIE atomic ops is not supported")
_UNSUPPORTED = re.compile(r"\bnot supported in kfd")
_INIT_FAILED = re.compile(
    r"Fatal error during GPU init|probe (?:of [0-9a-f:.]{7,16}|with driver amdgpu) failed with error"
)
_FIRMWARE = re.compile(
    r"Direct firmware load for amdgpu/\S{1,80} failed|Failed to (?:load|get) .{0,80}firmware|"
    r"failed to init \w{1,20} firmware"
)
_FILE = re.compile(r"amdgpu/[\w.+-]{1,80}\.bin")
_RESET = re.compile(
    r"GPU reset begin|\bring \S{1,40} timeout|MES failed to respon(?:d|se)|MES might be in unrecoverable|"
    r"GPU reset\(\d{1,9}\) (?:failed|succeeded)|Hang detected|GPU Recovery Failed|"
    r"queue preemption time ?out|fence wait loop timeout expired|ring \S{1,40} reset succeeded",
    re.IGNORECASE,
)
_SOFT = re.compile(r"soft recovered|ring \S{1,40} reset succeeded", re.IGNORECASE)
_TIMEOUT = re.compile(r"\bring \S{1,40} timeout", re.IGNORECASE)
_LOST = re.compile(r"GPU reset\(\d{1,9}\) failed|GPU Recovery Failed", re.IGNORECASE)
_BACK = re.compile(r"GPU reset\(\d{1,9}\) succeeded", re.IGNORECASE)
_FAULT = re.compile(r"\[\w{0,20}hub\w{0,8}\] (?:\S{1,20} )?page fault", re.IGNORECASE)
_IO_FAULT = re.compile(
    r"AMD-Vi: Event logged \[?IO_PAGE_FAULT|Request device \[[0-9a-f:.]{7,12}\] (?:PASID \S{1,16} )?fault",
    re.IGNORECASE,
)
_OURS = ("amdgpu", "kfd")  # what the lines of AMD's driver have in them


def driver_apart(scene: Scene) -> Found:
    """An env's ROCm was not tested with AMD's kernel driver that is loaded."""
    # A version of three parts (6.10.5) is the module's own, and does not say which ROCm it came with.
    version = scene.host.driver.amdgpu
    driver = kernel_driver(version, scene.matrix) if version.count(".") > 3 else ""
    apart = [
        (env, release)
        for env, release in _releases(scene)
        if driver and tested(driver, release, scene.matrix) is False
    ]
    found = []
    for release in dict.fromkeys(release for _env, release in apart):
        drivers, _ = tested_drivers(release, scene.matrix)
        names = [env.name for env, other in apart if other == release]
        values = {"driver": driver, "rocm": release, "env": ", ".join(names), "tested": ", ".join(drivers)}
        evidence = (f"/sys/module/amdgpu/version: {version}", *(f"{name}: ROCm {release}" for name in names))
        found.append(Seen("driver_apart", values, evidence))
    return tuple(found)


def kernel_too_old_for_env(scene: Scene) -> Found:
    """The kernel, whose own driver is used, is older than all that an env's ROCm was tested on."""
    driver = scene.host.driver
    if driver.amdgpu or driver.wsl or not driver.kernel:
        return None
    older = []
    for env, release in _releases(scene):
        oldest, _ = oldest_kernel(release, scene.matrix)
        if oldest and kernel_is_older(driver.kernel, oldest):
            older.append((env, release, oldest))
    return tuple(
        Seen(
            "kernel_too_old_for_env",
            {"kernel": driver.kernel, "oldest": oldest, "rocm": release, "env": env.name},
            (f"Linux {driver.kernel}", f"{env.name}: ROCm {release}, from Linux {oldest} on"),
        )
        for env, release, oldest in older
    )


def _releases(scene: Scene) -> Iterator[tuple[Env, str]]:
    """Return the series of ROCm with which each env meets the driver, that in torch's wheels too."""
    for env in (scene.asked,) if scene.asked else scene.envs:
        found = dict.fromkeys(filter(None, (env.rocm, _bundled(env))))
        for release in dict.fromkeys(series(version) for version in found):
            yield env, release


def _bundled(env: Env) -> str:
    """Return the release inside torch's wheels: 6.4 of `2.9.1+rocm6.4`; "" where it is not said."""
    torch = env.record.lock.part("torch")
    found = re.search(r"\+rocm([0-9]+\.[0-9.]*[0-9])", torch.version if torch is not None else "")
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
    log = kernel_log(scene) or ()
    values = {"gpu": short_name(gpus[0]), "gfx": gpus[0].target}
    evidence = tuple(f"{called(gpu)}: {gpu.address}" for gpu in gpus)
    for tells, pattern in (("pcie_atomics_missing", _REJECTED), ("gpu_too_old_for_kfd", _UNSUPPORTED)):
        if lines := matching(log, pattern, *_OURS):
            return Seen(tells, values, (*evidence, *lines))
    return Seen("gpu_left_out", values, evidence)


def gpu_init_failed(scene: Scene) -> Seen | None:
    """The kernel's log tells that the driver could not start a GPU; or the log cannot be read."""
    log = kernel_log(scene)
    if log is None:
        is_told = scene.host.gpus and not scene.elsewhere and not scene.host.driver.wsl
        return Seen("kernel_log_unread", {"distro": distro()}, ("dmesg, journalctl -k",)) if is_told else None
    failed = matching(log, _INIT_FAILED, "amdgpu")
    if not failed:
        return None
    addresses = {address for line in failed for address in _ADDRESS.findall(line)}
    firmware = tuple(
        line for line in matching(log, _FIRMWARE, "amdgpu", most=100) if _is_of(line, addresses)
    )[-4:]
    file = next((found[0] for line in firmware if (found := _FILE.search(line))), "")
    tells = "firmware_missing" if firmware else "gpu_init_failed"
    return Seen(tells, {"file": file, "distro": distro()}, (*firmware, *failed))


def _is_of(line: str, addresses: set[str]) -> bool:
    """Tell whether a line of the driver is of one of some devices; older drivers name none."""
    of = _ADDRESS.findall(line)
    return not of or not addresses or not addresses.isdisjoint(of)


def gpu_resets(scene: Scene) -> Seen | None:
    """The kernel's log tells of a GPU that hung."""
    log = kernel_log(scene) or ()
    lines = matching(log, _RESET, *_OURS, most=100)
    if not lines:
        return None
    soft = any(_SOFT.search(line) for line in lines)
    if soft and all(_SOFT.search(line) or _TIMEOUT.search(line) for line in lines):
        return Seen("gpu_recovered", {"kernel": scene.host.driver.kernel}, lines[-4:])
    lost, back = (any(pattern.search(line) for line in lines) for pattern in (_LOST, _BACK))
    values = {"kernel": scene.host.driver.kernel, "back": "yes" if back and not lost else ""}
    return Seen("gpu_resets", values, lines[-4:])


def gpu_page_faults(scene: Scene) -> Seen | None:
    """The kernel's log tells of programs that touched memory that the GPU does not have."""
    lines = matching(kernel_log(scene) or (), _FAULT, "amdgpu")
    return Seen("gpu_page_faults", {}, lines) if lines else None


def iommu_faults(scene: Scene) -> Seen | None:
    """The kernel's log tells that the IOMMU refused what a GPU wanted."""
    addresses = [gpu.address.removeprefix("0000:") for gpu in scene.host.gpus if gpu.address]
    lines = [line for line in kernel_log(scene) or () if "AMD-Vi:" in line or "DMAR:" in line]
    lines = [line for line in lines if any(at in line for at in addresses)]
    found = matching(lines, _IO_FAULT)
    is_on = "iommu=pt" in read_attribute("/proc/cmdline")[0].split()
    values = {"distro": distro(), "through": "yes" if is_on else ""}
    return Seen("iommu_faults", values, found) if found else None


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
    values = {"count": str(len(addresses)), "options": options, "distro": distro()}
    return Seen("iommu_between_gpus", values, evidence)


def _iommu_of(address: str) -> str:
    """Return how the IOMMU treats a device: `DMA`, `DMA-FQ`, `identity`; "" where there is none.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-kernel-iommu_groups
    """
    group = f"{pci.DEVICES}/{address}/iommu_group"
    return read_attribute(f"{group}/type")[0].strip() if list_folder(group) else ""

"""Linux: check the kernel, the GPU driver, whether they match each env's ROCm, and the kernel log."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.checks.context import distro, short_name
from rocenv.core.foreign import open_regular
from rocenv.core.versions import series
from rocenv.findings import Observation
from rocenv.host import kfd, pci
from rocenv.host.products import unsupported
from rocenv.host.ranking import called
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested, tested_drivers
from rocenv.system.machine import (
    examined_elsewhere,
    list_folder,
    machine_path,
    program_output,
    read_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from re import Pattern

    from rocenv.checks.context import CheckContext, Env
    from rocenv.findings import CheckResult


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
_FIRMWARE_FILE = re.compile(r"amdgpu/[\w.+-]{1,80}\.bin")
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
# The lines that the checks look for; a support bundle keeps only these.
FAULTS = (_REJECTED, _UNSUPPORTED, _INIT_FAILED, _FIRMWARE, _RESET, _FAULT, _IO_FAULT)
_DRIVER = ("amdgpu", "kfd")  # in log lines from AMD's driver
_TIMEOUT_S = 5
_MAX_BYTES = 8 << 20
_MAX_LINE = 1000  # characters; the kernel's own lines are shorter
_COPY = "/var/log/dmesg"
_FILE = "/var/log/kern.log"
_DEVICE = "/dev/kmsg"  # only in a snapshot, because reading the device itself never ends
# journalctl also works for users who cannot run dmesg because of `kernel.dmesg_restrict`.
_PROGRAMS = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "--lines=50000"))
# Line prefixes of syslog, dmesg and /dev/kmsg.
_PREFIX = re.compile(r"^(?:\S.*? kernel: )?(?:<\d+>)?(?:\[ *[0-9.]+\] ?|\d+,\d+,\d+,[^;]*;)?")
_START = re.compile(r"\bLinux version \d")

# The log for the last context, cached so that the programs run only once.
_read: tuple[CheckContext, tuple[str, ...] | None] | None = None


def driver_apart(context: CheckContext) -> CheckResult:
    """AMD has not tested an env's ROCm with the loaded kernel driver."""
    # A version with three parts, such as 6.10.5, is the module's own and does not identify a ROCm release.
    version = context.host.driver.amdgpu
    driver = kernel_driver(version, context.matrix) if version.count(".") > 3 else ""
    apart = [
        (env, release)
        for env, release in _releases(context)
        if driver and tested(driver, release, context.matrix) is False
    ]
    found = []
    for release in dict.fromkeys(release for _env, release in apart):
        drivers, _ = tested_drivers(release, context.matrix)
        names = [env.name for env, other in apart if other == release]
        values = {"driver": driver, "rocm": release, "env": ", ".join(names), "tested": ", ".join(drivers)}
        values["name"] = next(env.prefix.free_name() for env, other in apart if other == release)
        evidence = (f"/sys/module/amdgpu/version: {version}", *(f"{name}: ROCm {release}" for name in names))
        found.append(Observation("driver_apart", values, evidence))
    return tuple(found)


def kernel_too_old_for_env(context: CheckContext) -> CheckResult:
    """The kernel uses its in-tree driver and is older than all kernels on which AMD tested the env's ROCm."""
    driver = context.host.driver
    if driver.amdgpu or driver.wsl or not driver.kernel:
        return None
    older = []
    for env, release in _releases(context):
        oldest, _ = oldest_kernel(release, context.matrix)
        if oldest and kernel_is_older(driver.kernel, oldest):
            older.append((env, release, oldest))
    return tuple(
        Observation(
            "kernel_too_old_for_env",
            {"kernel": driver.kernel, "oldest": oldest, "rocm": release, "env": env.name},
            (f"Linux {driver.kernel}", f"{env.name}: ROCm {release} needs Linux {oldest} or newer"),
        )
        for env, release, oldest in older
    )


def _releases(context: CheckContext) -> Iterator[tuple[Env, str]]:
    """The ROCm series of each env, including those bundled in PyTorch wheels."""
    for env in context.relevant_envs:
        found = dict.fromkeys(filter(None, (env.rocm, _rocm_of_torch(env))))
        for release in dict.fromkeys(series(version) for version in found):
            yield env, release


def _rocm_of_torch(env: Env) -> str:
    """The ROCm release bundled in PyTorch wheels, such as 6.4 in `2.9.1+rocm6.4`, or "" without one."""
    torch = env.record.lock.part("torch")
    found = re.search(r"\+rocm([0-9]+\.[0-9.]*[0-9])", torch.version if torch is not None else "")
    return found[1] if found else ""


def gpu_left_out(context: CheckContext) -> Observation | None:
    """The compute driver ignores a GPU that uses amdgpu."""
    if not kfd.present():
        return None
    bound = {device.address for device in pci.devices() if device.driver == "amdgpu"}
    works = any(gpu.state != "unable" for gpu in context.host.gpus)
    gpus = [
        gpu
        for gpu in context.host.gpus
        if gpu.node is None
        and gpu.address in bound
        and not (works and gpu.integrated)
        and not unsupported(gpu.pci_id, context.matrix)
    ]
    if not gpus:
        return None
    log = kernel_log(context) or ()
    values = {"gpu": short_name(gpus[0]), "gfx": gpus[0].target}
    evidence = tuple(f"{called(gpu)}: {gpu.address}" for gpu in gpus)
    for row, pattern in (("pcie_atomics_missing", _REJECTED), ("gpu_too_old_for_kfd", _UNSUPPORTED)):
        if lines := matching(log, pattern, *_DRIVER):
            return Observation(row, values, (*evidence, *lines))
    return Observation("gpu_left_out", values, evidence)


def gpu_init_failed(context: CheckContext) -> Observation | None:
    """The kernel log shows that the driver failed to initialize a GPU, or the log is not readable."""
    log = kernel_log(context)
    if log is None:
        is_relevant = context.host.gpus and not context.elsewhere and not context.host.driver.wsl
        return (
            Observation("kernel_log_unreadable", {"distro": distro()}, ("dmesg, journalctl -k",))
            if is_relevant
            else None
        )
    failed = matching(log, _INIT_FAILED, "amdgpu")
    if not failed:
        return None
    addresses = {address for line in failed for address in _ADDRESS.findall(line)}
    firmware = tuple(
        line for line in matching(log, _FIRMWARE, "amdgpu", most=100) if _is_about(line, addresses)
    )[-4:]
    file = next((found[0] for line in firmware if (found := _FIRMWARE_FILE.search(line))), "")
    row = "firmware_missing" if firmware else "gpu_init_failed"
    return Observation(row, {"file": file, "distro": distro()}, (*firmware, *failed))


def _is_about(line: str, addresses: set[str]) -> bool:
    """Whether a log line may be about one of these devices; older drivers do not log addresses."""
    named = _ADDRESS.findall(line)
    return not named or not addresses or not addresses.isdisjoint(named)


def gpu_resets(context: CheckContext) -> Observation | None:
    """The kernel log shows that a GPU hung."""
    log = kernel_log(context) or ()
    lines = matching(log, _RESET, *_DRIVER, most=100)
    if not lines:
        return None
    soft = any(_SOFT.search(line) for line in lines)
    if soft and all(_SOFT.search(line) or _TIMEOUT.search(line) for line in lines):
        return Observation("gpu_recovered", {"kernel": context.host.driver.kernel}, lines[-4:])
    lost, back = (any(pattern.search(line) for line in lines) for pattern in (_LOST, _BACK))
    values = {"kernel": context.host.driver.kernel, "back": "yes" if back and not lost else ""}
    return Observation("gpu_resets", values, lines[-4:])


def gpu_page_faults(context: CheckContext) -> Observation | None:
    """The kernel log shows that programs accessed unmapped GPU memory."""
    lines = matching(kernel_log(context) or (), _FAULT, "amdgpu")
    return Observation("gpu_page_faults", {}, lines) if lines else None


def iommu_faults(context: CheckContext) -> Observation | None:
    """The kernel log shows that the IOMMU rejected a GPU's memory accesses."""
    addresses = [gpu.address.removeprefix("0000:") for gpu in context.host.gpus if gpu.address]
    lines = [line for line in kernel_log(context) or () if "AMD-Vi:" in line or "DMAR:" in line]
    lines = [line for line in lines if any(at in line for at in addresses)]
    found = matching(lines, _IO_FAULT)
    is_on = "iommu=pt" in read_attribute("/proc/cmdline")[0].split()
    values = {"distro": distro(), "through": "yes" if is_on else ""}
    return Observation("iommu_faults", values, found) if found else None


def iommu_between_gpus(context: CheckContext) -> Observation | None:
    """The IOMMU translates transfers between GPUs."""
    cards = [gpu for gpu in context.host.gpus if gpu.usable and gpu.address and not gpu.integrated]
    addresses = dict.fromkeys(gpu.address for gpu in cards)
    kinds = {address: _iommu_of(address) for address in addresses}
    translated = [address for address, kind in kinds.items() if kind.startswith("DMA")]
    if len(addresses) < 2 or not translated:
        return None
    line = read_attribute("/proc/cmdline")[0].strip()
    evidence = tuple(f"{address} iommu_group/type: {kinds[address]}" for address in translated)
    options = " ".join(word for word in line.split() if "iommu" in word)
    values = {"count": str(len(addresses)), "options": options, "distro": distro()}
    return Observation("iommu_between_gpus", values, evidence)


def _iommu_of(address: str) -> str:
    """The IOMMU's mode for a device, such as `DMA`, `DMA-FQ` or `identity`, or "" without an IOMMU.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-kernel-iommu_groups
    """
    group = f"{pci.DEVICES}/{address}/iommu_group"
    return read_attribute(f"{group}/type")[0].strip() if list_folder(group) else ""


def kernel_log(context: CheckContext) -> tuple[str, ...] | None:
    """The lines since the last boot, oldest first, or None if no log is readable."""
    global _read
    if _read is None or _read[0] is not context:
        _read = context, _log()
    return _read[1]


def matching(log: Iterable[str], pattern: Pattern[str], *words: str, most: int = 4) -> tuple[str, ...]:
    """The last `most` lines that match a pattern and contain one of `words`, without times or duplicates."""
    candidates = (line for line in log if not words or any(word in line for word in words))
    found = dict.fromkeys(without_prefix(line) for line in candidates if pattern.search(line))
    return tuple(found)[-most:]


def _log() -> tuple[str, ...] | None:
    text = program_output(_COPY, _ask_programs, _MAX_BYTES) or _of_file()
    if not text and examined_elsewhere():
        text = read_attribute(_DEVICE, _MAX_BYTES)[0]
    if not text:
        return None
    lines = tuple(line[:_MAX_LINE] for line in text.splitlines())
    starts = [number for number, line in enumerate(lines) if "Linux version" in line and _START.search(line)]
    return lines[starts[-1] :] if starts else lines


def _of_file() -> str:
    """The end of syslog's kernel log."""
    kept = program_output(_FILE, _end_of_file, _MAX_BYTES) or ""
    # If the file is long, its beginning is from an earlier boot.
    return kept if len(kept.encode()) < _MAX_BYTES else _end_of_file() or kept


def _end_of_file() -> str | None:
    try:
        with open_regular(machine_path(_FILE)) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MAX_BYTES))
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def without_prefix(line: str) -> str:
    """Remove the time and the host name from a log line."""
    return _PREFIX.sub("", line).strip()


def _ask_programs() -> str | None:
    outputs = (_output(command) for command in _PROGRAMS)
    return next(filter(None, outputs), None)


def _output(command: tuple[str, ...]) -> str | None:
    from rocenv.system.process import run

    done = run(command, timeout_s=_TIMEOUT_S, limit_bytes=8 * _MAX_BYTES)
    return done.stdout.decode("utf-8", "replace") if done.ok else None

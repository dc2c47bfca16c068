"""Each GPU's total and free memory, and the processes that use it.

On Linux, the figures come from kernel counters, which include the desktop and games, unlike HIP's figures.
On Windows, a program's free memory is limited by the budget that the system assigns to it. If HIP also
reports free memory, rocenv uses the smaller figure. This process does not load vendor libraries.

VRAM is the memory of a discrete GPU, or the memory that the BIOS reserves for an APU. GTT is system memory
that the GPU can use.

Source: torvalds/linux:Documentation/gpu/amdgpu/driver-misc.rst, mem_info_*
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MAX_BYTES, MIB, add, amount
from rocenv.system.machine import list_folder, read_attribute, unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.host import Gpu, Host
    from rocenv.memory.holders import Holder

_DEVICES = "/sys/bus/pci/devices"
_CARDS = "/sys/class/drm"
_MEMINFO = re.compile(r"^(MemTotal|MemAvailable):\s*([0-9]{1,15}) kB", re.MULTILINE)
_ALIKE = 64 * MIB  # smaller differences need no explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class HipFigure:
    """A GPU's memory according to `hipMemGetInfo`."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Pool:
    """One kind of GPU memory, in bytes; None if unknown."""

    total: int | None = None
    used: int | None = None

    @property
    def free(self) -> int | None:
        """The unused bytes."""
        return None if self.total is None or self.used is None else self.total - self.used


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """System memory, in bytes; None if unknown."""

    total: int | None = None
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory that programs can use on one GPU; figures are None if unknown."""

    gpu: Gpu
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    shared_total_bytes: int | None = None  # system memory that the GPU can use
    shared_used_bytes: int | None = None
    shared_counts: bool = False  # `total_bytes` includes it, as on APUs that use system memory for compute
    budget_bytes: int | None = None  # a program's limit before Windows starts to evict memory
    hip: HipFigure | None = None
    holders: tuple[Holder, ...] = ()  # largest first
    source: str = ""  # where the figures come from; "" if there are none
    notes: tuple[str, ...] = ()

    @property
    def unexplained_bytes(self) -> int | None:
        """Memory in use that no known process accounts for."""
        if self.used_bytes is None:
            return None
        return max(0, self.used_bytes - sum(self.held_by(each) for each in self.holders))

    def held_by(self, holder: Holder) -> int:
        """Return how much of `total_bytes` a process holds."""
        return holder.vram_bytes + (holder.shared_bytes if self.shared_counts else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The memory of all GPUs at one point in time."""

    gpus: tuple[GpuMemory, ...] = ()
    hidden: int | None = 0  # number of processes that this user cannot inspect; None if unknown
    notes: tuple[str, ...] = ()


def read_usage(host: Host, hip: Mapping[int, HipFigure] | None = None, *, with_holders: bool = True) -> Usage:
    """Read the memory of each GPU, in the order of `host.gpus`.

    Args:
        host: The machine.
        hip: HIP's figures by GPU index.
        with_holders: Also find the processes that hold memory; this scans every process.
    """
    if host.named:
        note = "ROCENV_TARGET overrides the detected GPUs, so rocenv does not read their memory"
        return Usage(gpus=tuple(GpuMemory(gpu=gpu) for gpu in host.gpus), notes=(note,) if host.gpus else ())
    if host.platform == "windows":
        from rocenv.memory.windows_budget import windows_usage

        usage = windows_usage(host, with_holders=with_holders)
    else:
        usage = _linux_usage(host, with_holders=with_holders)
    figures = hip or {}
    gpus = (_with_hip(each, figures.get(each.gpu.index)) for each in usage.gpus)
    return replace(usage, gpus=tuple(map(_sort_holders, gpus)))


def combine_pools(
    gpu: Gpu, own: Pool, shared: Pool, source: str, notes: list[str], available: int | None = None
) -> GpuMemory:
    """Combine a GPU's own memory with the system memory that it can use.

    An APU can use both pools for compute if the shared one is larger. If a pool's usage exceeds its
    size, the usage is unknown. Source: ROCm/rocm-systems PR 5596 and 6350

    Args:
        gpu: The GPU.
        own: VRAM.
        shared: GTT, or Windows' shared GPU memory.
        source: Where the figures come from.
        notes: Notes about the figures; this function can add more.
        available: System memory that programs can still allocate; None if unknown.
    """
    own, shared = _plausible(own, notes), _plausible(shared, notes)
    shared_counts = bool(gpu.integrated) and (shared.total or 0) > (own.total or 0)
    free = own.free
    if shared_counts:
        shared_free = shared.free
        if shared_free is not None and available is not None and available < shared_free:
            notes.append(
                f"only {amount(available)} of system memory is available, less than the GPU could use"
            )
            shared_free = available
        free = add(free, shared_free)
    return GpuMemory(
        gpu=gpu,
        total_bytes=add(own.total, shared.total) if shared_counts else own.total,
        used_bytes=add(own.used, shared.used) if shared_counts else own.used,
        free_bytes=free,
        vram_total_bytes=own.total,
        vram_used_bytes=own.used,
        shared_total_bytes=shared.total,
        shared_used_bytes=shared.used,
        shared_counts=shared_counts,
        source=source,
        notes=tuple(notes),
    )


def machine_memory() -> MachineMemory:
    """Read the total and available system memory."""
    text = read_attribute("/proc/meminfo")[0]
    found = {name: int(value) << 10 for name, value in _MEMINFO.findall(text)}
    return MachineMemory(total=found.get("MemTotal"), available=found.get("MemAvailable"))


def drives_display(gpu: Gpu) -> bool | None:
    """Return whether a display is connected to the GPU, or None if unknown.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-class-drm, connector `status`
    """
    folder = f"{_DEVICES}/{gpu.address}/drm"
    cards = [name for name in list_folder(folder) if re.fullmatch(r"card[0-9]+", name)]
    if not gpu.address or not cards or unreadable(folder):
        return None
    states = {
        read_attribute(f"{folder}/{card}/{name}/status")[0].strip()
        for card in cards
        for name in list_folder(f"{folder}/{card}")
        if name.startswith(f"{card}-")
    }
    if "connected" in states:
        return True
    return None if states - {"disconnected"} else False  # "unknown" could be a display


def _plausible(pool: Pool, notes: list[str]) -> Pool:
    if (pool.free or 0) >= 0:
        return pool
    figures = f"{amount(pool.used)} in use of {amount(pool.total)}"
    notes.append(f"ignoring the system's figures because they are inconsistent: {figures}")
    return Pool(pool.total)


def _sort_holders(memory: GpuMemory) -> GpuMemory:
    holders = sorted(memory.holders, key=lambda each: (-memory.held_by(each), -each.shared_bytes, each.pid))
    return replace(memory, holders=tuple(holders))


# ---------------------------------------------------------------- Linux


def _linux_usage(host: Host, *, with_holders: bool) -> Usage:
    from rocenv.memory.holders import Holders, find_holders

    machine = machine_memory()
    addresses = [gpu.address for gpu in host.gpus]
    partitioned = {address for address in addresses if address and addresses.count(address) > 1}
    holders = find_holders(host.gpus, partitioned) if with_holders and host.gpus else Holders()
    gpus = []
    for gpu in host.gpus:
        memory = _of_partition(gpu) if gpu.address in partitioned else _of_gpu(gpu, machine)
        gpus.append(replace(memory, holders=holders.by_gpu.get(gpu.index, ())))
    return Usage(gpus=tuple(gpus), hidden=holders.hidden, notes=holders.notes)


def _of_partition(gpu: Gpu) -> GpuMemory:
    used = _read_pool(gpu, "vram", []).used
    note = f"the kernel counts memory per board ({amount(used)} in use), not per partition"
    return combine_pools(gpu, Pool(gpu.vram_bytes), Pool(), "KFD" if gpu.vram_bytes else "", [note])


def _of_gpu(gpu: Gpu, machine: MachineMemory) -> GpuMemory:
    notes: list[str] = []
    own, shared, source = _read_pool(gpu, "vram", notes), _read_pool(gpu, "gtt", notes), "sysfs"
    if own.used is None and not notes:
        notes.append("the kernel does not report memory use, or you do not have permission to read it")
    if own.total is None:
        own, source = Pool(gpu.vram_bytes), gpu.source.partition(",")[0] if gpu.vram_bytes else ""
    if shared.total is not None and machine.total is not None and shared.total > machine.total:
        if gpu.integrated:
            sizes = amount(shared.total), amount(machine.total)
            notes.append(
                f"the kernel lets the GPU use {sizes[0]}, but the machine has only {sizes[1]} of memory"
            )
        shared = replace(shared, total=machine.total)
    return combine_pools(gpu, own, shared, source, notes, machine.available)


def _read_pool(gpu: Gpu, name: str, notes: list[str]) -> Pool:
    """Read a GPU's VRAM or GTT figures; an implausible figure counts as unknown and adds a note."""
    folder = f"{_DEVICES}/{gpu.address}" if gpu.address else f"{_CARDS}/renderD{gpu.render_minor}/device"
    if not gpu.address and not gpu.render_minor:
        return Pool()
    texts = [read_attribute(f"{folder}/mem_info_{name}_{what}")[0].strip() for what in ("total", "used")]
    total, used = map(_figure, texts)
    note = "ignoring the kernel's memory counters because they are inconsistent"
    if note not in notes and any(text and _figure(text) is None for text in texts):
        notes.append(note)
    return Pool(total, used)


def _figure(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) and int(text) <= MAX_BYTES else None


# ---------------------------------------------------------------- HIP


def _with_hip(memory: GpuMemory, hip: HipFigure | None) -> GpuMemory:
    """Add HIP's figures; a program can allocate only the smaller of the two amounts of free memory."""
    if hip is None:
        return memory
    free, total, note = memory.free_bytes, memory.total_bytes, ""
    source = f"{memory.source} and HIP" if memory.source else "HIP"
    if hip.free_bytes > hip.total_bytes:
        figures = f"{amount(hip.free_bytes)} free of {amount(hip.total_bytes)}"
        note, source = f"ignoring HIP's figures because they are inconsistent: {figures}", memory.source
    elif free is None:
        note = "the amount of free memory comes from HIP, which ignores the desktop and games"
        free, total = hip.free_bytes, hip.total_bytes if total is None else total
    else:
        surplus = hip.free_bytes - free
        if surplus >= _ALIKE:
            note = f"HIP reports {amount(surplus)} more free memory because it ignores the desktop and games"
        elif surplus <= -_ALIKE:
            note = f"HIP reports {amount(-surplus)} less free memory because its runtime reserves some"
        free = min(free, hip.free_bytes)
    notes = (*memory.notes, note) if note else memory.notes
    return replace(memory, hip=hip, free_bytes=free, total_bytes=total, source=source, notes=notes)

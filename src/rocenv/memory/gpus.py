"""How much memory each GPU has, how much of it is free, and who holds the rest.

On Linux the kernel's counters come first: they include the desktop and games, which HIP leaves out. On
Windows it is the budget that the system gives a program. Where both the system and HIP say something, the
smaller figure counts. No vendor library is loaded into this process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MIB, add, amount
from rocenv.memory.sysfs import MachineMemory, Pool, machine_memory, read_pools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.host import Gpu, Host
    from rocenv.memory.holders import Holder

_ALIKE = 64 * MIB  # two figures that differ by less need no explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class HipFigure:
    """What `hipMemGetInfo` answers for a GPU."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory of one GPU that programs can fill; None = unknown."""

    gpu: Gpu
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    shared_total_bytes: int | None = None  # main memory that the GPU may use
    shared_used_bytes: int | None = None
    shared_counts: bool = False  # `total_bytes` includes it, as for APUs that compute in main memory
    budget_bytes: int | None = None  # what Windows lets one program have before it moves memory out
    hip: HipFigure | None = None
    holders: tuple[Holder, ...] = ()  # those with most first
    source: str = ""  # of the figures; "" = there are none
    notes: tuple[str, ...] = ()

    @property
    def unexplained_bytes(self) -> int | None:
        """Memory in use that belongs to none of the holders."""
        if self.used_bytes is None:
            return None
        return max(0, self.used_bytes - sum(self.held_by(each) for each in self.holders))

    def held_by(self, holder: Holder) -> int:
        """Return how much of `total_bytes` a holder has."""
        return holder.vram_bytes + (holder.shared_bytes if self.shared_counts else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The memory of all GPUs at one moment."""

    gpus: tuple[GpuMemory, ...] = ()
    hidden: int | None = 0  # processes that rocenv may not look at; None = unknown how many
    notes: tuple[str, ...] = ()


def memory_of(
    host: Host, hip: Mapping[int, HipFigure] | None = None, *, with_holders: bool = True
) -> tuple[GpuMemory, ...]:
    """Read the memory of each GPU, in the order of the host.

    Args:
        host: The machine.
        hip: What HIP says, by index of the GPU.
        with_holders: Look for the processes that hold it; this visits every process.
    """
    return read_usage(host, hip, with_holders=with_holders).gpus


def read_usage(host: Host, hip: Mapping[int, HipFigure] | None = None, *, with_holders: bool = True) -> Usage:
    """Read the memory of each GPU, with notes about all of them; arguments as for `memory_of`."""
    if host.named:
        note = "ROCENV_TARGET replaces the GPUs of this machine, so rocenv does not look at their memory"
        return Usage(gpus=tuple(GpuMemory(gpu=gpu) for gpu in host.gpus), notes=(note,) if host.gpus else ())
    if host.platform == "windows":
        from rocenv.memory.windows_budget import windows_usage

        usage = windows_usage(host, with_holders=with_holders)
    else:
        usage = _linux_usage(host, with_holders=with_holders)
    figures = hip or {}
    return replace(
        usage, gpus=tuple(_sort_holders(_with_hip(each, figures.get(each.gpu.index))) for each in usage.gpus)
    )


def _sort_holders(memory: GpuMemory) -> GpuMemory:
    holders = sorted(memory.holders, key=lambda each: (-memory.held_by(each), -each.shared_bytes, each.pid))
    return replace(memory, holders=tuple(holders))


def _linux_usage(host: Host, *, with_holders: bool) -> Usage:
    from rocenv.memory.holders import NOBODY, find_holders

    machine = machine_memory()
    addresses = [gpu.address for gpu in host.gpus]
    partitioned = {address for address in addresses if address and addresses.count(address) > 1}
    holders = find_holders(host.gpus, partitioned) if with_holders and host.gpus else NOBODY
    gpus = tuple(
        replace(
            _of_partition(gpu) if gpu.address in partitioned else _of_gpu(gpu, machine),
            holders=holders.by_gpu.get(gpu.index, ()),
        )
        for gpu in host.gpus
    )
    return Usage(gpus=gpus, hidden=holders.hidden, notes=holders.notes)


def _of_partition(gpu: Gpu) -> GpuMemory:
    used = read_pools(gpu)[0].used
    note = f"the kernel counts memory of the whole board ({amount(used)} in use), not of each partition"
    return GpuMemory(
        gpu=gpu,
        total_bytes=gpu.vram_bytes,
        vram_total_bytes=gpu.vram_bytes,
        source="KFD" if gpu.vram_bytes else "",
        notes=(note,),
    )


def _of_gpu(gpu: Gpu, machine: MachineMemory) -> GpuMemory:
    vram, gtt = read_pools(gpu)
    notes = list(_pool_notes(gpu, vram, gtt, machine))
    source = "sysfs"
    if vram.total is None:
        vram, source = Pool(total=gpu.vram_bytes), gpu.source.partition(",")[0] if gpu.vram_bytes else ""
    if gtt.total is not None and machine.total is not None:
        gtt = replace(gtt, total=min(gtt.total, machine.total))
    memory = GpuMemory(
        gpu=gpu,
        total_bytes=vram.total,
        used_bytes=vram.used,
        free_bytes=vram.free,
        vram_total_bytes=vram.total,
        vram_used_bytes=vram.used,
        shared_total_bytes=gtt.total,
        shared_used_bytes=gtt.used,
        source=source,
        notes=tuple(notes),
    )
    # An APU computes in both pools if GTT is the larger one. Source: ROCm/rocm-systems PR 5596 and 6350
    if not gpu.integrated or (gtt.total or 0) <= (vram.total or 0):
        return memory
    shared_free = gtt.free
    if shared_free is not None and machine.available is not None and machine.available < shared_free:
        notes.append(
            f"only {amount(machine.available)} of main memory is available, less than the GPU may use"
        )
        shared_free = machine.available
    return replace(
        memory,
        total_bytes=add(vram.total, gtt.total),
        used_bytes=add(vram.used, gtt.used),
        free_bytes=add(vram.free, shared_free),
        shared_counts=True,
        notes=tuple(notes),
    )


def _pool_notes(gpu: Gpu, vram: Pool, gtt: Pool, machine: MachineMemory) -> list[str]:
    notes = []
    if vram.is_inconsistent or gtt.is_inconsistent:
        notes.append("ignoring the kernel's memory counters because they are inconsistent")
    elif vram.used is None:
        notes.append("the kernel does not say how much memory is in use, or you may not read it")
    if gpu.integrated and gtt.total and machine.total and gtt.total > machine.total:
        notes.append(
            f"the kernel lets the GPU use {amount(gtt.total)}, but the machine has only"
            f" {amount(machine.total)}"
        )
    return notes


def _with_hip(memory: GpuMemory, hip: HipFigure | None) -> GpuMemory:
    """Add HIP's figure: the smaller of both is what a program can have."""
    if hip is None:
        return memory
    memory = replace(memory, hip=hip)
    if hip.free_bytes > hip.total_bytes:
        note = (
            f"ignoring HIP's figures because they are inconsistent: {amount(hip.free_bytes)} free of"
            f" {amount(hip.total_bytes)}"
        )
        return replace(memory, notes=(*memory.notes, note))
    source = f"{memory.source} and HIP" if memory.source else "HIP"
    if memory.free_bytes is None:
        note = (
            "free memory is HIP's figure, which includes compute programs but neither the desktop nor games"
        )
        total = memory.total_bytes if memory.total_bytes is not None else hip.total_bytes
        return replace(
            memory, free_bytes=hip.free_bytes, total_bytes=total, source=source, notes=(*memory.notes, note)
        )
    note = _explain_difference(hip.free_bytes - memory.free_bytes, memory)
    return replace(
        memory,
        free_bytes=min(hip.free_bytes, memory.free_bytes),
        source=source,
        notes=(*memory.notes, note) if note else memory.notes,
    )


def _explain_difference(surplus: int, memory: GpuMemory) -> str:
    """Explain why HIP's free memory differs from the system's; "" if it hardly does."""
    if abs(surplus) < _ALIKE:
        return ""
    if surplus < 0:
        return (
            f"HIP offers {amount(-surplus)} less than is free: its runtime reserves some, or this release"
            " does not use all of the memory"
        )
    if memory.budget_bytes is not None:
        return (
            f"HIP offers {amount(surplus)} more than is free: Windows would move out memory of other"
            " programs, which makes everything slow"
        )
    return f"HIP offers {amount(surplus)} more than is free: it does not count the desktop and games"

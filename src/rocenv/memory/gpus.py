"""How much memory each GPU has, what of it is free, and who has the rest; no vendor library is loaded for it.

On Linux the kernel's own counters are believed first: they see the desktop and games, which HIP's figure
leaves out. On Windows it is the budget that the system gives a program. What is not known stays None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MIB, added, amount
from rocenv.memory.pools import MachineMemory, Pool, Pools, machine_memory, pools_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.host import Gpu, Host
    from rocenv.memory.holders import Holder

_ALIKE = 64 * MIB  # two figures of the same thing that differ by less need no explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class HipFigure:
    """What HIP answers for a device: `hipMemGetInfo`."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory of one GPU, as programs can fill it; None = not known."""

    gpu: Gpu
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    shared_total_bytes: int | None = None  # of the machine's memory, what the GPU may use
    shared_used_bytes: int | None = None
    shared_counts: bool = False  # `total_bytes` has it in it, as for APUs that compute in it
    budget_bytes: int | None = None  # what Windows lets one program have before it moves things out
    hip: HipFigure | None = None
    holders: tuple[Holder, ...] = ()  # those with most first
    source: str = ""  # of the figures; "" = there are none
    notes: tuple[str, ...] = ()

    @property
    def unexplained_bytes(self) -> int | None:
        """What is used and none of the holders is known to have."""
        if self.used_bytes is None:
            return None
        return max(0, self.used_bytes - sum(self.held_by(each) for each in self.holders))

    def held_by(self, holder: Holder) -> int:
        """Return what a holder has of `total_bytes`."""
        return holder.vram_bytes + (holder.shared_bytes if self.shared_counts else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the memory of all GPUs."""

    gpus: tuple[GpuMemory, ...] = ()
    unseen: int | None = 0  # processes that could not be looked at; None = it is not known how many
    notes: tuple[str, ...] = ()


def memory_of(
    host: Host, hip: Mapping[int, HipFigure] | None = None, *, with_holders: bool = True
) -> tuple[GpuMemory, ...]:
    """Return the memory of each GPU of a machine, in its order.

    Args:
        host: The machine.
        hip: What HIP said, by index of the GPU.
        with_holders: Look who has it, which means all processes.
    """
    return look(host, hip, with_holders=with_holders).gpus


def look(host: Host, hip: Mapping[int, HipFigure] | None = None, *, with_holders: bool = True) -> Look:
    """Return the memory of each GPU, and what is to be said about all of them; arguments as `memory_of`."""
    if host.named:
        why = "ROCENV_TARGET stands in for the GPUs here, so their memory was not looked at"
        return Look(gpus=tuple(GpuMemory(gpu=gpu) for gpu in host.gpus), notes=(why,) if host.gpus else ())
    if host.platform == "windows":
        from rocenv.memory.windows_budget import windows_look

        found = windows_look(host, with_holders=with_holders)
    else:
        found = _linux_look(host, with_holders=with_holders)
    figures = hip or {}
    gpus = (_with_hip(each, figures.get(each.gpu.index)) for each in found.gpus)
    return replace(found, gpus=tuple(map(_sorted, gpus)))


def _sorted(found: GpuMemory) -> GpuMemory:
    holders = sorted(found.holders, key=lambda each: (-found.held_by(each), -each.shared_bytes, each.pid))
    return replace(found, holders=tuple(holders))


def _linux_look(host: Host, *, with_holders: bool) -> Look:
    from rocenv.memory.holders import NOBODY, seen_holders

    memory = machine_memory()
    places = [gpu.address for gpu in host.gpus]
    partitioned = {place for place in places if place and places.count(place) > 1}
    seen = seen_holders(host.gpus, partitioned) if with_holders and host.gpus else NOBODY
    found = []
    for gpu in host.gpus:
        of_gpu = _of_part(gpu) if gpu.address in partitioned else _of_whole(gpu, memory)
        found.append(replace(of_gpu, holders=seen.of(gpu)))
    return Look(gpus=tuple(found), unseen=seen.unseen, notes=seen.notes)


def _of_part(gpu: Gpu) -> GpuMemory:
    """Return the memory of a partition: the kernel counts the use of the board, not of each."""
    used = pools_of(gpu).vram.used
    why = f"the kernel counts memory for the whole board ({amount(used)} in use), and not for each partition"
    return GpuMemory(
        gpu=gpu,
        total_bytes=gpu.vram_bytes,
        vram_total_bytes=gpu.vram_bytes,
        source="KFD" if gpu.vram_bytes else "",
        notes=(why,),
    )


def _of_whole(gpu: Gpu, memory: MachineMemory) -> GpuMemory:
    pools = pools_of(gpu)
    counted = pools.vram.total is not None
    vram = pools.vram if counted else Pool(total=gpu.vram_bytes)
    gtt = Pool(total=_capped(pools.gtt.total, memory.total), used=pools.gtt.used)
    computes_in_gtt = bool(gpu.integrated) and (gtt.total or 0) > (vram.total or 0)
    found = GpuMemory(
        gpu=gpu,
        total_bytes=vram.total,
        used_bytes=vram.used,
        free_bytes=vram.free,
        vram_total_bytes=vram.total,
        vram_used_bytes=vram.used,
        shared_total_bytes=gtt.total,
        shared_used_bytes=gtt.used,
        shared_counts=computes_in_gtt,
        source="sysfs" if counted else gpu.source.partition(",")[0] if vram.total else "",
        notes=_remarks(gpu, pools, memory),
    )
    return _with_shared(found, vram, gtt, memory) if computes_in_gtt else found


def _with_shared(found: GpuMemory, vram: Pool, gtt: Pool, memory: MachineMemory) -> GpuMemory:
    """Return the memory of an APU whose larger pool is the machine's: both count.

    Source: ROCm/rocm-systems PR 5596 and 6350: VRAM + GTT where GTT is larger, else VRAM alone
    """
    left = gtt.free
    notes = found.notes
    if left is not None and memory.available is not None and memory.available < left:
        notes += (
            f"only {amount(memory.available)} of the machine's memory is available, less than it may use",
        )
        left = memory.available
    return replace(
        found,
        total_bytes=added(vram.total, gtt.total),
        used_bytes=added(vram.used, gtt.used),
        free_bytes=added(vram.free, left),
        notes=notes,
    )


def _remarks(gpu: Gpu, pools: Pools, memory: MachineMemory) -> tuple[str, ...]:
    notes = []
    if pools.vram.senseless or pools.gtt.senseless:
        notes.append("what the kernel says of its memory makes no sense, and is left out of account")
    elif pools.vram.used is None:
        notes.append("the kernel does not say how much of its memory is in use, or it cannot be read here")
    if gpu.integrated and pools.gtt.total and memory.total and pools.gtt.total > memory.total:
        notes.append(
            f"the GPU may use {amount(pools.gtt.total)} by the kernel's word, but the machine has only"
            f" {amount(memory.total)}"
        )
    return tuple(notes)


def _with_hip(found: GpuMemory, hip: HipFigure | None) -> GpuMemory:
    """Return the memory with HIP's figure taken into account: the smaller of both is what can be had."""
    if hip is None:
        return found
    found = replace(found, hip=hip)
    if hip.free_bytes > hip.total_bytes:
        why = (
            f"HIP says that {amount(hip.free_bytes)} of {amount(hip.total_bytes)} is free, which makes no"
            " sense; it is left out of account"
        )
        return replace(found, notes=(*found.notes, why))
    if found.free_bytes is None:
        why = (
            "the free memory is HIP's figure, which counts what compute programs take and no desktop or game"
        )
        total = found.total_bytes if found.total_bytes is not None else hip.total_bytes
        return replace(
            found,
            free_bytes=hip.free_bytes,
            total_bytes=total,
            source=f"{found.source} and HIP" if found.source else "HIP",
            notes=(*found.notes, why),
        )
    free = min(hip.free_bytes, found.free_bytes)
    why = _difference(hip.free_bytes, found)
    return replace(
        found,
        free_bytes=free,
        source=f"{found.source} and HIP",
        notes=(*found.notes, *([why] if why else [])),
    )


def _difference(hip_free: int, found: GpuMemory) -> str:
    assert found.free_bytes is not None
    apart = hip_free - found.free_bytes
    if abs(apart) < _ALIKE:
        return ""
    if apart < 0:
        return (
            f"HIP gives {amount(-apart)} less than is free: what its runtime keeps for itself, or a pool that"
            " this release does not use"
        )
    if found.budget_bytes is not None:
        return (
            f"HIP would give {amount(apart)} more than is free: Windows moves out what others have there,"
            " which makes everything slow"
        )
    return (
        f"HIP would give {amount(apart)} more than is free: it does not see what the desktop and games have"
    )


def _capped(size: int | None, most: int | None) -> int | None:
    return size if size is None or most is None else min(size, most)

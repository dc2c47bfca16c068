"""The memory of the GPUs of a Windows machine: what the system lets a program have, and who has what.

The budget is no promise: it moves, and who goes beyond it is not refused but moved out to the machine's
memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rocenv.host.gpu import printable
from rocenv.memory.amounts import MOST, added, amount
from rocenv.memory.gpus import GpuMemory, Look
from rocenv.memory.holders import Holder
from rocenv.memory.windows_texts import counters, dxgi_adapters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.host import Gpu, Host

_MOVED = (
    "Windows does not refuse what is beyond the budget: it moves memory out to the machine's, which makes"
    " programs slow without an error"
)
_INSTANCE = re.compile(
    r"(?:pid_([0-9]{1,10})_)?luid_(0x[0-9a-f]{8})_(0x[0-9a-f]{8})_phys_[0-9]+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Used:
    dedicated: int | None
    shared: int | None


_UNTOLD = _Used(dedicated=None, shared=None)


def windows_look(host: Host, *, with_holders: bool) -> Look:
    """Return the memory of each GPU of a Windows machine."""
    if not host.gpus:
        return Look()
    adapters = dxgi_adapters()
    counted = counters(with_processes=with_holders)
    used = _used(counted.get("adapters", []))
    people = _holders(counted) if with_holders else {}
    spare = list(adapters)
    found = []
    for gpu in host.gpus:
        adapter = _adapter_of(gpu, spare)
        if adapter in spare:
            spare.remove(adapter)
        luid = str(adapter.get("luid", "")).lower()
        gaps = _gaps(adapter if adapters else None, used.get(luid, _UNTOLD) if counted else None)
        memory = _memory(gpu, adapter, used.get(luid, _UNTOLD), people.get(luid, ()))
        found.append(replace(memory, notes=(*gaps, *memory.notes)))
    notes: list[str] = []
    if not adapters:
        notes.append("DXGI could not be asked, so what Windows lets a program have is not known")
    if not counted:
        notes.append("Windows' counters of GPU memory could not be read, so what is in use is not known")
    if any(each.budget_bytes is not None for each in found):
        notes.append(_MOVED)
    unseen = 0 if counted.get("processes") or not with_holders else None
    if counted and unseen is None:
        notes.append("Windows lists no process that uses a GPU, so who has the memory is not known")
    return Look(gpus=tuple(found), unseen=unseen, notes=tuple(notes))


def _gaps(adapter: dict[str, Any] | None, used: _Used | None) -> Iterator[str]:
    """Yield what is missing of one GPU; None = it is missing of all, which is told once."""
    if adapter == {}:
        yield "DXGI lists no adapter like it, so what Windows lets a program have of it is not known"
    elif adapter is not None and _budget(adapter) is None:
        yield "Windows does not say how much of it a program may have"
    if used is not None and used.dedicated is None:
        yield "Windows' counters do not say how much of it is in use"


def _adapter_of(gpu: Gpu, adapters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what DXGI says of a GPU: by its PCI id, else by its name."""
    for each in adapters:
        if (
            gpu.pci_id
            and gpu.pci_id == f"{_number(each, 'vendor') or 0:04x}:{_number(each, 'device') or 0:04x}"
        ):
            return each
    return next((each for each in adapters if gpu.name and printable(str(each.get("name"))) == gpu.name), {})


def _budget(adapter: dict[str, Any]) -> int | None:
    local = adapter.get("local")
    return _number(local, "budget") if isinstance(local, dict) else None


def _may_have(adapter: dict[str, Any]) -> int | None:
    """Return what is left of the budget of one program."""
    budget = _budget(adapter)
    used = None if budget is None else _number(adapter["local"], "usage")
    return None if budget is None or used is None else max(0, budget - used)


def _memory(gpu: Gpu, adapter: dict[str, Any], used: _Used, holders: tuple[Holder, ...]) -> GpuMemory:
    own = _number(adapter, "dedicated") or gpu.vram_bytes
    shared = _number(adapter, "shared") or gpu.gtt_bytes
    both = bool(gpu.integrated) and shared is not None and shared > (own or 0)
    total = added(own, shared) if both else own
    counted = added(used.dedicated, used.shared) if both else used.dedicated
    senseless = total is not None and counted is not None and counted > total
    taken = None if senseless else counted
    may_have = _may_have(adapter)
    left = total - taken if total is not None and taken is not None else None
    known = [size for size in (may_have, left) if size is not None]
    budget = _budget(adapter)
    return GpuMemory(
        gpu=gpu,
        total_bytes=total,
        used_bytes=taken,
        free_bytes=min(known) if known else None,
        vram_total_bytes=own,
        vram_used_bytes=None if senseless else used.dedicated,
        shared_total_bytes=shared,
        shared_used_bytes=None if senseless else used.shared,
        shared_counts=both,
        budget_bytes=budget,
        holders=holders,
        source="Windows (DXGI)" if budget is not None else "the display driver" if total else "",
        notes=(_too_much(counted, total),) if senseless else _remarks(may_have, left),
    )


def _too_much(counted: int | None, total: int | None) -> str:
    return (
        f"Windows counts {amount(counted)} of {amount(total)} in use, which makes no sense; it is left out of"
        " account"
    )


def _remarks(may_have: int | None, left: int | None) -> tuple[str, ...]:
    if may_have is None or left is None:
        return ()
    if may_have > left:
        return (
            f"Windows would let a program have {amount(may_have)}, by moving out what others have:"
            f" {amount(left)} is free without that",
        )
    if may_have < left:
        return (f"Windows lets a program have {amount(may_have)} of the {amount(left)} that nobody uses",)
    return ()


def _used(rows: list[dict[str, Any]]) -> dict[str, _Used]:
    found: dict[str, _Used] = {}
    for row in rows:
        instance = _INSTANCE.fullmatch(str(row.get("Name")))
        if instance and not instance[1]:
            luid = f"{instance[2]}_{instance[3]}".lower()
            before = found.get(luid, _Used(dedicated=0, shared=0))
            found[luid] = _Used(
                dedicated=added(before.dedicated, _number(row, "DedicatedUsage")),
                shared=added(before.shared, _number(row, "SharedUsage")),
            )
    return found


def _holders(counted: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[Holder, ...]]:
    people = {_number(row, "ProcessId"): row for row in counted.get("names", [])}
    found: dict[str, list[Holder]] = {}
    for row in counted.get("processes", []):
        instance = _INSTANCE.fullmatch(str(row.get("Name")))
        own, shared = _number(row, "DedicatedUsage"), _number(row, "SharedUsage")
        # Of whom only a part is known stays in what is not told apart.
        if not instance or not instance[1] or own is None or shared is None or not own + shared:
            continue
        who = people.get(int(instance[1]), {})
        holder = Holder(
            pid=int(instance[1]),
            name=printable(str(who.get("Name") or "")),
            vram_bytes=own,
            shared_bytes=shared,
            command=_words(str(who.get("CommandLine") or "")),
        )
        found.setdefault(f"{instance[2]}_{instance[3]}".lower(), []).append(holder)
    return {
        luid: tuple(sorted(holders, key=lambda each: (-each.vram_bytes - each.shared_bytes, each.pid)))
        for luid, holders in found.items()
    }


def _words(line: str) -> tuple[str, ...]:
    return tuple(quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line[:4096]))


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,20}", value):  # CIM writes 64 bits as text
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST else None

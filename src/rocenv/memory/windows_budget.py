"""The memory of the GPUs of a Windows machine: what the system lets a program have, and who has what.

The budget is no promise: it moves, and who goes beyond it is not refused but moved out to the machine's
memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocenv.host.gpu import printable
from rocenv.memory.amounts import MOST, amount
from rocenv.memory.gpus import GpuMemory, Look
from rocenv.memory.holders import Holder
from rocenv.memory.windows_texts import counters, dxgi_adapters

if TYPE_CHECKING:
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
    dedicated: int = 0
    shared: int = 0


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
        found.append(_memory(gpu, adapter, used.get(luid), people.get(luid, ())))
    notes: list[str] = []
    if not adapters:
        notes.append("DXGI could not be asked, so what Windows lets a program have is not known")
    if not counted:
        notes.append("Windows' counters of GPU memory could not be read, so what is in use is not known")
    if any(each.budget_bytes is not None for each in found):
        notes.append(_MOVED)
    unseen = 0 if "processes" in counted or not with_holders else None
    return Look(gpus=tuple(found), unseen=unseen, notes=tuple(notes))


def _adapter_of(gpu: Gpu, adapters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what DXGI says of a GPU: by its PCI id, else by its name."""
    for each in adapters:
        if (
            gpu.pci_id
            and gpu.pci_id == f"{_number(each, 'vendor') or 0:04x}:{_number(each, 'device') or 0:04x}"
        ):
            return each
    return next((each for each in adapters if gpu.name and printable(str(each.get("name"))) == gpu.name), {})


def _memory(gpu: Gpu, adapter: dict[str, Any], used: _Used | None, holders: tuple[Holder, ...]) -> GpuMemory:
    own = _number(adapter, "dedicated") or gpu.vram_bytes
    shared = _number(adapter, "shared") or gpu.gtt_bytes
    both = bool(gpu.integrated) and (shared or 0) > (own or 0)
    total = (own or 0) + (shared or 0) if both else own
    taken = (used.dedicated + (used.shared if both else 0)) if used else None
    if total is not None and taken is not None and taken > total:
        taken = None
    local = adapter.get("local")
    budget = _number(local, "budget") if isinstance(local, dict) else None
    own_use = _number(local, "usage") if isinstance(local, dict) else None
    may_have = max(0, budget - (own_use or 0)) if budget is not None else None
    left = total - taken if total is not None and taken is not None else None
    known = [size for size in (may_have, left) if size is not None]
    return GpuMemory(
        gpu=gpu,
        total_bytes=total,
        used_bytes=taken,
        free_bytes=min(known) if known else None,
        vram_total_bytes=own,
        vram_used_bytes=used.dedicated if used else None,
        shared_total_bytes=shared,
        shared_used_bytes=used.shared if used else None,
        shared_counts=both,
        budget_bytes=budget,
        holders=holders,
        source="Windows (DXGI)" if budget is not None else "the display driver" if total else "",
        notes=_remarks(may_have, left),
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
            before = found.get(luid, _Used())
            found[luid] = _Used(
                dedicated=before.dedicated + (_number(row, "DedicatedUsage") or 0),
                shared=before.shared + (_number(row, "SharedUsage") or 0),
            )
    return found


def _holders(counted: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[Holder, ...]]:
    people = {row.get("ProcessId"): row for row in counted.get("names", [])}
    found: dict[str, list[Holder]] = {}
    for row in counted.get("processes", []):
        instance = _INSTANCE.fullmatch(str(row.get("Name")))
        sizes = [_number(row, name) or 0 for name in ("DedicatedUsage", "SharedUsage")]
        if not instance or not instance[1] or not any(sizes):
            continue
        who = people.get(int(instance[1]), {})
        holder = Holder(
            pid=int(instance[1]),
            name=printable(str(who.get("Name") or "")),
            vram_bytes=sizes[0],
            shared_bytes=sizes[1],
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

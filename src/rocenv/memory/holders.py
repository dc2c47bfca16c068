"""Who holds memory of the GPUs of a Linux machine: the kernel's counters for each process.

Graphics and most computing is in the texts of open devices (fdinfo); what only KFD counted is in its list. A
process is in both with the same memory, so the larger of the two counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MOST
from rocenv.memory.clients import client_of
from rocenv.memory.processes import (
    command_of,
    folder_of,
    in_container,
    is_kernel_thread,
    name_of,
    open_devices,
    others_hidden,
    process_ids,
)
from rocenv.system.machine import list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rocenv.host import Gpu

_KFD_PROCESSES = "/sys/class/kfd/kfd/proc"
_NODES = "/sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds memory of a GPU."""

    pid: int
    name: str  # "" = not known
    vram_bytes: int = 0
    shared_bytes: int = 0  # of the machine's memory
    command: tuple[str, ...] = ()  # as it was started
    folder: str = ""  # that it works in


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Who holds memory, as far as it could be seen."""

    held: Mapping[int, tuple[Holder, ...]] = field(default_factory=dict)  # by index of the GPU
    unseen: int | None = 0  # processes that could not be looked at; None = how many is not known
    notes: tuple[str, ...] = ()

    def of(self, gpu: Gpu) -> tuple[Holder, ...]:
        """Return the holders of a GPU's memory, those with most first."""
        return self.held.get(gpu.index, ())


NOBODY = Seen()
_Held = dict[tuple[int, int], list[int]]  # (index of the GPU, pid) -> bytes of VRAM and of GTT


def seen_holders(gpus: Collection[Gpu], partitioned: Collection[str]) -> Seen:
    """Return who holds memory of these GPUs.

    Args:
        gpus: All of a machine.
        partitioned: Addresses that several of them are at: there only KFD tells them apart.
    """
    pids = process_ids()
    places = {gpu.address: gpu.index for gpu in gpus if gpu.address and gpu.address not in partitioned}
    held, refused = _by_devices(pids, places)
    contained = in_container()
    if not contained:
        for key, size in _by_kfd(gpus).items():
            sizes = held.setdefault(key, [0, 0])
            sizes[0] = max(sizes[0], size)
    notes: tuple[str, ...] = ()
    unseen: int | None = refused
    if not pids or contained or others_hidden(pids):
        unseen, notes = None, (_why_unseen(pids, contained=contained),)
    return Seen(held=_listed(held, gpus), unseen=unseen, notes=notes)


def _why_unseen(pids: list[int], *, contained: bool) -> str:
    if not pids:
        return "there is no list of processes here, so who holds the memory is not known"
    if contained:
        return "this is a container: what programs outside it hold is not told apart"
    return "this machine hides the processes of other users, so what those hold is not told apart"


def _by_devices(pids: list[int], places: Mapping[str, int]) -> tuple[_Held, int]:
    held: _Held = {}
    told: set[tuple[str, str]] = set()
    refused = 0
    for pid in pids:
        try:
            for path in open_devices(pid):
                client = client_of(read_attribute(path)[0])
                if client is None or client.address not in places:
                    continue
                key = (client.address, client.ident or path)
                if key in told:  # inherited or passed on: the same memory
                    continue
                told.add(key)
                sizes = held.setdefault((places[client.address], pid), [0, 0])
                sizes[0] += client.vram_bytes
                sizes[1] += client.gtt_bytes
        except PermissionError:
            refused += not is_kernel_thread(pid)
        except OSError:  # it ended while it was looked at
            continue
    return held, refused


def _by_kfd(gpus: Collection[Gpu]) -> dict[tuple[int, int], int]:
    """Return the bytes of VRAM by GPU and process that the compute driver counted, whoever asks."""
    numbers = {}
    for gpu in gpus:
        text = read_attribute(f"{_NODES}/{gpu.node}/gpu_id")[0].strip() if gpu.node is not None else ""
        if re.fullmatch("[1-9][0-9]{0,9}", text):
            numbers[text] = gpu.index
    found = {}
    for name in list_folder(_KFD_PROCESSES):
        if not re.fullmatch("[0-9]{1,10}", name):
            continue
        for number, index in numbers.items():
            size = read_attribute(f"{_KFD_PROCESSES}/{name}/vram_{number}")[0].strip()
            if re.fullmatch("[0-9]{1,20}", size) and 0 < int(size) <= MOST:
                found[index, int(name)] = int(size)
    return found


def _listed(held: _Held, gpus: Collection[Gpu]) -> dict[int, tuple[Holder, ...]]:
    known = {pid: (name_of(pid), command_of(pid), folder_of(pid)) for _, pid in held}
    found: dict[int, list[Holder]] = {gpu.index: [] for gpu in gpus}
    for (index, pid), (vram, shared) in held.items():
        if not vram and not shared:
            continue
        name, command, folder = known[pid]
        holder = Holder(
            pid=pid, name=name, vram_bytes=vram, shared_bytes=shared, command=command, folder=folder
        )
        found[index].append(holder)
    return {
        index: tuple(sorted(holders, key=lambda each: (-each.vram_bytes - each.shared_bytes, each.pid)))
        for index, holders in found.items()
    }

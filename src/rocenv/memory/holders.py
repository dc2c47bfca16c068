"""The processes that hold GPU memory on Linux.

`/proc/PID/fdinfo` reports what a process allocated through each open GPU device. KFD also lists
compute memory per process. Both can include the same memory, so rocenv uses the larger figure.

Source: torvalds/linux:Documentation/gpu/drm-usage-stats.rst; for Linux before 5.19,
drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.host.gpu import printable
from rocenv.memory.amounts import MAX_BYTES
from rocenv.system.machine import list_folder, machine_path, read_attribute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rocenv.host import Gpu

_KFD = "/sys/class/kfd/kfd"
_DEVICES = ("/dev/dri/", "/dev/kfd")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in torvalds/linux:include/linux/sched.h
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in torvalds/linux:include/linux/proc_ns.h
_LINE = re.compile(
    r"^([a-z][a-z -]{1,40}):[ \t]*([0-9a-fA-F:.]{1,20})(?: (KiB|MiB|kB))?[ \t]*$", re.MULTILINE
)
_UNITS = {"": 1, "KiB": 1 << 10, "kB": 1 << 10, "MiB": 1 << 20}
# In order of preference: resident memory, its older names, all allocations.
_VRAM = ("drm-resident-vram", "drm-memory-vram", "vram mem", "drm-total-vram")
_GTT = ("drm-resident-gtt", "drm-memory-gtt", "gtt mem", "drm-total-gtt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds GPU memory."""

    pid: int
    name: str  # "" if unknown
    vram_bytes: int = 0
    shared_bytes: int = 0  # in system memory
    command: tuple[str, ...] = ()  # can contain paths relative to `folder`
    folder: str = ""  # the working directory; "" if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The processes that hold memory on each GPU, as far as this user can see them."""

    by_gpu: Mapping[int, tuple[Holder, ...]] = field(default_factory=dict)  # by GPU index
    hidden: int | None = 0  # number of processes that this user cannot inspect; None if unknown
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A GPU device that a process has open, and the memory allocated through it."""

    address: str  # the GPU's PCI address: "0000:03:00.0"
    ident: str  # shared by duplicate descriptors in other processes; "" if none
    vram_bytes: int
    gtt_bytes: int


_Held = dict[tuple[int, int], list[int]]  # (GPU index, pid) -> VRAM and GTT bytes


def find_holders(gpus: Collection[Gpu], partitioned: Collection[str]) -> Holders:
    """Find the processes that hold memory on these GPUs.

    Args:
        gpus: All GPUs on the machine.
        partitioned: The addresses of boards with several partitions; only KFD can tell these apart.
    """
    pids = process_ids()
    namespace = _read_link("/proc/self/ns/pid")
    in_container = namespace not in ("", _FIRST_NAMESPACE)
    indices = {gpu.address: gpu.index for gpu in gpus if gpu.address and gpu.address not in partitioned}
    held, hidden = _read_fdinfo(pids, indices)
    if not in_container:  # KFD uses the host's process IDs
        for key, size in _read_kfd(gpus).items():
            sizes = held.setdefault(key, [0, 0])
            sizes[0] = max(sizes[0], size)
    note = ""
    if not pids:
        note = "rocenv cannot list processes on this system, so it is unknown which ones hold GPU memory"
    elif in_container:
        note = "rocenv runs in a container and cannot see which processes outside it hold GPU memory"
    elif 1 not in pids:  # `hidepid` of proc(5)
        note = "this machine hides other users' processes, so rocenv cannot see whether they hold GPU memory"
    return Holders(by_gpu=_describe_all(held), hidden=None if note else hidden, notes=(note,) if note else ())


def process_ids() -> list[int]:
    """List the process IDs on the machine."""
    return sorted(int(name) for name in list_folder("/proc") if re.fullmatch("[0-9]{1,10}", name))


def parse_fdinfo(text: str) -> Client | None:
    """Parse the fdinfo of an open device; return None if the device is not a GPU."""
    found = {name: (value, unit) for name, value, unit in _LINE.findall(text)}
    address = found.get("drm-pdev", found.get("pdev", ("", "")))[0].lower()
    if not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", address):
        return None
    ident = found.get("drm-client-id", found.get("pasid", ("", "")))[0]
    return Client(
        address=address,
        ident="" if ident == "0" else ident,  # old kernels give all graphics clients ID 0
        vram_bytes=_first_size(found, _VRAM),
        gtt_bytes=_first_size(found, _GTT),
    )


def _first_size(found: dict[str, tuple[str, str]], names: tuple[str, ...]) -> int:
    for name in names:
        value, unit = found.get(name, ("", ""))
        if value.isdecimal() and int(value) * _UNITS[unit] <= MAX_BYTES:
            return int(value) * _UNITS[unit]
    return 0


def _read_fdinfo(pids: list[int], indices: Mapping[str, int]) -> tuple[_Held, int]:
    """Add up the memory of each process's open devices, and count processes that this user cannot inspect."""
    held: _Held = {}
    counted: set[tuple[str, str]] = set()
    hidden = 0
    for pid in pids:
        try:
            for path in _open_devices(pid):
                client = parse_fdinfo(read_attribute(path)[0])
                if client is None or client.address not in indices:
                    continue
                key = (client.address, client.ident or path)
                if key in counted:  # the same memory, through an inherited or passed descriptor
                    continue
                counted.add(key)
                sizes = held.setdefault((indices[client.address], pid), [0, 0])
                sizes[0] += client.vram_bytes
                sizes[1] += client.gtt_bytes
        except PermissionError:
            hidden += not _is_kernel_thread_or_gone(pid)
        except OSError:  # the process has ended
            continue
    return held, hidden


def _open_devices(pid: int) -> Iterator[str]:
    """Yield the fdinfo paths for a process's open GPU devices; raise OSError as `os.listdir` does."""
    folder = f"/proc/{pid}"
    try:
        numbers = os.listdir(machine_path(f"{folder}/fd"))
    except FileNotFoundError:  # copies of another machine's files do not include the links
        yield from (f"{folder}/fdinfo/{number}" for number in list_folder(f"{folder}/fdinfo"))
        return
    for number in numbers:
        if _read_link(f"{folder}/fd/{number}").startswith(_DEVICES):
            yield f"{folder}/fdinfo/{number}"


def _is_kernel_thread_or_gone(pid: int) -> bool:
    text, error = read_attribute(f"/proc/{pid}/stat")
    fields = text.rpartition(")")[2].split()
    if error or len(fields) < 7 or not fields[6].isdecimal():
        return bool(error)
    return bool(int(fields[6]) & _KERNEL_THREAD)


def _read_kfd(gpus: Collection[Gpu]) -> dict[tuple[int, int], int]:
    """Read KFD's VRAM counters by GPU and process; any user can read them."""
    indices = {}
    for gpu in gpus:
        path = f"{_KFD}/topology/nodes/{gpu.node}/gpu_id"
        text = read_attribute(path)[0].strip() if gpu.node is not None else ""
        if re.fullmatch("[1-9][0-9]{0,9}", text):
            indices[text] = gpu.index
    found = {}
    for name in list_folder(f"{_KFD}/proc"):
        if not re.fullmatch("[0-9]{1,10}", name):
            continue
        for number, index in indices.items():
            size = read_attribute(f"{_KFD}/proc/{name}/vram_{number}")[0].strip()
            if re.fullmatch("[0-9]{1,20}", size) and 0 < int(size) <= MAX_BYTES:
                found[index, int(name)] = int(size)
    return found


def _describe_all(held: _Held) -> dict[int, tuple[Holder, ...]]:
    found: dict[int, list[Holder]] = {}
    for (index, pid), (vram, shared) in held.items():
        if not vram and not shared:
            continue
        command = read_attribute(f"/proc/{pid}/cmdline")[0].rstrip("\0")
        holder = Holder(
            pid=pid,
            name=printable(read_attribute(f"/proc/{pid}/comm")[0]),
            vram_bytes=vram,
            shared_bytes=shared,
            command=tuple(command.split("\0")) if command else (),
            folder=_read_link(f"/proc/{pid}/cwd"),
        )
        found.setdefault(index, []).append(holder)
    return {index: tuple(holders) for index, holders in found.items()}


def _read_link(path: str) -> str:
    try:
        return os.readlink(machine_path(path))
    except OSError:
        return ""

"""What the Linux kernel says of the memory of a GPU and of the machine.

VRAM is the card's own memory, or what the BIOS set aside for an APU. GTT is main memory that the GPU may use.

Source: torvalds/linux:Documentation/gpu/amdgpu/driver-misc.rst, mem_info_*
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MAX_BYTES
from rocenv.system.machine import list_folder, read_attribute, unreadable

if TYPE_CHECKING:
    from rocenv.host import Gpu

_DEVICES = "/sys/bus/pci/devices"
_CARDS = "/sys/class/drm"
_MEMINFO = re.compile(r"^(MemTotal|MemAvailable):\s*([0-9]{1,15}) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """VRAM or GTT of a GPU; None = unknown."""

    total: int | None = None
    used: int | None = None
    is_inconsistent: bool = False  # the kernel gave figures that cannot be true

    @property
    def free(self) -> int | None:
        """What is left of it."""
        return None if self.total is None or self.used is None else max(0, self.total - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """Main memory; None = unknown."""

    total: int | None = None
    available: int | None = None


def read_pools(gpu: Gpu) -> tuple[Pool, Pool]:
    """Read VRAM and GTT of a GPU; a figure that cannot be true is unknown."""
    folder = f"{_DEVICES}/{gpu.address}"
    if not gpu.address:
        if not gpu.render_minor:
            return Pool(), Pool()
        folder = f"{_CARDS}/renderD{gpu.render_minor}/device"
    return _read_pool(folder, "vram"), _read_pool(folder, "gtt")


def machine_memory() -> MachineMemory:
    """Read how much main memory there is, and how much of it programs could still take."""
    text = read_attribute("/proc/meminfo")[0]
    found = {name: int(value) << 10 for name, value in _MEMINFO.findall(text)}
    return MachineMemory(total=found.get("MemTotal"), available=found.get("MemAvailable"))


def drives_display(gpu: Gpu) -> bool | None:
    """Return whether a display is connected to a GPU; None = unknown.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-class-drm, `status` of a connector
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
    return None if states - {"disconnected"} else False  # "unknown" may be a display


def _read_pool(folder: str, name: str) -> Pool:
    texts = [read_attribute(f"{folder}/mem_info_{name}_{what}")[0].strip() for what in ("total", "used")]
    total, used = map(_figure, texts)
    is_inconsistent = any(text and _figure(text) is None for text in texts)
    if total is not None and used is not None and used > total:
        used, is_inconsistent = None, True
    return Pool(total=total, used=used, is_inconsistent=is_inconsistent)


def _figure(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) and int(text) <= MAX_BYTES else None

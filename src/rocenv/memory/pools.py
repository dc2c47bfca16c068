"""The pools of memory that a GPU of a Linux machine has, as the kernel counts them.

VRAM is the card's own, or what the BIOS set aside for an APU; GTT is what the GPU may use of the machine's
memory.

Source: torvalds/linux:Documentation/gpu/amdgpu/driver-misc.rst, mem_info_*
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import MOST
from rocenv.system.machine import read_attribute

if TYPE_CHECKING:
    from rocenv.host import Gpu

DEVICES = "/sys/bus/pci/devices"
_CARDS = "/sys/class/drm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool; None = not known."""

    total: int | None = None
    used: int | None = None
    senseless: bool = False  # there are figures, and they cannot be

    @property
    def free(self) -> int | None:
        """What is left of it."""
        if self.total is None or self.used is None:
            return None
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of one GPU."""

    vram: Pool = Pool()
    gtt: Pool = Pool()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """The machine's own memory."""

    total: int | None = None
    available: int | None = None


def pools_of(gpu: Gpu) -> Pools:
    """Return the pools of a GPU; a figure that cannot be is one that is not known."""
    folder = _folder(gpu)
    if not folder:
        return Pools()
    return Pools(vram=_pool(folder, "vram"), gtt=_pool(folder, "gtt"))


def machine_memory() -> MachineMemory:
    """Return how much memory the machine has, and how much of it programs could still take."""
    text = read_attribute("/proc/meminfo")[0]
    found = {name: int(value) << 10 for name, value in _MEMINFO.findall(text)}
    return MachineMemory(total=found.get("MemTotal"), available=found.get("MemAvailable"))


_MEMINFO = re.compile(r"^(MemTotal|MemAvailable):\s*([0-9]{1,15}) kB", re.MULTILINE)


def _folder(gpu: Gpu) -> str:
    if gpu.address:
        return f"{DEVICES}/{gpu.address}"
    return f"{_CARDS}/renderD{gpu.render_minor}/device" if gpu.render_minor else ""


def _pool(folder: str, name: str) -> Pool:
    texts = [read_attribute(f"{folder}/mem_info_{name}_{what}")[0].strip() for what in ("total", "used")]
    total, used = map(_figure, texts)
    senseless = any(text and _figure(text) is None for text in texts)
    if total is not None and used is not None and used > total:
        used, senseless = None, True
    return Pool(total=total, used=used, senseless=senseless)


def _figure(text: str) -> int | None:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return None
    return int(text) if int(text) <= MOST else None

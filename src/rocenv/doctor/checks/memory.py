"""Checks of Linux: what of the machine's memory an APU may use, and room on the disks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.doctor.distribution import distro
from rocenv.doctor.seen import Seen
from rocenv.host import kfd
from rocenv.system.machine import free_bytes, read_attribute, tried

if TYPE_CHECKING:
    from rocenv.doctor.scene import Scene

_GIB = 1 << 30
_OPTIONS = re.compile(r"\b(?:ttm\.pages_limit|amdttm\.pages_limit|amdgpu\.gttsize)=\S+")


def apu_memory_small(scene: Scene) -> Seen | None:
    """An APU may use little of a machine's memory that has much more."""
    gpu = scene.host.gpu
    total = _machine_bytes()
    if gpu is None or not gpu.integrated or not gpu.memory_bytes or not total:
        return None
    # What the BIOS has given to the APU is not part of what Linux counts.
    share = gpu.memory_bytes / (total + (gpu.vram_bytes or 0))
    enough = scene.limit("apu_enough") * _GIB
    if gpu.memory_bytes >= enough or share >= scene.limit("apu_share") / 100:
        return None
    wanted = int(total * scene.limit("apu_wanted") / 100)
    values = {
        "memory": _gib(gpu.memory_bytes),
        "machine": _gib(total),
        "pages": str(wanted // 4096),
        "wanted": _gib(wanted),
        "distro": distro(),
        "options": " ".join(_OPTIONS.findall(read_attribute("/proc/cmdline")[0])),
    }
    evidence = [f"mem_info_vram_total: {gpu.vram_bytes}", f"mem_info_gtt_total: {gpu.gtt_bytes}"]
    evidence += [f"MemTotal: {total}", *filter(None, [values["options"]])]
    return Seen("apu_memory_small", values, tuple(evidence))


def apu_carve_out_only(scene: Scene) -> Seen | None:
    """Programs see of an APU's memory only what the BIOS set aside, as older kernels have it."""
    gpu = scene.host.gpu
    if gpu is None or not gpu.integrated or gpu.node is None:
        return None
    seen = next((node.memory_bytes for node in kfd.gpu_nodes() if node.number == gpu.node), 0)
    if not seen or seen >= scene.limit("apu_least") * _GIB or (gpu.memory_bytes or 0) < 2 * seen:
        return None
    values = {"memory": _gib(seen), "all": _gib(gpu.memory_bytes or 0), "kernel": scene.host.driver.kernel}
    return Seen("apu_carve_out_only", values, (f"{kfd.NODES}/{gpu.node}/mem_banks: {seen}",))


def disk_nearly_full(scene: Scene) -> Seen | None:
    """No room for another env where envs lie."""
    folder = scene.home.path
    free = tried("free bytes", str(folder), lambda: free_bytes(folder), -1)
    least = scene.limit("disk_least") * _GIB
    if free < 0 or free >= least:
        return None
    values = {"free": _gib(free), "folder": str(folder), "least": _gib(least)}
    return Seen("disk_nearly_full", values, (f"{folder}: {free} bytes",))


def _machine_bytes() -> int:
    found = re.search(r"^MemTotal:\s+([0-9]{1,15}) kB", read_attribute("/proc/meminfo")[0], re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"

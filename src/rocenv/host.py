"""Cheap facts about the machine's GPUs, without loading a GPU library.

Order: `--target` or `ROCENV_TARGET` (the callers'), then the kernel's KFD topology in sysfs. A target that
rocenv does not know stays visible under its name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from rocenv.system.machine import list_folder, read_text

_NODES = "/sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU that the kernel driver knows."""

    node: int  # number of the KFD node, CPU nodes counted
    target: str
    compute_units: int


def detect_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs of this machine in the order of their KFD nodes; `ROCENV_TARGET` stands in for them."""
    forced = os.environ.get("ROCENV_TARGET")
    if forced is not None:
        names = [name.strip() for name in forced.split(",") if name.strip()]
        return tuple(Gpu(node=number, target=name, compute_units=0) for number, name in enumerate(names))
    found = []
    for name in sorted(filter(str.isdigit, list_folder(_NODES)), key=int):
        lines = (read_text(f"{_NODES}/{name}/properties") or "").splitlines()
        properties = dict(line.split(None, 1) for line in lines if len(line.split(None, 1)) == 2)
        numbers = {key: int(value) for key, value in properties.items() if value.strip().isdecimal()}
        version = numbers.get("gfx_target_version", 0)
        if version:
            units = numbers.get("simd_count", 0) // max(1, numbers.get("simd_per_cu", 1))
            found.append(Gpu(node=int(name), target=target_name(version), compute_units=units))
    return tuple(found)


def target_name(gfx_target_version: int) -> str:
    """Return the target that the kernel's number stands for: 90010 -> `gfx90a`, 110003 -> `gfx1103`.

    Source: torvalds/linux:drivers/gpu/drm/amd/amdkfd/kfd_device.c
    """
    major, rest = divmod(gfx_target_version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def chosen_gpu(gpus: tuple[Gpu, ...]) -> Gpu | None:
    """Return the GPU with the most compute units, the first of equals; None where there is none."""
    return max(gpus, key=lambda gpu: (gpu.compute_units, -gpu.node), default=None)

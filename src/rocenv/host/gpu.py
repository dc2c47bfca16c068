"""A GPU, the driver that runs it, and how targets are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rocenv.core.errors import RocenvError

_LONGEST = 200  # characters of a name, or of anything else that a machine says of itself
# `usable`: programs can compute on it now. `barred`: they could, if what `why_not` names were put right.
# `unable`: nothing computes on it with the driver that has it.
State = Literal["usable", "barred", "unable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One AMD GPU, or one partition of one; it stays in the list whether or not it can be used."""

    source: str  # how it was found, and how its target is known
    target: str = ""  # the bare name; "" = nothing says which
    features: str = ""  # what follows the name: ":xnack-"
    name: str = ""  # of the product; "" = not known
    pci_id: str = ""  # "1002:73bf"
    address: str = ""  # "0000:03:00.0"
    integrated: bool | None = None  # part of a CPU; None = not known
    vram_bytes: int | None = None
    gtt_bytes: int | None = None  # of the machine's memory, what the GPU may use too
    compute_units: int | None = None
    state: State = "usable"
    why_not: str = ""
    node: int | None = None  # of the kernel's KFD topology, CPU nodes counted
    render_minor: int | None = None  # N of /dev/dri/renderDN
    index: int = 0  # place in the list
    hip_index: int | None = None  # HIP's number for it; None: HIP does not list it, or in an unknown order

    @property
    def usable(self) -> bool:
        """Programs can compute on it now."""
        return self.state == "usable"

    @property
    def memory_bytes(self) -> int | None:
        """What programs can fill: an iGPU computes in the machine's memory too."""
        if not self.integrated:
            return self.vram_bytes
        known = [size for size in (self.vram_bytes, self.gtt_bytes) if size is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What runs the GPUs of a machine."""

    kernel: str = ""  # version of the Linux kernel
    amdgpu: str = ""  # version of AMD's own build of the driver; "" = the kernel's
    loaded: bool = False  # amdgpu is there
    display: str = ""  # what Windows calls the version of the display driver, "32.0.12033.1030"
    release: str = ""  # of the display driver as AMD counts, "24.12.1"; "" = not known
    wsl: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The graphics of a machine, before anything is numbered or chosen."""

    gpus: tuple[Gpu, ...] = ()
    in_hip_order: bool = True  # those that HIP lists are in its order
    others: tuple[str, ...] = ()  # makers of other cards beside them
    remedies: tuple[str, ...] = ()  # what to do about barred GPUs
    notes: tuple[str, ...] = ()
    unknown: str = ""  # why there may be GPUs although none was found, as a clause
    display_driver: tuple[str, str] = ("", "")  # of Windows: its version, and AMD's release of it


def target_name(gfx_target_version: int) -> str:
    """The target that the kernel's number stands for: 90010 -> `gfx90a`, 110003 -> `gfx1103`.

    Source: torvalds/linux:drivers/gpu/drm/amd/amdkfd/kfd_device.c
    """
    major, rest = divmod(gfx_target_version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def target_age(target: str) -> tuple[int, int, int]:
    """A key by which newer targets are greater; what is no target is the oldest.

    Source: llvm/llvm-project:llvm/docs/AMDGPUUsage.rst, minor version and stepping are one digit each.
    """
    digits = target.removeprefix("gfx")
    try:
        return int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
    except (ValueError, IndexError):
        return 0, 0, 0


def is_target(text: str) -> bool:
    """Whether a text has the form of a target's bare name, known or not."""
    return re.fullmatch(r"gfx[0-9a-f]{3,8}", text) is not None


def printable(text: str) -> str:
    """A text of the machine as one short line that no terminal takes for commands."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text[:_LONGEST].split()))


def require_target(target: str) -> None:
    """Raise RocenvError unless a text is the name of a target, without features such as `:xnack-`."""
    if is_target(target):
        return
    name, features = split_target(target)
    hint = "a target is `gfx` and a number, such as gfx1100 (RX 7900) or gfx1030 (RX 6800)"
    if features and is_target(name):
        hint = f"leave out `{features}`: `--target {name}`"
    raise RocenvError(f"`{target}` is not a target", hints=(hint,), code="target-unknown")


def split_target(text: str) -> tuple[str, str]:
    """The bare target and its features: `gfx90a:sramecc+:xnack-` -> `gfx90a`, `:sramecc+:xnack-`."""
    name, colon, features = text.strip().partition(":")
    return name, colon + features

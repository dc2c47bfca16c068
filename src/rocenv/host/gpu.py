"""GPUs, drivers, and the syntax of targets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rocenv.core.errors import RocenvError

_LONGEST = 240  # maximum length for a name or other text from the machine
# `usable`: programs can use it for compute now. `barred`: they can once the problem in `why_not` is fixed.
# `unable`: programs cannot use it for compute with the current driver.
State = Literal["usable", "barred", "unable"]

_FILLER = re.compile(r"\bAMD |\bRadeon(?:\(TM\))? (?=RX )|\((?:TM|R)\)| Series\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """An AMD GPU or a GPU partition, usable or not."""

    source: str  # where the GPU and its target were found: "KFD, target by PCI id"
    target: str = ""  # without features; "" if unknown
    features: str = ""  # the target's suffix: ":xnack-"
    name: str = ""  # product name; "" if unknown
    pci_id: str = ""  # "1002:73bf"
    address: str = ""  # "0000:03:00.0"
    integrated: bool | None = None  # part of a CPU; None if unknown
    vram_bytes: int | None = None
    gtt_bytes: int | None = None  # system memory that the GPU can also use
    compute_units: int | None = None
    state: State = "usable"
    why_not: str = ""
    node: int | None = None  # number in the kernel's KFD topology, including CPU nodes
    render_minor: int | None = None  # N of /dev/dri/renderDN
    index: int = 0  # position in the list of GPUs
    hip_index: int | None = None  # HIP's number; None if not listed or if the order is unknown

    @property
    def short_name(self) -> str:
        """The product name, shortened for messages (`RX 7900 XTX/XT/GRE`), or "" if unknown."""
        names: list[str] = []
        last: list[str] = []
        for product in dict.fromkeys(_FILLER.sub("", self.name).split(" / ")):
            words = product.split()
            shared = next((i for i, pair in enumerate(zip(words, last, strict=False)) if len({*pair}) > 1), 0)
            names.append(" ".join(words[shared:]))
            last = words
        return "/".join(names)

    @property
    def usable(self) -> bool:
        """Whether programs can use it for compute now."""
        return self.state == "usable"

    @property
    def memory_bytes(self) -> int | None:
        """The memory available to programs; an iGPU also uses system memory."""
        if not self.integrated:
            return self.vram_bytes
        known = [size for size in (self.vram_bytes, self.gtt_bytes) if size is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The GPU driver on a machine."""

    kernel: str = ""  # Linux kernel version
    amdgpu: str = ""  # version of AMD's own driver build; "" for the kernel's built-in driver
    loaded: bool = False  # whether the amdgpu module is loaded
    display: str = ""  # display driver in Windows' numbering: "32.0.12033.1030"
    release: str = ""  # display driver in AMD's numbering: "24.12.1"; "" if unknown
    wsl: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A machine's graphics hardware, before numbering and selection."""

    gpus: tuple[Gpu, ...] = ()
    in_hip_order: bool = True  # whether GPUs that HIP lists are in HIP's order
    others: tuple[str, ...] = ()  # vendors of other cards
    remedies: tuple[str, ...] = ()  # advice for blocked GPUs
    notes: tuple[str, ...] = ()
    unknown: str = ""  # why detection failed, as a clause; "" if it succeeded
    display_driver: tuple[str, str] = ("", "")  # its version in Windows' and in AMD's numbering


def target_name(gfx_target_version: int) -> str:
    """Convert the kernel's number to a target: 90010 -> `gfx90a`, 110003 -> `gfx1103`.

    Source: torvalds/linux:drivers/gpu/drm/amd/amdkfd/kfd_device.c
    """
    major, rest = divmod(gfx_target_version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def target_age(target: str) -> tuple[int, int, int]:
    """Sort key: newer targets are greater, and invalid targets are smallest.

    Source: llvm/llvm-project:llvm/docs/AMDGPUUsage.rst (minor version and stepping are one digit each)
    """
    digits = target.removeprefix("gfx")
    try:
        return int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
    except (ValueError, IndexError):
        return 0, 0, 0


def is_target(text: str) -> bool:
    """Whether a string looks like a target without features."""
    return re.fullmatch(r"gfx[0-9a-f]{3,8}", text) is not None


def printable(text: str) -> str:
    """Reduce text from a machine to one line without control characters; `…` marks truncation."""
    line = " ".join(text[: _LONGEST + 1].split())
    if len(text) > _LONGEST:
        words = line[:_LONGEST].rpartition(" ")[0]
        line = f"{words if len(words) > _LONGEST // 2 else line[:_LONGEST]} …"
    return "".join(char if char.isprintable() else "?" for char in line)


def require_target(target: str) -> None:
    """Raise RocenvError if a string is not a target without features such as `:xnack-`."""
    if is_target(target):
        return
    name, features = split_target(target)
    hint = "a target is `gfx` and a number, such as gfx1100 (RX 7900) or gfx1030 (RX 6800)"
    if features and is_target(name):
        hint = f"leave out `{features}`: `--target {name}`"
    raise RocenvError(f"`{target}` is not a target", hints=(hint,), code="target-unknown")


def split_target(text: str) -> tuple[str, str]:
    """Split a target from its features: `gfx90a:sramecc+:xnack-` -> `gfx90a`, `:sramecc+:xnack-`."""
    name, colon, features = text.strip().partition(":")
    return name, colon + features

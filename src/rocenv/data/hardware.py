"""Rows about GPUs: targets, and how a device is told to be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Known):
    """A gfx target. Table `target`."""

    name: str  # "gfx1031"
    arch: str  # "RDNA2"
    kind: Literal["card", "apu"]
    wave: Literal[32, 64]
    products: str
    codename: str = ""
    memory: str = ""
    gc_ip: str = ""  # what the kernel driver calls the graphics core; several with commas
    kfd: int = 0  # the kernel's gfx_target_version; 0 = it has none yet
    generic: str = ""  # the generic target whose code runs on it
    family: str = ""  # TheRock's name for its group of builds


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericTarget(Known):
    """A target of which one code object runs on all members. Table `generic_target`."""

    name: str
    members: tuple[str, ...]
    version: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PciId(Known):
    """A PCI device of vendor 1002. Table `pci`."""

    device: str  # four lower-case hexadecimal digits
    target: str
    products: tuple[str, ...] = ()
    codename: str = ""
    revision: str = ""  # two hexadecimal digits, where the device id alone does not tell the target
    kind: Literal["", "card", "apu"] = ""  # where it is not what its target mostly is


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuName(Known):
    """The target of GPUs that Windows knows by name only. Table `gpu_name`."""

    title: str
    pattern: str  # regular expression, searched in the name without (TM) and (R), ignoring case
    target: str


TABLES: dict[str, type[Known]] = {
    "target": Target,
    "generic_target": GenericTarget,
    "pci": PciId,
    "gpu_name": GpuName,
}

"""List graphics devices on the PCI bus, regardless of driver, and look up their IDs.

This finds product names, GPUs that the compute driver (KFD) skips, and targets that it does not report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocenv.host.products import unsupported
from rocenv.system.machine import list_folder, read_attribute

if TYPE_CHECKING:
    from rocenv.data.knowledge import PciId
    from rocenv.data.rows import Matrix

AMD = 0x1002
MAKERS = {0x10DE: "NVIDIA", 0x8086: "Intel"}  # other GPU vendors
DEVICES = "/sys/bus/pci/devices"
_DISPLAY, _ACCELERATOR = 0x03, 0x12  # PCI base classes; Instincts without display outputs are accelerators
_SHOWN = 3  # the most products to list for a shared ID
_NAME_TABLES = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A graphics device on the bus."""

    address: str  # "0000:03:00.0"
    vendor: int
    device: str  # four lowercase hexadecimal digits
    revision: str  # two lowercase hexadecimal digits
    driver: str  # "" if none
    product: str  # product name stored in the device; only server cards have one
    vram_bytes: int | None
    gtt_bytes: int | None


def devices() -> tuple[Device, ...]:
    """List the graphics devices of all vendors by address."""
    found = []
    for address in list_folder(DEVICES):
        folder = f"{DEVICES}/{address}"
        base_class = (_hexadecimal(f"{folder}/class") or 0) >> 16
        vendor = _hexadecimal(f"{folder}/vendor")
        device = _hexadecimal(f"{folder}/device")
        if base_class not in (_DISPLAY, _ACCELERATOR) or vendor is None or device is None:
            continue
        # "DRIVER=amdgpu"; missing if no driver is bound
        driver = re.search(r"^DRIVER=(.*)$", read_attribute(f"{folder}/uevent")[0], re.MULTILINE)
        found.append(
            Device(
                address=address,
                vendor=vendor,
                device=f"{device:04x}",
                revision=f"{_hexadecimal(f'{folder}/revision') or 0:02x}",
                driver=driver[1].strip() if driver else "",
                product=read_attribute(f"{folder}/product_name")[0].strip(),
                vram_bytes=_decimal(f"{folder}/mem_info_vram_total"),
                gtt_bytes=_decimal(f"{folder}/mem_info_gtt_total"),
            )
        )
    return tuple(found)


class Ids:
    """Look up AMD's PCI IDs in the matrix and in the system's PCI ID database."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    @cached_property
    def _rows(self) -> dict[tuple[str, str], PciId]:
        return {(row.device, row.revision): row for row in self._matrix.pci}

    @cached_property
    def _names(self) -> dict[tuple[str, str], str]:
        text = next(filter(None, (read_attribute(path, 1 << 20)[0] for path in _NAME_TABLES)), "")
        # "73BF,\tC0,\tAMD Radeon RX 6900 XT"
        lines = re.findall(r"^([0-9A-Fa-f]{4}),\s*([0-9A-Fa-f]{1,2}),\s*(\S.*)$", text, re.MULTILINE)
        return {(device.lower(), revision.lower().zfill(2)): name.strip() for device, revision, name in lines}

    def row(self, device: str, revision: str) -> PciId | None:
        """Return the row for an ID, preferably with the exact revision."""
        return self._rows.get((device, revision)) or self._rows.get((device, ""))

    def target(self, device: str, revision: str) -> str:
        """Return an ID's target, or "" if no row has it."""
        row = self.row(device, revision)
        return row.target if row else ""

    def product(self, device: str, revision: str) -> str:
        """Return the product name (several if products share the ID), or "" if unknown."""
        name = self._names.get((device, revision))
        if name:
            return name
        row = self.row(device, revision)
        if row is None:
            return ""
        more = " / …" if len(row.products) > _SHOWN else ""
        return " / ".join(row.products[:_SHOWN]) + more or row.codename

    def unsupported(self, device: str) -> str:
        """Return why ROCm cannot support a GPU with this ID, or "" if it might."""
        row = unsupported(device, self._matrix)
        return row.why if row else ""

    def integrated(self, target: str, device: str = "", revision: str = "") -> bool | None:
        """Whether a GPU is part of a CPU, or None if neither its ID nor its target is known."""
        row = self.row(device, revision)
        if row and row.kind:
            return row.kind == "apu"
        known = self._matrix.targets.get(target or (row.target if row else ""))
        return known.kind == "apu" if known else None


def _hexadecimal(path: str) -> int | None:
    text = read_attribute(path)[0].strip()
    return int(text, 16) if re.fullmatch(r"(0x)?[0-9A-Fa-f]{1,8}", text) else None


def _decimal(path: str) -> int | None:
    text = read_attribute(path)[0].strip()
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None

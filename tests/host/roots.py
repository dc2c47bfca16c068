"""Fake machines: the files of a Linux kernel or of Windows in the ROCENV_SYSROOT folder.

Formats: torvalds/linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c, Documentation/ABI/testing/sysfs-bus-pci,
ROCm/hip-tests:samples/1_Utils/hipInfo
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
NODES = "sys/class/kfd/kfd/topology/nodes"


@dataclass
class Root:
    """One machine; each method adds a part."""

    path: Path
    _minors: int = field(default=128)

    def put(self, name: str, text: str) -> Path:
        """Write a file, creating missing folders."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def kernel(self, version: str = "6.8.0-45-generic", dkms: str = "") -> Root:
        """Add a kernel that has loaded its own or AMD's amdgpu module."""
        self.put("proc/version", f"Linux version {version} (who@where) (gcc 13.2.0) #1 SMP\n")
        self.put("sys/module/amdgpu/refcnt", "1\n")
        if dkms:
            self.put("sys/module/amdgpu/version", f"{dkms}\n")
        return self

    def cpu(self, number: int = 0) -> Root:
        """Add a KFD node for a processor."""
        return self.node(number, cpu_cores_count=16, simd_count=0, gpu_id=0, heap=0, memory=64 * GIB)

    def node(
        self, number: int, *, gpu_id: int | None = None, heap: int = 1, memory: int = 0, **values: int
    ) -> Root:
        """Add a KFD node with exactly these properties."""
        folder = f"{NODES}/{number}"
        self.put(f"{folder}/properties", "".join(f"{key} {value}\n" for key, value in values.items()))
        self.put(f"{folder}/gpu_id", f"{1000 + number if gpu_id is None else gpu_id}\n")
        self.put(f"{folder}/name", "ip discovery\n")
        if memory:
            text = f"heap_type {heap}\nsize_in_bytes {memory}\nflags 0\nwidth 128\n"
            self.put(f"{folder}/mem_banks/0/properties", text)
        self.put("dev/kfd", "")
        return self

    def gpu(
        self,
        number: int,
        device: int,
        version: int | None,
        *,
        units: int = 60,
        bus: int | None = None,
        domain: int = 0,
        partition: int = 0,
        memory: int = 16 * GIB,
        gtt: int = 16 * GIB,
        revision: int = 0xC0,
        **more: int,
    ) -> Root:
        """Add a GPU with a KFD node, a card node and a render node; `version=None` imitates an old kernel."""
        bus = number if bus is None else bus
        minor = self._minors
        self._minors += 1
        known = {} if version is None else {"gfx_target_version": version}
        location = bus << 8 | partition
        values = {
            "simd_count": units * 2,
            "simd_per_cu": 2,
            **known,
            "vendor_id": 0x1002,
            "device_id": device,
        }
        values |= {"location_id": location, "domain": domain, "drm_render_minor": minor} | more
        self.node(number, memory=memory, **values)
        self.put(f"dev/dri/renderD{minor}", "")
        address = f"{domain:04x}:{bus:02x}:00.0"
        return self.card(address, device, revision=revision, memory=memory, gtt=gtt)

    def card(
        self,
        address: str,
        device: int,
        *,
        vendor: int = 0x1002,
        driver: str = "amdgpu",
        revision: int = 0xC0,
        memory: int = 0,
        gtt: int = 0,
        base_class: int = 0x03,
    ) -> Root:
        """Add a graphics device."""
        folder = f"sys/bus/pci/devices/{address}"
        self.put(f"{folder}/vendor", f"0x{vendor:04x}\n")
        self.put(f"{folder}/device", f"0x{device:04x}\n")
        self.put(f"{folder}/class", f"0x{base_class:02x}0000\n")
        self.put(f"{folder}/revision", f"0x{revision:02x}\n")
        bound = f"DRIVER={driver}\n" if driver else ""
        self.put(f"{folder}/uevent", f"{bound}PCI_CLASS={base_class:X}0000\nPCI_SLOT_NAME={address}\n")
        if memory:
            self.put(f"{folder}/mem_info_vram_total", f"{memory}\n")
        if gtt:
            self.put(f"{folder}/mem_info_gtt_total", f"{gtt}\n")
        return self

    def wsl(self, *adapters: dict[str, Any], answer: str = "") -> Root:
        """Turn this into a WSL machine; Windows returns these display adapters or the text `answer`."""
        self.put("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2 (root@x) #1 SMP\n")
        self.put("dev/dxg", "")
        if adapters or answer:
            self.put("wsl/video_controllers.json", answer or json.dumps(adapters))
        return self

    def windows(self, *devices: dict[str, Any], said: str = "", controllers: Any = None) -> Root:
        """Turn this into a Windows machine with this `hipInfo` output and these display adapters."""
        text = said
        for number, device in enumerate(devices):
            text += "-" * 80 + f"\ndevice#                           {number}\n"
            text += "".join(f"{name + ':':34}{value}\n" for name, value in device.items()) + "peers:\n\n"
        shutil.rmtree(self.path / "windows", ignore_errors=True)
        (self.path / "windows").mkdir()
        if text:
            self.put("windows/hipinfo.txt", text)
        if controllers is not None:
            self.put("windows/video_controllers.json", json.dumps(controllers))
        return self

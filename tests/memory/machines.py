"""Simulated machines, with the kernel files that describe GPU memory and processes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tests.host.roots import GIB, Root

MIB = 1 << 20
RX_6800, RX_7900, STRIX_HALO, RAPHAEL, MI300X = 0x73BF, 0x744C, 0x1586, 0x164E, 0x74A1


@dataclass
class Machine(Root):
    """A simulated machine with GPU memory and processes."""

    def pools(self, address: str, **figures: object) -> Machine:
        """Write a card's counters, plausible or not: `vram_used=…`, `gtt_total=…`."""
        for name, value in figures.items():
            self.put(f"sys/bus/pci/devices/{address}/mem_info_{name}", f"{value}\n")
        return self

    def ram(self, total: int, available: int) -> Machine:
        """Set the size of system memory."""
        self.put(
            "proc/meminfo",
            f"MemTotal:       {total >> 10} kB\nMemFree:  1 kB\nMemAvailable:   {available >> 10} kB\n",
        )
        return self

    def process(
        self, pid: int, name: str = "app", *command: str, folder: str = "", flags: int = 0x400000
    ) -> Machine:
        """Add a process that has no GPU open."""
        self.put(f"proc/{pid}/comm", f"{name}\n")
        self.put(f"proc/{pid}/cmdline", "\0".join((*command, "")) if command else "")
        self.put(f"proc/{pid}/stat", f"{pid} ({name}) S 1 {pid} {pid} 0 -1 {flags} 0 0 0\n")
        for part in ("fd", "fdinfo"):
            (self.path / f"proc/{pid}/{part}").mkdir(exist_ok=True)
        if folder:
            os.symlink(folder, self.path / f"proc/{pid}/cwd")
        return self

    def opened(self, pid: int, number: int, text: str, device: str = "/dev/dri/renderD128") -> Machine:
        """Add an open device to a process, with its fdinfo."""
        os.symlink(device, self.path / f"proc/{pid}/fd/{number}")
        self.put(f"proc/{pid}/fdinfo/{number}", text)
        return self

    def client(
        self,
        pid: int,
        number: int = 5,
        *,
        vram: int = 0,
        gtt: int = 0,
        ident: int = 0,
        address: str = "0000:03:00.0",
    ) -> Machine:
        """Add an open GPU to a process, with the fdinfo text of a current kernel."""
        return self.opened(pid, number, fdinfo(address, ident or pid, vram, gtt))


def fdinfo(address: str, ident: int, vram: int, gtt: int = 0) -> str:
    """Return the fdinfo text that a 6.x kernel writes."""
    return (
        f"pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t612\ndrm-driver:\tamdgpu\ndrm-client-id:\t{ident}\n"
        f"drm-pdev:\t{address}\npasid:\t32770\n"
        f"drm-total-cpu:\t0\ndrm-total-vram:\t{(vram >> 10) + 512} KiB\n"
        f"drm-resident-vram:\t{vram >> 10} KiB\n"
        f"drm-resident-gtt:\t{gtt >> 10} KiB\ndrm-memory-vram:\t{vram >> 10} KiB\n"
        f"drm-memory-gtt: \t{gtt >> 10} KiB\ndrm-memory-cpu: \t0 KiB\namd-evicted-vram:\t0 KiB\n"
        "drm-engine-gfx:\t1234567 ns\n"
    )


def card(machine: Machine, *, used: int = 10 * GIB, total: int = 24 * GIB) -> Machine:
    """Give the machine a 24 GiB card at 0000:03:00.0."""
    machine.kernel().cpu()
    machine.gpu(1, RX_7900, 110000, units=96, bus=3, memory=total, gtt=16 * GIB)
    return machine.pools("0000:03:00.0", vram_used=used, gtt_used=GIB // 4)


def apu(machine: Machine, *, vram: int, gtt: int, ram: int) -> Machine:
    """Give the machine only an APU, at 0000:c5:00.0."""
    machine.kernel().cpu()
    machine.gpu(1, STRIX_HALO, 110501, units=40, bus=0xC5, memory=vram, gtt=gtt)
    machine.pools("0000:c5:00.0", vram_used=vram // 4, gtt_used=GIB)
    machine.process(1, "init")
    return machine.ram(ram, ram // 2)

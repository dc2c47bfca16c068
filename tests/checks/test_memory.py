"""Checks on APU memory and disk space."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocenv.checks import machine
from rocenv.system.disks import Room
from tests.checks.scenery import PHOENIX, Scenery
from tests.host.roots import GIB


def apu(scenery: Scenery, *, vram: int, gtt: int, machine: int, bank: int = 0) -> None:
    scenery.root.kernel("6.14.0").cpu()
    scenery.root.gpu(1, PHOENIX, 110003, units=12, memory=bank or gtt, gtt=gtt)
    scenery.root.put("sys/bus/pci/devices/0000:01:00.0/mem_info_vram_total", str(vram))
    scenery.root.put("proc/meminfo", f"MemTotal:       {machine // 1024} kB\nMemFree: 1 kB\n")


def test_an_apu_with_little_memory_is_reported(scenery: Scenery) -> None:
    apu(scenery, vram=GIB // 2, gtt=3 * GIB, machine=64 * GIB)
    finding = scenery.sees("apu_memory_small")
    assert finding is not None and finding.code == "apu-memory-not-exposed"
    assert "3.5 GiB" in finding.title and "64.0 GiB" in finding.title
    # three quarters of 64 GiB, in pages of 4 KiB
    assert "ttm.pages_limit=12582912" in finding.instructions[0] and not finding.commands


def test_a_memory_limit_on_the_kernel_command_line_is_reported(scenery: Scenery) -> None:
    apu(scenery, vram=GIB // 2, gtt=4 * GIB, machine=64 * GIB)
    scenery.root.put("proc/cmdline", "ro quiet amdgpu.gttsize=4096\n")
    finding = scenery.sees("apu_memory_small")
    assert finding is not None and "amdgpu.gttsize=4096" in finding.instructions[0]


def test_the_command_changes_an_existing_limit_instead_of_adding_one(scenery: Scenery) -> None:
    apu(scenery, vram=GIB // 2, gtt=4 * GIB, machine=64 * GIB)
    scenery.root.put("proc/cmdline", "ro quiet ttm.pages_limit=1048576\n")
    scenery.root.put("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n")
    finding = scenery.sees("apu_memory_small")
    assert finding is not None and "`ttm.pages_limit=1048576`. Change" in finding.instructions[0]
    assert not finding.commands and not any("add `ttm" in text for text in finding.instructions)


@pytest.mark.parametrize(
    ("release", "commands"),
    [
        ("ID=fedora\n", ("sudo grubby --update-kernel=ALL --args=ttm.pages_limit=12582912",)),
        ("ID=debian\n", ("sudoedit /etc/default/grub", "sudo update-grub")),
        (
            'ID=pop\nID_LIKE="ubuntu debian"\n',
            ("sudo kernelstub --add-options ttm.pages_limit=12582912",),
        ),
        ("ID=nixos\n", ()),
    ],
)
def test_a_kernel_parameter_is_set_with_the_distributions_command(
    scenery: Scenery, release: str, commands: tuple[str, ...]
) -> None:
    apu(scenery, vram=GIB // 2, gtt=3 * GIB, machine=64 * GIB)
    scenery.root.put("etc/os-release", release)
    finding = scenery.sees("apu_memory_small")
    assert finding is not None and finding.commands == commands and len(finding.steps) == 2


@pytest.mark.parametrize(
    ("vram", "gtt", "machine"),
    [(1, 31, 62), (4, 15, 30), (96, 16, 31), (1, 7, 14), (1, 16, 120)],
)
def test_an_apu_with_enough_memory_is_fine(scenery: Scenery, vram: int, gtt: int, machine: int) -> None:
    apu(scenery, vram=vram * GIB, gtt=gtt * GIB, machine=machine * GIB)
    assert scenery.all() == []


def test_a_card_is_not_checked_for_the_memory_of_an_apu(scenery: Scenery) -> None:
    scenery.healthy().root.put("proc/meminfo", f"MemTotal: {512 * GIB // 1024} kB\n")
    assert scenery.sees("apu_memory_small") is None


def test_a_kernel_that_reports_only_an_apus_reserved_memory_is_reported(scenery: Scenery) -> None:
    apu(scenery, vram=GIB, gtt=15 * GIB, machine=30 * GIB, bank=GIB)
    finding = scenery.sees("apu_carve_out_only")
    assert finding is not None and "1.0 GiB" in finding.title and "16.0 GiB" in finding.title


def test_a_nearly_full_disk_is_reported(scenery: Scenery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even for a snapshot, the check examines this machine's disk, where envs are created."""
    free = 3 * GIB
    room: Room | None = None
    monkeypatch.setattr(machine, "room_elsewhere", lambda *_: room)

    def said(_folder: Path) -> int:
        return free

    monkeypatch.setattr(machine, "free_bytes", said)
    finding = scenery.sees("disk_nearly_full")
    assert (
        finding is not None
        and "3.0 GiB" in finding.title
        and finding.commands == ("rocenv gc", "rocenv cache clear")
    )
    room = Room(Path("/data/rocenv"), 300 * GIB)
    finding = scenery.sees("disk_nearly_full")
    assert finding is not None and finding.commands[2] == "export ROCENV_HOME=/data/rocenv"
    free = 300 * GIB
    assert scenery.sees("disk_nearly_full") is None

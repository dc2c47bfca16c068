"""Processes that use GPU memory, some of them hidden, hostile or already gone."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from rocenv.commands.mem_show import gpu_lines, holder_name
from rocenv.memory.holders import parse_fdinfo, process_ids
from tests.host.roots import GIB
from tests.memory.machines import MIB, RX_6800, RX_7900, STRIX_HALO, Machine, apu, card, fdinfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.memory.gpus import GpuMemory, Usage

    ReadMemory = Callable[..., Usage]


def held(gpu: GpuMemory) -> list[tuple[int, str, int]]:
    return [(each.pid, each.name, each.vram_bytes) for each in gpu.holders]


def test_the_process_with_the_most_memory_is_first(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "init")
    machine.process(70, "gnome-shell").client(70, vram=GIB, gtt=GIB)
    machine.process(80, "ollama").client(80, vram=6 * GIB)
    (gpu,) = read_memory().gpus
    assert held(gpu) == [(80, "ollama", 6 * GIB), (70, "gnome-shell", GIB)]
    assert gpu.unexplained_bytes == 3 * GIB  # system memory that a card shares does not count
    assert any(line.endswith("unknown processes") and "3.0 GiB" in line for line in gpu_lines(gpu))


def test_graphics_clients_with_id_0_are_counted_separately(machine: Machine, read_memory: ReadMemory) -> None:
    """Old kernels number compute clients, but all graphics clients get ID 0."""
    card(machine).process(1, "init")
    for pid in (70, 71, 72):
        text = "pdev:\t0000:03:00.0\npasid:\t0\nvram mem:\t1048576 kB\ngtt mem:\t0 kB\n"
        machine.process(pid, "game").opened(pid, 5, text)
    (gpu,) = read_memory().gpus
    assert [pid for pid, _, _ in held(gpu)] == [70, 71, 72]


def test_duplicate_clients_are_counted_once(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "init").process(70, "app").process(71, "child")
    machine.client(70, 5, vram=GIB, ident=9).client(70, 6, vram=GIB, ident=9)
    machine.client(71, 5, vram=GIB, ident=9).client(71, 7, vram=2 * GIB, ident=10)
    (gpu,) = read_memory().gpus
    assert held(gpu) == [(71, "child", 2 * GIB), (70, "app", GIB)]


def test_clients_with_the_same_id_on_two_cards_are_counted_separately(
    machine: Machine, read_memory: ReadMemory
) -> None:
    machine.kernel().gpu(1, RX_6800, 100300, bus=3).gpu(2, RX_7900, 110000, bus=4)
    machine.process(1, "init").process(70, "app")
    machine.client(70, 5, vram=GIB, ident=9, address="0000:03:00.0")
    machine.client(70, 6, vram=2 * GIB, ident=9, address="0000:04:00.0")
    assert [held(gpu) for gpu in read_memory().gpus] == [[(70, "app", GIB)], [(70, "app", 2 * GIB)]]


def test_fdinfo_is_read_only_for_open_gpu_devices(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "init").process(70, "liar")
    machine.opened(70, 5, fdinfo("0000:03:00.0", 1, GIB), device="/home/liar/fdinfo")
    assert read_memory().gpus[0].holders == ()


def test_a_machine_snapshot_does_not_need_links(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "init").process(70, "blender").client(70, vram=GIB)
    shutil.rmtree(machine.path / "proc/70/fd")
    assert held(read_memory().gpus[0]) == [(70, "blender", GIB)]


def test_kfd_counts_memory_that_fdinfo_omits(machine: Machine, read_memory: ReadMemory) -> None:
    """The figures are not added up, because KFD and fdinfo may count the same memory."""
    card(machine).process(1, "init").process(70, "python3").process(71, "blender")
    machine.client(71, vram=3 * GIB)
    machine.put("sys/class/kfd/kfd/proc/70/vram_1001", f"{2 * GIB}\n")
    machine.put("sys/class/kfd/kfd/proc/71/vram_1001", f"{5 * GIB}\n")
    machine.put("sys/class/kfd/kfd/proc/72/vram_1001", "0\n")
    machine.put("sys/class/kfd/kfd/proc/73/vram_9999", f"{GIB}\n")
    assert held(read_memory().gpus[0]) == [(71, "blender", 5 * GIB), (70, "python3", 2 * GIB)]


def test_hidden_processes_are_counted(
    machine: Machine, read_memory: ReadMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernel threads are not counted, and KFD still reports the memory of hidden processes."""
    card(machine).process(1, "init").process(2, "kthreadd", flags=0x208040).process(70, "theirs")
    machine.process(71, "mine").client(71, vram=GIB)
    machine.put("sys/class/kfd/kfd/proc/70/vram_1001", f"{2 * GIB}\n")
    listdir = os.listdir

    def refusing(path: str) -> list[str]:
        if os.fspath(path).endswith(("/1/fd", "/2/fd", "/70/fd")):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refusing)
    found = read_memory()
    assert found.hidden == 2
    assert held(found.gpus[0]) == [(70, "theirs", 2 * GIB), (71, "mine", GIB)]


def test_processes_that_end_while_they_are_examined_are_tolerated(
    machine: Machine, read_memory: ReadMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(machine).process(1, "init").process(71, "stays").client(71, vram=GIB)
    monkeypatch.setattr("rocenv.memory.holders.process_ids", lambda: [1, 70, 71, 72])
    gone = machine.process(72, "goes").path / "proc/72/fd/5"
    os.symlink("/dev/dri/renderD128", gone)  # process 72 looks as if it had just ended
    assert held(read_memory().gpus[0]) == [(71, "stays", GIB)]
    assert read_memory().hidden == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "drm-pdev:\t0000:03:00.0\n",
        "drm-pdev:\t../../etc\ndrm-memory-vram:\t5 KiB\n",
        "drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t-5 KiB\n",
        f"drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t{'9' * 19} KiB\n",
        f"drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t{'9' * 60000} KiB\n",
        "drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\tfive KiB\n",
        "\0" * 5000,
    ],
)
def test_malformed_fdinfo_is_ignored(machine: Machine, read_memory: ReadMemory, text: str) -> None:
    card(machine).process(1, "init").process(70, "odd").opened(70, 5, text)
    assert read_memory().gpus[0].holders == ()


def test_fdinfo_formats_from_several_kernels_are_read() -> None:
    client = parse_fdinfo("pdev:\t0000:03:00.0\npasid:\t32771\nvram mem:\t2048 kB\ngtt mem:\t12 kB\n")  # 5.15
    assert client is not None
    assert (client.address, client.ident, client.vram_bytes, client.gtt_bytes) == (
        "0000:03:00.0",
        "32771",
        2 * MIB,
        12 << 10,
    )
    newest = parse_fdinfo("drm-pdev:\t0000:03:00.0\ndrm-total-vram:\t9 MiB\ndrm-resident-vram:\t3 MiB\n")
    assert newest is not None
    assert newest.vram_bytes == 3 * MIB


def test_process_names_cannot_control_the_terminal(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "init").process(70, "\x1b]0;x\x07\x1b[2J", "a", "\x1b[31m.py").client(
        70, vram=GIB
    )
    machine.process(71, "python3", "python3", "-u", "/x/\x1b[2Jmain.py").client(71, vram=GIB)
    (gpu,) = read_memory().gpus
    assert "\n".join(gpu_lines(gpu)).replace("\n", "").isprintable()
    assert [holder_name(each) for each in gpu.holders][1] == "python3 ?[2Jmain.py"


def test_a_container_ignores_the_hosts_process_ids(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine).process(1, "sh").process(70, "mine")
    (machine.path / "proc/self/ns").mkdir(parents=True)
    os.symlink("pid:[4026532201]", machine.path / "proc/self/ns/pid")
    machine.put("sys/class/kfd/kfd/proc/70/vram_1001", f"{2 * GIB}\n")
    found = read_memory()
    assert found.gpus[0].holders == ()
    assert (found.hidden, found.notes) == (
        None,
        ("rocenv runs in a container and cannot see which processes outside it hold GPU memory",),
    )


def test_hidepid_makes_the_number_of_hidden_processes_unknown(
    machine: Machine, read_memory: ReadMemory
) -> None:
    card(machine).process(70, "mine")
    assert read_memory().hidden is None
    assert "hides" in read_memory().notes[0]


def test_the_system_memory_that_an_apu_uses_is_counted(machine: Machine, read_memory: ReadMemory) -> None:
    apu(machine, vram=GIB, gtt=60 * GIB, ram=120 * GIB)
    machine.process(70, "llama-server").client(70, vram=MIB, gtt=GIB // 2, address="0000:c5:00.0")
    (gpu,) = read_memory().gpus
    assert gpu.held_by(gpu.holders[0]) == GIB // 2 + MIB
    assert STRIX_HALO  # the device ID identifies the APU


@pytest.mark.slow
def test_thousands_of_processes_are_read_quickly(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine)
    for pid in range(1, 2001):
        machine.process(pid, "many")
        for number in range(5):
            os.symlink("/dev/null", machine.path / f"proc/{pid}/fd/{number}")
    begin = time.perf_counter()
    assert read_memory().hidden == 0
    assert time.perf_counter() - begin < 3
    assert process_ids() == list(range(1, 2001))

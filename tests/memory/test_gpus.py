"""Total and free memory on machines with misleading raw counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.memory.amounts import amount, parse_amount
from rocenv.memory.gpus import HipFigure
from tests.host.roots import GIB
from tests.memory.machines import MI300X, MIB, RAPHAEL, RX_6800, RX_7900, Machine, apu, card

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.memory.gpus import GpuMemory, Usage

    ReadMemory = Callable[..., Usage]


def only(found: Usage) -> GpuMemory:
    (gpu,) = found.gpus
    return gpu


def test_a_card_counts_only_its_own_memory(machine: Machine, read_memory: ReadMemory) -> None:
    card(machine)
    gpu = only(read_memory())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, 10 * GIB, 14 * GIB)
    assert (gpu.shared_total_bytes, gpu.shared_used_bytes) == (16 * GIB, GIB // 4)
    assert not gpu.shared_counts
    assert gpu.source == "sysfs"


def test_two_cards_are_matched_by_their_addresses(machine: Machine, read_memory: ReadMemory) -> None:
    machine.kernel().cpu()
    machine.gpu(1, RX_6800, 100300, bus=3, memory=16 * GIB).gpu(2, RX_7900, 110000, bus=4, memory=24 * GIB)
    machine.pools("0000:04:00.0", vram_used=GIB).pools("0000:03:00.0", vram_used=2 * GIB)
    assert [gpu.free_bytes for gpu in read_memory().gpus] == [14 * GIB, 23 * GIB]


def test_an_apu_with_a_small_carve_out_uses_both_pools(machine: Machine, read_memory: ReadMemory) -> None:
    apu(machine, vram=GIB // 2, gtt=60 * GIB, ram=120 * GIB)
    gpu = only(read_memory())
    assert gpu.shared_counts
    assert gpu.total_bytes == 60 * GIB + GIB // 2
    assert gpu.free_bytes == 59 * GIB + GIB * 3 // 8


def test_an_apu_with_a_large_carve_out_uses_only_the_carve_out(
    machine: Machine, read_memory: ReadMemory
) -> None:
    apu(machine, vram=96 * GIB, gtt=16 * GIB, ram=31 * GIB)
    gpu = only(read_memory())
    assert (gpu.total_bytes, gpu.free_bytes, gpu.shared_counts) == (96 * GIB, 72 * GIB, False)


def test_gtt_is_capped_at_system_memory(machine: Machine, read_memory: ReadMemory) -> None:
    """On a Strix Halo with 64 GiB of memory, the kernel allowed the GPU to use 128 GiB."""
    apu(machine, vram=GIB // 2, gtt=128 * GIB, ram=62 * GIB)
    gpu = only(read_memory())
    assert gpu.total_bytes == 62 * GIB + GIB // 2
    assert any(
        "lets the GPU use 128.0 GiB, but the machine has only 62.0 GiB of memory" in note
        for note in gpu.notes
    )


def test_used_system_memory_is_not_free_for_an_apu(machine: Machine, read_memory: ReadMemory) -> None:
    apu(machine, vram=GIB, gtt=30 * GIB, ram=62 * GIB).ram(62 * GIB, 4 * GIB)
    gpu = only(read_memory())
    assert gpu.free_bytes == 4 * GIB + GIB * 3 // 4
    assert any("only 4.0 GiB" in note for note in gpu.notes)


@pytest.mark.parametrize(
    "figures",
    [
        {"vram_used": "lots"},
        {"vram_used": -5},
        {"vram_used": 25 * GIB},
        {"vram_used": 10**30},
        {"vram_used": "1" * 70000},
        {"vram_used": "\x1b[31m7"},
    ],
)
def test_inconsistent_figures_are_treated_as_unknown(
    machine: Machine, read_memory: ReadMemory, figures: dict[str, object]
) -> None:
    card(machine).pools("0000:03:00.0", **figures)
    gpu = only(read_memory())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, None, None)
    assert any("inconsistent" in note for note in gpu.notes)
    assert gpu.unexplained_bytes is None


def test_free_memory_is_unknown_without_the_driver(machine: Machine, read_memory: ReadMemory) -> None:
    machine.put("proc/version", "Linux version 6.8.0 (x@y) #1\n")
    machine.card("0000:03:00.0", RX_7900, driver="")
    gpu = only(read_memory())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes, gpu.source) == (None, None, None, "")
    assert any("does not report" in note for note in gpu.notes)


def test_the_memory_of_a_board_is_divided_among_its_partitions(
    machine: Machine, read_memory: ReadMemory
) -> None:
    machine.kernel().cpu()
    for partition in range(8):
        machine.gpu(partition + 2, MI300X, 90402, units=38, bus=5, partition=partition, memory=24 * GIB)
    machine.pools("0000:05:00.0", vram_total=192 * GIB, vram_used=50 * GIB)
    found = read_memory()
    assert [gpu.total_bytes for gpu in found.gpus] == [24 * GIB] * 8
    assert {(gpu.used_bytes, gpu.free_bytes) for gpu in found.gpus} == {(None, None)}
    assert all("per board (50.0 GiB in use)" in gpu.notes[0] for gpu in found.gpus)


def test_an_unknown_gpu_does_not_affect_a_known_one(machine: Machine, read_memory: ReadMemory) -> None:
    machine.kernel().cpu().gpu(1, 0x9999, None, bus=3, memory=8 * GIB)
    machine.gpu(2, RAPHAEL, 100306, units=2, bus=0x10, memory=GIB // 2, gtt=15 * GIB)
    machine.pools("0000:03:00.0", vram_used=GIB).pools("0000:10:00.0", vram_used=0, gtt_used=0)
    machine.ram(31 * GIB, 20 * GIB)
    assert [gpu.free_bytes for gpu in read_memory().gpus] == [7 * GIB, 15 * GIB + GIB // 2]


def test_gpus_set_by_rocenv_target_have_no_memory_figures(
    machine: Machine, read_memory: ReadMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(machine)
    monkeypatch.setenv("ROCENV_TARGET", "gfx1201")
    found = read_memory()
    assert only(found).free_bytes is None
    assert "ROCENV_TARGET" in found.notes[0]


class TestHip:
    """Figures from HIP and the kernel. rocenv uses the smaller one and explains the difference in a note."""

    def test_memory_that_the_desktop_uses_and_hip_ignores_is_subtracted(
        self, machine: Machine, read_memory: ReadMemory
    ) -> None:
        gpu = only(with_hip(card(machine), read_memory, free=23 * GIB, total=24 * GIB))
        assert gpu.free_bytes == 14 * GIB
        assert any("9.0 GiB more free memory because it ignores the desktop" in note for note in gpu.notes)

    def test_memory_that_hip_reserves_is_subtracted(self, machine: Machine, read_memory: ReadMemory) -> None:
        gpu = only(with_hip(card(machine), read_memory, free=13 * GIB, total=24 * GIB))
        assert gpu.free_bytes == 13 * GIB
        assert any("1.0 GiB less" in note for note in gpu.notes)
        assert gpu.source == "sysfs and HIP"

    def test_a_small_difference_between_hip_and_the_kernel_causes_no_note(
        self, machine: Machine, read_memory: ReadMemory
    ) -> None:
        gpu = only(with_hip(card(machine), read_memory, free=14 * GIB + 10 * MIB, total=24 * GIB))
        assert (gpu.free_bytes, gpu.notes) == (14 * GIB, ())

    def test_free_memory_that_exceeds_the_total_is_ignored(
        self, machine: Machine, read_memory: ReadMemory
    ) -> None:
        """On a Strix Halo, HIP reported 120 GiB free out of a total of 62 GiB."""
        apu(machine, vram=GIB // 2, gtt=60 * GIB, ram=120 * GIB)
        before = only(read_memory())
        gpu = only(read_memory({0: HipFigure(free_bytes=120 * GIB, total_bytes=62 * GIB)}))
        assert gpu.free_bytes == before.free_bytes
        assert any("inconsistent" in note for note in gpu.notes)

    def test_memory_reported_by_hip_is_used_if_the_kernel_reports_none(
        self, machine: Machine, read_memory: ReadMemory
    ) -> None:
        machine.kernel().cpu().gpu(1, RX_7900, 110000, bus=3, memory=24 * GIB)
        gpu = only(read_memory({0: HipFigure(free_bytes=20 * GIB, total_bytes=24 * GIB)}))
        assert (gpu.free_bytes, gpu.used_bytes) == (20 * GIB, None)
        assert any("ignores the desktop and games" in note for note in gpu.notes)

    def test_a_hip_figure_for_a_different_gpu_is_ignored(
        self, machine: Machine, read_memory: ReadMemory
    ) -> None:
        card(machine)
        assert only(read_memory({1: HipFigure(free_bytes=1, total_bytes=2)})).hip is None


def with_hip(_machine: Machine, read_memory: ReadMemory, *, free: int, total: int) -> Usage:
    return read_memory({0: HipFigure(free_bytes=free, total_bytes=total)})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8 * GIB),
        ("8G", 8 * GIB),
        ("8 gb", 8 * GIB),
        ("7.5GiB", 15 * GIB // 2),
        ("900MiB", 900 * MIB),
        ("1024k", MIB),
        ("512B", 512),
        ("0", None),
        ("-1", None),
        ("", None),
        ("8XB", None),
        ("9" * 40, None),
        ("999999T", None),
        ("8GiB\x1b", None),
    ],
)
def test_amounts_of_memory_are_parsed(text: str, size: int | None) -> None:
    assert parse_amount(text) == size


def test_amounts_of_memory_are_formatted() -> None:
    assert [amount(size) for size in (None, 0, 2048, 3 * MIB, 16 * GIB)] == [
        "?",
        "0",
        "2 KiB",
        "3 MiB",
        "16.0 GiB",
    ]

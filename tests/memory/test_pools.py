"""How much memory there is and how much of it is free, on machines that mislead a simple look."""

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

    Seen = Callable[..., Usage]


def only(found: Usage) -> GpuMemory:
    (gpu,) = found.gpus
    return gpu


def test_a_card_counts_its_own_memory_alone(machine: Machine, seen: Seen) -> None:
    card(machine)
    gpu = only(seen())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, 10 * GIB, 14 * GIB)
    assert (gpu.shared_total_bytes, gpu.shared_used_bytes) == (16 * GIB, GIB // 4)
    assert not gpu.shared_counts
    assert gpu.source == "sysfs"


def test_two_cards_are_told_apart_by_their_place(machine: Machine, seen: Seen) -> None:
    machine.kernel().cpu()
    machine.gpu(1, RX_6800, 100300, bus=3, memory=16 * GIB).gpu(2, RX_7900, 110000, bus=4, memory=24 * GIB)
    machine.pools("0000:04:00.0", vram_used=GIB).pools("0000:03:00.0", vram_used=2 * GIB)
    assert [gpu.free_bytes for gpu in seen().gpus] == [14 * GIB, 23 * GIB]


def test_an_apu_with_a_small_carve_out_computes_in_both_pools(machine: Machine, seen: Seen) -> None:
    apu(machine, vram=GIB // 2, gtt=60 * GIB, ram=120 * GIB)
    gpu = only(seen())
    assert gpu.shared_counts
    assert gpu.total_bytes == 60 * GIB + GIB // 2
    assert gpu.free_bytes == 59 * GIB + GIB * 3 // 8


def test_an_apu_with_a_large_carve_out_has_that_and_no_more(machine: Machine, seen: Seen) -> None:
    apu(machine, vram=96 * GIB, gtt=16 * GIB, ram=31 * GIB)
    gpu = only(seen())
    assert (gpu.total_bytes, gpu.free_bytes, gpu.shared_counts) == (96 * GIB, 72 * GIB, False)


def test_the_kernels_word_for_gtt_ends_at_the_machines_memory(machine: Machine, seen: Seen) -> None:
    """A Strix Halo said that it may use 128 GiB of a machine that had half of that."""
    apu(machine, vram=GIB // 2, gtt=128 * GIB, ram=62 * GIB)
    gpu = only(seen())
    assert gpu.total_bytes == 62 * GIB + GIB // 2
    assert any("lets the GPU use 128.0 GiB, but the machine has only 62.0 GiB" in note for note in gpu.notes)


def test_what_programs_of_the_cpu_have_taken_is_not_free_for_an_apu(machine: Machine, seen: Seen) -> None:
    apu(machine, vram=GIB, gtt=30 * GIB, ram=62 * GIB).ram(62 * GIB, 4 * GIB)
    gpu = only(seen())
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
def test_a_figure_that_cannot_be_is_not_known(
    machine: Machine, seen: Seen, figures: dict[str, object]
) -> None:
    card(machine).pools("0000:03:00.0", **figures)
    gpu = only(seen())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, None, None)
    assert any("inconsistent" in note for note in gpu.notes)
    assert gpu.unexplained_bytes is None


def test_without_the_driver_nothing_is_said_to_be_free(machine: Machine, seen: Seen) -> None:
    machine.put("proc/version", "Linux version 6.8.0 (x@y) #1\n")
    machine.card("0000:03:00.0", RX_7900, driver="")
    gpu = only(seen())
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes, gpu.source) == (None, None, None, "")
    assert any("does not say" in note for note in gpu.notes)


def test_partitions_do_not_have_the_boards_memory_each(machine: Machine, seen: Seen) -> None:
    machine.kernel().cpu()
    for partition in range(8):
        machine.gpu(partition + 2, MI300X, 90402, units=38, bus=5, partition=partition, memory=24 * GIB)
    machine.pools("0000:05:00.0", vram_total=192 * GIB, vram_used=50 * GIB)
    found = seen()
    assert [gpu.total_bytes for gpu in found.gpus] == [24 * GIB] * 8
    assert {(gpu.used_bytes, gpu.free_bytes) for gpu in found.gpus} == {(None, None)}
    assert all("whole board (50.0 GiB in use)" in gpu.notes[0] for gpu in found.gpus)


def test_an_unknown_gpu_beside_a_known_one(machine: Machine, seen: Seen) -> None:
    machine.kernel().cpu().gpu(1, 0x9999, None, bus=3, memory=8 * GIB)
    machine.gpu(2, RAPHAEL, 100306, units=2, bus=0x10, memory=GIB // 2, gtt=15 * GIB)
    machine.pools("0000:03:00.0", vram_used=GIB).pools("0000:10:00.0", vram_used=0, gtt_used=0)
    machine.ram(31 * GIB, 20 * GIB)
    assert [gpu.free_bytes for gpu in seen().gpus] == [7 * GIB, 15 * GIB + GIB // 2]


def test_named_targets_are_not_this_machines_gpus(
    machine: Machine, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(machine)
    monkeypatch.setenv("ROCENV_TARGET", "gfx1201")
    found = seen()
    assert only(found).free_bytes is None
    assert "ROCENV_TARGET" in found.notes[0]


class TestHip:
    """The smaller of both figures counts, and why they differ is said."""

    def test_it_does_not_see_the_desktop(self, machine: Machine, seen: Seen) -> None:
        gpu = only(seen_with(card(machine), seen, free=23 * GIB, total=24 * GIB))
        assert gpu.free_bytes == 14 * GIB
        assert any("9.0 GiB more than is free: it does not count the desktop" in note for note in gpu.notes)

    def test_it_keeps_some_for_itself(self, machine: Machine, seen: Seen) -> None:
        gpu = only(seen_with(card(machine), seen, free=13 * GIB, total=24 * GIB))
        assert gpu.free_bytes == 13 * GIB
        assert any("1.0 GiB less" in note for note in gpu.notes)
        assert gpu.source == "sysfs and HIP"

    def test_a_small_difference_needs_no_words(self, machine: Machine, seen: Seen) -> None:
        gpu = only(seen_with(card(machine), seen, free=14 * GIB + 10 * MIB, total=24 * GIB))
        assert (gpu.free_bytes, gpu.notes) == (14 * GIB, ())

    def test_more_free_than_there_is(self, machine: Machine, seen: Seen) -> None:
        """As a Strix Halo said: 120 GiB of 62 free."""
        apu(machine, vram=GIB // 2, gtt=60 * GIB, ram=120 * GIB)
        before = only(seen())
        gpu = only(seen({0: HipFigure(free_bytes=120 * GIB, total_bytes=62 * GIB)}))
        assert gpu.free_bytes == before.free_bytes
        assert any("inconsistent" in note for note in gpu.notes)

    def test_it_is_all_there_is_where_the_kernel_says_nothing(self, machine: Machine, seen: Seen) -> None:
        machine.kernel().cpu().gpu(1, RX_7900, 110000, bus=3, memory=24 * GIB)
        gpu = only(seen({0: HipFigure(free_bytes=20 * GIB, total_bytes=24 * GIB)}))
        assert (gpu.free_bytes, gpu.used_bytes) == (20 * GIB, None)
        assert any("neither the desktop nor games" in note for note in gpu.notes)

    def test_the_figure_of_another_gpu_is_not_taken(self, machine: Machine, seen: Seen) -> None:
        card(machine)
        assert only(seen({1: HipFigure(free_bytes=1, total_bytes=2)})).hip is None


def seen_with(_machine: Machine, seen: Seen, *, free: int, total: int) -> Usage:
    return seen({0: HipFigure(free_bytes=free, total_bytes=total)})


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
def test_amounts_as_people_write_them(text: str, size: int | None) -> None:
    assert parse_amount(text) == size


def test_amounts_as_people_read_them() -> None:
    assert [amount(size) for size in (None, 0, 2048, 3 * MIB, 16 * GIB)] == [
        "?",
        "0",
        "2 KiB",
        "3 MiB",
        "16.0 GiB",
    ]

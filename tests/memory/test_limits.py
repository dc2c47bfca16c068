"""Limits of the allocation test, and the number of steps in its search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.host import Gpu
from rocenv.memory.gpus import GpuMemory, HipFigure, MachineMemory, drives_display
from rocenv.memory.probe import UNIT_BYTES, bound_of, largest_working, parse_limit, resolution_of

if TYPE_CHECKING:
    from rocenv.memory.probe import Bound

GIB, MIB = 1 << 30, 1 << 20
CARD = Gpu(source="test", target="gfx1100", integrated=False)
APU = Gpu(source="test", target="gfx1151", integrated=True)


class TestBisection:
    @given(bound=st.integers(1, 200 * 1024), end=st.integers(0, 200 * 1024 * MIB))
    def test_the_result_is_precise_after_a_few_steps(self, bound: int, end: int) -> None:
        tried: list[int] = []

        def works(size: int) -> bool:
            tried.append(size)
            return size <= end

        size = largest_working(bound * MIB, works)
        resolution = resolution_of(bound * MIB)
        can = min(end, bound * MIB)
        assert can - max(resolution, UNIT_BYTES) < size <= can
        assert all(each % UNIT_BYTES == 0 and 0 < each <= bound * MIB for each in tried)
        assert len(tried) == len(set(tried)), "the search requests every amount only once"
        assert tried[0] == bound * MIB
        # If every size down to the resolution fails, the search tries smaller ones.
        parts = math.ceil(math.log2(bound * MIB / resolution + 1)) + 1
        assert len(tried) <= parts + (11 if not size or size < resolution else 0)


def bound(memory: GpuMemory, machine: MachineMemory | None = None, limit: str = "", **how: bool) -> Bound:
    return bound_of(
        memory,
        machine or MachineMemory(),
        display=how.get("display"),
        windows=how.get("windows", False),
        limit=parse_limit(limit) if limit else None,
        total=16 * GIB,
    )


class TestCards:
    def test_no_memory_is_reserved_on_an_idle_card_without_a_display(self) -> None:
        memory = GpuMemory(gpu=CARD, total_bytes=16 * GIB, free_bytes=15 * GIB, used_bytes=30 * MIB)
        found = bound(memory, MachineMemory(total=4 * GIB, available=GIB), display=False)
        assert (found.size_bytes, found.reasons) == (15 * GIB, ())

    @pytest.mark.parametrize(("total", "reserve"), [(8, 512 * MIB), (48, int(48 * GIB * 0.05))])
    def test_a_fraction_and_at_least_half_a_gib_is_reserved_for_a_display(
        self, total: int, reserve: int
    ) -> None:
        memory = GpuMemory(gpu=CARD, total_bytes=total * GIB, free_bytes=7 * GIB, source="the kernel")
        found = bound(memory, display=True)
        assert 7 * GIB - reserve - UNIT_BYTES < found.size_bytes <= 7 * GIB - reserve

    @pytest.mark.parametrize("used", [6 * GIB, None])
    def test_a_fraction_of_the_memory_is_reserved_for_programs_on_a_card(self, used: int | None) -> None:
        memory = GpuMemory(gpu=CARD, total_bytes=16 * GIB, free_bytes=10 * GIB, used_bytes=used)
        found = bound(memory, display=False)
        assert found.size_bytes <= 10 * GIB - int(0.05 * 16 * GIB)
        assert "use it" in found.reasons[0]

    def test_a_percentage_as_limit_is_relative_to_free_memory(self) -> None:
        memory = GpuMemory(gpu=CARD, total_bytes=16 * GIB, free_bytes=10 * GIB, source="the kernel")
        assert bound(memory, limit="50%", display=False).size_bytes == 5 * GIB


class TestApus:
    """APUs, which use system memory."""

    def test_allocating_on_an_apu_leaves_some_system_memory_free(self) -> None:
        memory = GpuMemory(
            gpu=APU,
            total_bytes=65 * GIB,
            free_bytes=64 * GIB,
            vram_total_bytes=GIB,
            shared_total_bytes=64 * GIB,
            shared_counts=True,
            source="the kernel",
        )
        machine = MachineMemory(total=64 * GIB, available=12 * GIB)
        found = bound(memory, machine, display=False)
        assert 12 * GIB - 6.5 * GIB < found.size_bytes <= 12 * GIB - 6.4 * GIB
        assert any("12.0 GiB is available" in reason for reason in found.reasons)

    def test_memory_reserved_by_the_bios_is_not_system_memory(self) -> None:
        memory = GpuMemory(
            gpu=APU,
            total_bytes=96 * GIB,
            free_bytes=90 * GIB,
            used_bytes=100 * MIB,
            vram_total_bytes=96 * GIB,
            shared_total_bytes=16 * GIB,
            source="the kernel",
        )
        machine = MachineMemory(total=32 * GIB, available=8 * GIB)
        assert bound(memory, machine, display=False).size_bytes == 90 * GIB

    def test_free_memory_reported_by_hip_is_capped_at_system_memory(self) -> None:
        """In a container without sysfs, HIP reported 120 GiB of free memory."""
        memory = GpuMemory(gpu=APU, total_bytes=62 * GIB, free_bytes=60 * GIB, source="HIP")
        machine = MachineMemory(total=128 * GIB, available=20 * GIB)
        assert bound(memory, machine, display=False).size_bytes < 8 * GIB


class TestWindows:
    def test_the_windows_memory_budget_limits_the_test(self) -> None:
        memory = GpuMemory(
            gpu=CARD,
            total_bytes=24 * GIB,
            free_bytes=9 * GIB,
            budget_bytes=10 * GIB,
            hip=HipFigure(free_bytes=int(23.8 * GIB), total_bytes=24 * GIB),
            source="DXGI and HIP",
        )
        assert bound(memory, windows=True).size_bytes < 9 * GIB

    def test_the_limit_defaults_to_a_fraction_of_vram_if_windows_reports_no_budget(self) -> None:
        memory = GpuMemory(gpu=CARD, total_bytes=16 * GIB, free_bytes=int(15.9 * GIB), source="HIP")
        found = bound(memory, windows=True)
        assert found.size_bytes <= 0.8 * 16 * GIB
        assert any("the free memory is unknown" in reason for reason in found.reasons)


@given(
    integrated=st.sampled_from([True, False, None]),
    total=st.one_of(st.none(), st.integers(0, 200 * GIB)),
    free=st.one_of(st.none(), st.integers(0, 200 * GIB)),
    available=st.one_of(st.none(), st.integers(0, 200 * GIB)),
    shared=st.booleans(),
    display=st.sampled_from([True, False, None]),
    windows=st.booleans(),
    limit=st.sampled_from(["", "1MiB", "6GiB", "0.001%", "100%", "1024TiB"]),
)
def test_the_upper_bound_never_exceeds_free_memory(
    integrated: bool | None,
    total: int | None,
    free: int | None,
    available: int | None,
    shared: bool,
    display: bool | None,
    windows: bool,
    limit: str,
) -> None:
    gpu = Gpu(source="test", integrated=integrated)
    memory = GpuMemory(gpu=gpu, total_bytes=total, free_bytes=free, shared_counts=shared, source="the kernel")
    found = bound_of(
        memory,
        MachineMemory(total=available, available=available),
        display=display,
        windows=windows,
        limit=parse_limit(limit) if limit else None,
        total=16 * GIB,
    )
    assert found.size_bytes >= 0
    assert found.size_bytes % UNIT_BYTES == 0
    assert free is None or found.size_bytes <= free
    if shared and available is not None:
        assert found.size_bytes <= max(0, available - 2 * GIB)
    if display is not False:
        assert found.size_bytes <= max(0, found.free_bytes - 512 * MIB)
    wanted = parse_limit(limit) if limit else 1.0
    assert isinstance(wanted, float) or found.size_bytes <= wanted


@pytest.mark.parametrize("text", ["6GiB", "6 gib", "6G", "6GB", "6"])
def test_limits_can_be_amounts_or_percentages(text: str) -> None:
    assert parse_limit(text) == 6 * GIB


@pytest.mark.parametrize("text", ["8B", "1023k", "1048575B"])
def test_a_limit_below_the_smallest_block_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="1 MiB"):
        parse_limit(text)


def test_a_gpu_without_a_pci_address_may_drive_a_display() -> None:
    assert drives_display(Gpu(source="test")) is None

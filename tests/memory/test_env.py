"""Tests for matching HIP's GPUs with the machine's GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocenv.host import Gpu
from rocenv.memory.amounts import ranges
from rocenv.memory.env import match_gpu
from rocenv.probe.wire import HipGpu

HERE, THERE = "0000:03:00.0", "0000:07:00.0"


def hip_gpu(**more: Any) -> HipGpu:
    values = {
        "ordinal": 0,
        "name": "x",
        "target": "gfx1100",
        "address": HERE,
        "free_bytes": 1,
        "total_bytes": 2,
    }
    return HipGpu(**{**values, **more})


def gpus(*addresses: str, target: str = "gfx1100") -> list[Gpu]:
    return [
        Gpu(source="test", target=target, address=address, index=index, hip_index=index)
        for index, address in enumerate(addresses)
    ]


def index_of(listed: HipGpu, there: list[Gpu]) -> int | None:
    found = match_gpu(listed, there)
    return found.index if found else None


def test_the_pci_address_takes_precedence_over_the_device_number() -> None:
    assert index_of(hip_gpu(ordinal=0, address=THERE), gpus(HERE, THERE)) == 1


def test_an_unknown_pci_address_matches_no_gpu() -> None:
    assert index_of(hip_gpu(address="0000:99:00.0"), gpus(HERE)) is None
    assert index_of(hip_gpu(address="0000:99:00.0"), gpus(HERE, THERE)) is None


def test_partitions_are_matched_by_order() -> None:
    there = gpus(THERE, HERE, HERE, HERE)
    found = [index_of(hip_gpu(ordinal=9, alike=3, before=place), there) for place in range(3)]
    assert found == [1, 2, 3]


@pytest.mark.parametrize("alike", [1, 2, 4])
def test_an_incomplete_list_of_partitions_does_not_match_any_gpu(alike: int) -> None:
    assert index_of(hip_gpu(alike=alike), gpus(HERE, HERE, HERE)) is None


def test_the_device_number_is_the_last_resort() -> None:
    """HIP does not always report the address, and never does on Windows."""
    assert index_of(hip_gpu(ordinal=1, address=""), gpus(HERE, THERE)) == 1
    assert index_of(hip_gpu(ordinal=1), gpus("", "")) == 1


def test_a_unique_target_identifies_the_gpu() -> None:
    other = [replace(gpu, target="gfx1036") for gpu in gpus("")]
    own = [replace(gpu, index=1, hip_index=1) for gpu in gpus("")]
    assert index_of(hip_gpu(ordinal=0), [*other, *own]) == 1
    assert index_of(hip_gpu(ordinal=0), other) is None


def test_ranges_of_numbers_are_shortened() -> None:
    assert ranges(range(63)) == "0-62"
    assert ranges([0, 1, 3, 7, 8, 9]) == "0-1, 3, 7-9"
    assert ranges([4]) == "4"

"""Which GPU HIP's word is about: by its place, and where that is not enough, not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocenv.host import Gpu
from rocenv.memory.amounts import ranges
from rocenv.memory.env import match_gpu
from rocenv.probe.wire import HipGpu

HERE, THERE = "0000:03:00.0", "0000:07:00.0"


def seen(**more: Any) -> HipGpu:
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


def index_of(said: HipGpu, there: list[Gpu]) -> int | None:
    found = match_gpu(said, there)
    return found.index if found else None


def test_a_place_counts_and_not_the_number() -> None:
    assert index_of(seen(ordinal=0, address=THERE), gpus(HERE, THERE)) == 1


def test_a_place_that_nothing_is_at_is_no_other_gpu() -> None:
    assert index_of(seen(address="0000:99:00.0"), gpus(HERE)) is None
    assert index_of(seen(address="0000:99:00.0"), gpus(HERE, THERE)) is None


def test_partitions_of_a_board_go_by_their_order() -> None:
    there = gpus(THERE, HERE, HERE, HERE)
    found = [index_of(seen(ordinal=9, alike=3, before=place), there) for place in range(3)]
    assert found == [1, 2, 3]


@pytest.mark.parametrize("alike", [1, 2, 4])
def test_some_partitions_of_a_board_may_be_any(alike: int) -> None:
    assert index_of(seen(alike=alike), gpus(HERE, HERE, HERE)) is None


def test_the_number_is_the_last_resort() -> None:
    """Of HIP that does not say where, and of Windows, where nothing is told of places."""
    assert index_of(seen(ordinal=1, address=""), gpus(HERE, THERE)) == 1
    assert index_of(seen(ordinal=1), gpus("", "")) == 1


def test_a_target_may_be_enough_and_another_one_is_never_it() -> None:
    other = [replace(gpu, target="gfx1036") for gpu in gpus("")]
    own = [replace(gpu, index=1, hip_index=1) for gpu in gpus("")]
    assert index_of(seen(ordinal=0), [*other, *own]) == 1
    assert index_of(seen(ordinal=0), other) is None


def test_numbers_as_people_write_them() -> None:
    assert ranges(range(63)) == "0-62"
    assert ranges([0, 1, 3, 7, 8, 9]) == "0-1, 3, 7-9"
    assert ranges([4]) == "4"

"""The targets themselves, without atheris: `scripts/fuzz` lets it loose on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz.reading import TooMuch, read
from tests.fuzz.targets import TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_accepts_its_seeds(name: str) -> None:
    """Mutations of what is refused at once would be refused at once as well."""
    seeds = TARGETS[name].seeds()
    assert seeds
    assert [why for seed in seeds if (why := read(name, seed))] == []
    assert all(len(seed) < 40_000 for seed in seeds)


def test_a_target_finds_what_no_reader_may_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_data: bytes, _folder: Path) -> None:
        raise KeyError("x")

    monkeypatch.setitem(TARGETS, "broken", Target(broken, list))
    monkeypatch.setitem(TARGETS, "greedy", Target(lambda _data, _folder: None, list))
    with pytest.raises(KeyError):
        read("broken", b"")
    monkeypatch.setattr("tests.fuzz.reading._peak_mb", iter([0, 400, 400]).__next__)
    with pytest.raises(TooMuch, match="400 MB for 1 bytes"):
        read("greedy", b"x")

"""Bars and lines, in characters that the terminal has."""

from __future__ import annotations

import pytest

from rocenv.commands.mem_show import bar, can_draw, graph


@pytest.mark.parametrize(
    ("part", "whole", "drawn"),
    [(0, 8, "...."), (8, 8, "####"), (4, 8, "##.."), (1, 1000, "#..."), (999, 1000, "###."), (9, 8, "####")],
)
def test_a_bar_is_full_only_where_all_is(part: float, whole: float, drawn: str) -> None:
    assert bar(part, whole, 4, blocks=False) == drawn


def test_a_bar_of_nothing() -> None:
    assert bar(0, 0, 4, blocks=False) == "...."


def test_a_line_shows_the_last_looks_and_gaps() -> None:
    assert graph([0.0, 1.0, None, 0.5], 3, blocks=True) == "█ ▅"
    assert graph([0.0], 3, blocks=False) == "  _"
    assert graph([7.0, -1.0], 2, blocks=False) == "#_"


def test_blocks_only_where_they_can_be_shown() -> None:
    assert can_draw("utf-8")
    assert not any(map(can_draw, ("ascii", "cp1252", "latin-1", None, "no such thing")))

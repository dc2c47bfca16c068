"""Targets, products and code names that `--target` accepts."""

from __future__ import annotations

import pytest

from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.host.products import target_meant


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gfx1031", "gfx1031"),
        (" GFX1100 ", "gfx1100"),
        ("1100", "gfx1100"),
        ("gfx9999", "gfx9999"),
        ("RX 6750 XT", "gfx1031"),
        ("6750xt", "gfx1031"),
        ("AMD Radeon(TM) 780M", "gfx1103"),
        ("strix halo", "gfx1151"),
        ("Radeon 8060S", "gfx1151"),
        ("Steam Deck", "gfx1033"),
        ("navi31", "gfx1100"),
        ("1002:73BF", "gfx1030"),
        ("RX 6700", "gfx1031"),
        ("6700S", "gfx1032"),
        ("MI8", "gfx803"),
        ("rx 9070", "gfx1201"),
    ],
)
def test_each_name_refers_to_one_target(text: str, target: str) -> None:
    assert target_meant(text, load()) == target


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strix", "`--target gfx1151`: "),
        ("gfx90a:xnack-", "leave out `:xnack-`"),
        ("RX 9700 XT", "did you mean `"),
        ("GeForce RTX 4090", "name a target"),
        ("", "name a target"),
        ("RX", "name a target"),
        ("((", "name a target"),
    ],
)
def test_other_names_are_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(RocenvError) as caught:
        target_meant(text, load())
    assert caught.value.code == "target-unknown"
    assert any(each.startswith(hint) for each in caught.value.hints), caught.value.hints

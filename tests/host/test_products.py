"""Targets, products and code names that `--target` accepts."""

from __future__ import annotations

import pytest

from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.host.products import target_meant, unsupported


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
        ("Ryzen AI Max+ 395", "gfx1151"),
        ("AMD RYZEN AI MAX+ PRO 395 w/ Radeon 8060S", "gfx1151"),
        ("HX 370", "gfx1150"),
        ("Ryzen AI 7 350", "gfx1152"),
        ("Ryzen 7 8845HS", "gfx1103"),
        ("7840u", "gfx1103"),
        ("Ryzen 7 5700G", "gfx90c"),
        ("Ryzen 9 7945HX", "gfx1036"),
        ("Ryzen 7 7800X3D", "gfx1036"),
    ],
)
def test_each_name_refers_to_one_target(text: str, target: str) -> None:
    assert target_meant(text, load()) == target


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strix", "`--target gfx1151`: "),
        ("Ryzen AI 5 330", "`--target gfx1153`: "),
        ("Ryzen 7 5700X", "specify a target"),
        ("gfx90a:xnack-", "leave out `:xnack-`"),
        ("GeForce RTX 4090", "specify a target"),
        ("", "specify a target"),
        ("RX", "specify a target"),
        ("((", "specify a target"),
    ],
)
def test_names_that_match_no_product_are_rejected_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(RocenvError) as caught:
        target_meant(text, load())
    assert caught.value.code == "target-unknown"
    assert any(each.startswith(hint) for each in caught.value.hints), caught.value.hints


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("RX 9700 XT", "Radeon RX 9070 XT"),
        ("rx6750tx", "Radeon RX 6750 XT"),
        ("8060", "Radeon 8060S"),
        ("RX7900", "Radeon RX 7900 XTX"),
        ("gfx1101x", "gfx1101"),
        ("RX 7990 XTX", ""),  # a similar spelling is not enough
        ("Ryzen 7 5700X", ""),  # a CPU, not the RX 5700 XT
    ],
)
def test_a_misspelled_product_gets_a_suggestion(text: str, meant: str) -> None:
    with pytest.raises(RocenvError) as caught:
        target_meant(text, load())
    suggested = [hint for hint in caught.value.hints if hint.startswith("did you mean")]
    assert suggested == ([f"did you mean `{meant}`?"] if meant else [])
    assert not meant or target_meant(meant, load()) in load().targets


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("HD 7870", "ROCm never supported GCN 1"),
        ("AMD Radeon (TM) R9 280X", "ROCm never supported GCN 1"),
        ("1002:6818", "ROCm never supported GCN 1"),
        ("R9 390X", "ROCm does not support GCN 2"),
        ("hd 7790", "ROCm does not support GCN 2"),
    ],
)
def test_the_error_for_an_unsupported_card_says_what_works(text: str, why: str) -> None:
    with pytest.raises(RocenvError, match=why) as caught:
        target_meant(text, load())
    assert caught.value.code == "gpu-unsupported"
    assert caught.value.hints[0].startswith("Vulkan programs can use it")


def test_no_supported_product_matches_a_pattern_for_unsupported_cards() -> None:
    matrix = load()
    for row in matrix.pci:
        for name in (row.device, *row.products):
            assert unsupported(name, matrix) is None, name

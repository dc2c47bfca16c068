"""What a compiler made is looked into before an app is given it."""

from __future__ import annotations

import random

import pytest

from rocenv.core.errors import RocenvError
from rocenv.data.recipes import CodeObjects
from rocenv.kernels.check import check
from tests.kernels.code import NUMBERS, bundle, code_object, kernels

ROWS = (
    CodeObjects(
        elf_machine=224, mask=0xFF, numbers=NUMBERS, status="tested", source="here", checked="2026-11-22"
    ),
)


def test_each_kernel_counts_once_though_two_tables_name_it() -> None:
    checked = check(kernels("gfx1201", 75), "gfx1201", ROWS)
    assert (checked.kernels, checked.flags) == (75, 0x4E)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (kernels("gfx1100"), "no code for gfx1201, but for"),
        (bundle("gfx1201", code_object(["k.kd"], NUMBERS["gfx1100"])), "for gfx1100, not for gfx1201"),
        (bundle("gfx1201", code_object(["k.kd"], 0x4E, machine=62)), "for the machine 62"),
        (bundle("gfx1201", code_object(["main"], 0x4E)), "no kernel"),
        (b"", "neither"),
        (b"ELF, honestly", "neither"),
        (b"__CLANG_OFFLOAD_BUNDLE__", "is not readable"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 64, "cut short"),
        (kernels("gfx1201")[:-1], "cut short"),
    ],
)
def test_what_is_no_kernel_for_the_target_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(RocenvError, match=says):
        check(content, "gfx1201", ROWS)


def test_damage_anywhere_ends_in_an_error_or_a_count() -> None:
    dice = random.Random(7)
    whole = kernels("gfx1201", 3)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(4):
            content[dice.randrange(len(content))] = dice.randrange(256)
        try:
            assert check(bytes(content), "gfx1201", ROWS).kernels > 0
        except RocenvError as error:
            assert error.code == "kernels-bad-result"


def test_a_target_of_no_known_number_passes() -> None:
    checked = check(bundle("gfx1999", code_object(["k.kd"], 0x77)), "gfx1999", ROWS)
    assert checked.flags == 0x77

"""Checking the compiler's output."""

from __future__ import annotations

import random

import pytest

from rocenv.core.errors import RocenvError
from rocenv.data.recipes import CodeObjects
from rocenv.kernels.compile import check
from tests.kernels.code import NUMBERS, bundle, code_object, kernels

ROWS = (
    CodeObjects(
        elf_machine=224, mask=0xFF, numbers=NUMBERS, status="tested", source="here", checked="2026-11-22"
    ),
)


def test_kernel_in_both_symbol_tables_is_counted_once() -> None:
    checked = check(kernels("gfx1201", 75), "gfx1201", ROWS)
    assert (checked.kernels, checked.flags) == (75, 0x4E)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (kernels("gfx1100"), "no code for gfx1201, only for"),
        (bundle("gfx1201", code_object(["k.kd"], NUMBERS["gfx1100"])), "for gfx1100, not for gfx1201"),
        (bundle("gfx1201", code_object(["k.kd"], 0x4E, machine=62)), "its ELF machine is 62"),
        (bundle("gfx1201", code_object(["main"], 0x4E)), "does not contain a kernel"),
        (b"", "neither"),
        (b"ELF, honestly", "neither"),
        (b"__CLANG_OFFLOAD_BUNDLE__", "cannot be read"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 64, "truncated"),
        (kernels("gfx1201")[:-1], "truncated"),
    ],
)
def test_output_without_a_kernel_for_the_target_is_rejected(content: bytes, says: str) -> None:
    with pytest.raises(RocenvError, match=says):
        check(content, "gfx1201", ROWS)


def test_damaged_code_object_raises_only_the_expected_error() -> None:
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


def test_target_without_a_known_elf_number_is_accepted() -> None:
    checked = check(bundle("gfx1999", code_object(["k.kd"], 0x77)), "gfx1999", ROWS)
    assert checked.flags == 0x77

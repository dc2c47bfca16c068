"""Untrusted values from logs in messages and commands."""

from __future__ import annotations

import pytest

from rocenv.data.remedies import filled, steps
from rocenv.data.rules import Remedy, Text


def both(text: str) -> Text:
    return Text(en=text, zh=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for {gfx}", "for gfx1031"),
        ("for {gpu|your GPU}", "for your GPU"),
        ("for {gpu}", None),
        ('json {"a": 1}', 'json {"a": 1}'),
        ("{gfx} and {gpu|that}", "gfx1031 and that"),
    ],
)
def test_placeholders_are_filled_or_use_their_fallback(text: str, expected: str | None) -> None:
    assert filled(both(text), {"gfx": "gfx1031"}, "en") == expected


def test_each_language_has_its_own_text() -> None:
    text = Text(en="memory", zh="显存")
    assert (filled(text, {}, "en"), filled(text, {}, "zh")) == ("memory", "显存")


@pytest.mark.parametrize(
    "value", ["x; rm -rf ~", "$(id)", "`id`", "a b", "x' y", 'x"y', "a\nb", "%PATH%", "x&y", "a|b"]
)
def test_a_command_with_an_unsafe_value_is_omitted(value: str) -> None:
    rows = [Remedy(text=both("do it with {thing}"), commands=("run {thing}", "run plainly"))]
    (step,) = steps(rows, {}, {"thing": value}, "en")
    assert (step.text, step.commands) == (f"do it with {value}", ("run plainly",))


def test_only_applicable_steps_are_shown_and_each_command_once() -> None:
    rows = [
        Remedy(text=both("a"), commands=("x", "y"), when={"gfx": "gfx900"}),
        Remedy(text=both("b"), commands=("y", "z")),
        Remedy(text=both("c"), commands=("z",), when={"gfx": ""}),
        Remedy(text=both("d {create}"), commands=("{create}",)),
    ]
    told = steps(rows, {"gfx": ("gfx900",)}, {}, "en")
    assert [(step.text, step.commands) for step in told] == [("a", ("x", "y")), ("b", ("z",))]
    told = steps(rows, {}, {}, "en", commands={"create": "rocenv create demo --rocm 6.4"})
    assert [step.commands for step in told] == [("y", "z"), (), ("rocenv create demo --rocm 6.4",)]

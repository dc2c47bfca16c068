"""The `explain` pages for all subjects: readable, and with sources."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.commands.explain import explanation_json
from rocenv.data.load import load
from rocenv.explain import KINDS, explain
from rocenv.explain.page import SCREEN, Explanation, Line, rendered, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator


MATRIX = load()
# Products share their target's page.
NAMES = [(kind, name) for kind in KINDS if kind != "product" for name in KINDS[kind].names(MATRIX)]


@pytest.mark.slow
def test_every_name_has_a_readable_page() -> None:
    found = {f"{kind} {name}": list(faults(kind, name)) for kind, name in NAMES}
    assert {page: texts for page, texts in found.items() if texts} == {}


def faults(kind: str, name: str) -> Iterator[str]:
    """List a page's faults."""
    page = explain(f"${name}" if kind == "variable" else name, MATRIX)
    if (page.kind, page.thing) != (kind, name):
        yield f"leads to {page.kind} {page.thing}"
    lines = rendered(page, width=100)
    short = shortened(page, width=80, command="x")
    if len(short) > SCREEN:
        yield f"has {len(short)} lines on one screen"
    # URLs, variables and commands are never wrapped.
    long = [line for line in lines if len(line) > 100 and len(re.sub("`[^`]*`", "``", line).split()) > 1]
    given = {each["command"] for each in explanation_json(page)["commands"]}
    yield from (f"too long: {line}" for line in long if line.strip() not in given and "https://" not in line)
    if not page.lines and not page.steps:
        yield "says nothing"
    if any(not line.text.strip() for line in page.lines):
        yield "has an empty line"
    if kind not in ("topic", "cause") and re.search(r" [,;.:] |, ,|; ;|: :", "\n".join(lines)):
        yield "has a gap where a value is missing"
    document = explanation_json(page)
    if json.loads(json.dumps(document)) != document:
        yield "changes in a JSON round trip"


def statements(explanation: Explanation) -> dict[str, set[str]]:
    return {line.text: {basis.source for basis in line.basis} for line in explanation.lines}


@pytest.mark.slow
def test_every_statement_about_a_target_has_a_source() -> None:
    without = [
        (target, text)
        for target in MATRIX.targets
        for text, sources in statements(explain(target, MATRIX)).items()
        if not sources
    ]
    assert without == []


def test_no_pages_title_is_a_code() -> None:
    for name in KINDS["topic"].names(MATRIX):
        title = explain(name, MATRIX).title
        assert title and not title.endswith(f" {name}"), name


@pytest.mark.parametrize("thing", ["gfx1100", "gfx906", "rocm-6.2", "zluda"])
def test_a_short_page_fits_on_one_screen_with_all_commands(thing: str) -> None:
    page = explain(thing, MATRIX)
    *short, last = shortened(page, width=80, command="more")
    assert len(short) < SCREEN < len(rendered(page, width=80))
    assert [step.command for step in page.steps] == [line[4:] for line in short if line[4:] in commands(page)]
    assert re.fullmatch("[0-9]+ more: `more`", last)


def commands(page: Explanation) -> set[str]:
    return {step.command for step in page.steps}


def test_commands_for_a_cause_are_below_the_advice_that_they_implement() -> None:
    page = explain("vram-oom", MATRIX)
    for lines in (rendered(page, width=80), shortened(page, width=80, command="more")):
        place = lines.index("      rocenv mem")
        assert "Free up GPU memory" in " ".join(lines[place - 5 : place])
    assert {"label": None, "command": "rocenv mem", "gives": ""} in explanation_json(page)["commands"]


def test_a_short_page_that_omits_nothing_refers_to_its_sources() -> None:
    line = Line(text="x", rows=(MATRIX.targets["gfx1031"],))
    page = Explanation(thing="x", kind="topic", title="X", answer=(line,))
    assert shortened(page, width=80, command="more") == ["X", "x", "Sources: `more`"]
    assert shortened(page, width=80, command="more", language="zh")[-1] == "来源：`more`"


def test_every_source_is_numbered_and_listed() -> None:
    text = "\n".join(rendered(explain("gfx1031", MATRIX), width=100))
    page, _, sources = text.partition("\nSources\n")
    used = set(re.findall(r"\[(\d+)\]", page))
    assert used == set(re.findall(r"\[(\d+)\]", sources))
    assert used == {str(number) for number in range(1, len(used) + 1)}


@pytest.mark.slow
def test_pages_do_not_depend_on_the_order_of_rows() -> None:
    tables: dict[str, Any] = {name: getattr(MATRIX, name) for name in MATRIX.__dataclass_fields__}
    rows: dict[str, Any] = {name: value[::-1] for name, value in tables.items()}
    turned = replace(MATRIX, **rows)
    for thing in (
        "gfx1031",
        "gfx906",
        "gfx1201",
        "hip-sdk-6.4",
        "zluda-3.9.5",
        "torch-2.7",
        "rocm-6.1",
        "pack",
        "zluda-106",
    ):
        one, other = explain(thing, MATRIX), explain(thing, turned)
        assert [line.text for line in one.lines] == [line.text for line in other.lines]
        assert one.steps == other.steps


def test_without_data_on_releases_a_cards_page_says_no() -> None:
    bare = replace(MATRIX, target=(MATRIX.targets["gfx1031"],))
    for table in (
        "support",
        "rocm",
        "torch",
        "hip_sdk",
        "zluda",
        "pack",
        "rocm_wheels",
        "verdict",
        "override",
    ):
        bare = replace(bare, **{table: ()})
    linux, windows = explain("gfx1031", bare).answer
    assert linux.text.startswith("no: ")
    assert windows.text.startswith("no: ")


def test_explain_is_fast() -> None:
    began = time.perf_counter()
    explain("gfx1031", MATRIX)
    assert time.perf_counter() - began < 2

"""`rocenv explain`: a target, a version, a variable or a code, in words, with sources."""

from __future__ import annotations

import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import LANGUAGE_OPTION, output_language
from rocenv.commands.output import colour, json_option, print_json
from rocenv.context import Context
from rocenv.core.wrap import wrapped
from rocenv.data.known import STATUS_RANK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rocenv.explain.answer import Basis, Explanation, Line, Step

_WIDTH = 100  # where stdout is no terminal
_SHOWN = 2  # sources of an answer in the text, and of any other line one; `--json` has every one
_ORDER = [str(status) for status in STATUS_RANK]
_LABEL = 30
_SOURCE = 36  # characters of a source in the text


@click.command()
@click.argument("thing", nargs=-1, required=True, shell_complete=candidates.things)
@LANGUAGE_OPTION
@json_option
def command(thing: tuple[str, ...], lang: str | None, as_json: bool) -> None:
    """Explain THING in words, with sources.

    THING is a target (gfx1031), a product ("RX 6750 XT"), a version (rocm-6.1, hip-sdk-6.4, zluda-3.9.5,
    torch-2.9, or 6.1 alone), library packs (gfx1031-pack), a variable (HSA_OVERRIDE_GFX_VERSION), a subject
    (zluda, torch, pack), a code (sdnext-3414) or a cause of `rocenv diagnose` and `rocenv doctor`
    (vram-oom); causes are explained in English or Chinese.
    """
    from rocenv.explain import cause, explain

    matrix = Context().matrix
    explanation = explain(" ".join(thing), matrix)
    if explanation.kind == "cause":
        explanation = cause.explain_in(output_language(lang), explanation.thing, matrix)
    if as_json:
        print_json(explanation_json(explanation))
        return
    room = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    click.echo("\n".join(explanation_text(explanation, width=max(60, min(120, room)))))


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as `explain --json` prints it."""
    return {
        "thing": explanation.thing,
        "kind": explanation.kind,
        "title": explanation.title,
        "answer": [_line_json(line) for line in explanation.answer],
        "sections": [
            {"title": section.title, "lines": [_line_json(line) for line in section.lines]}
            for section in explanation.sections
        ],
        "commands": [
            {"label": step.label or None, "command": step.command, "gives": step.gives}
            for step in explanation.steps
        ],
    }


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "label": line.label or None,
        "text": line.text,
        "status": line.status,
        "sources": [
            {"source": basis.source, "status": basis.status, "checked": basis.checked} for basis in line.basis
        ],
    }


def explanation_text(explanation: Explanation, *, width: int) -> list[str]:
    """Return an explanation for people to read: lines of at most so many characters, sources by number."""
    numbers = _numbers(explanation)
    title, *rest = wrapped(explanation.title, width, "", "  ")
    lines = [
        colour(title, "green"),
        *rest,
        *_block(explanation.answer, numbers, width, indent="", most=_SHOWN),
    ]
    steps = [explanation.steps_title, *_step_lines(explanation.steps, width)] if explanation.steps else []
    told: list[str] = []
    for section in explanation.sections:
        told += [section.title, *_block(section.lines, numbers, width, indent="  ", most=1)]
    # The commands of a cause are no answer: they follow from what is told about it.
    lines += [*told, *steps] if explanation.kind == "cause" else [*steps, *told]
    return lines + _source_lines(numbers, width)


def _step_lines(steps: Iterable[Step], width: int) -> Iterator[str]:
    for step in steps:
        text = ": ".join(part for part in (step.label, step.gives) if part)
        yield from wrapped(text, width, "  ", "    ")
        yield f"    {step.command}"  # never wrapped: it is to be pasted


def _source_lines(numbers: Mapping[Basis, int], width: int) -> list[str]:
    by_status: dict[str, list[str]] = {}
    for basis, number in numbers.items():
        by_status.setdefault(basis.status, []).append(f"[{number}]\u00a0{_short(basis.source)}")
    room = max(map(len, by_status), default=0)
    lines = ["Sources, by how well it is known (the whole of them: `--json`)"] if numbers else []
    for status in sorted(by_status, key=lambda status: _ORDER.index(status)):
        lines += wrapped("  ".join(by_status[status]), width, f"  {status.ljust(room)}  ", " " * (room + 4))
    return [line.replace("\u00a0", " ") for line in lines]


def _numbers(explanation: Explanation) -> dict[Basis, int]:
    shown = [basis for line in explanation.answer for basis in line.basis[:_SHOWN]]
    shown += [line.basis[0] for section in explanation.sections for line in section.lines if line.basis]
    return {basis: number for number, basis in enumerate(dict.fromkeys(shown), 1)}


def _block(
    lines: Iterable[Line], numbers: Mapping[Basis, int], width: int, *, indent: str, most: int
) -> Iterator[str]:
    rows = list(lines)
    room = min(_LABEL, max((len(line.label) for line in rows), default=0))
    last = ""
    for line in rows:
        marks = "".join(f"[{numbers[basis]}]" for basis in line.basis[:most])
        label = line.label if line.label != last else ""
        last = line.label
        first = f"{indent}{label.ljust(room)}  " if room else indent
        then = " " * (len(indent) + room + 2)
        if len(label) > room:
            yield from wrapped(label, width, indent, indent)
            first = then
        yield from wrapped(f"{line.text} {marks}".rstrip(), width, first, then)


def _short(source: str) -> str:
    """Return a source in the length of a few words: the first of several, GitHub's issues by their number."""
    first, *rest = re.split(r"\s*; ", source)
    first = re.sub(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", r"\1#\2", first)
    first = first.removeprefix("https://")
    if len(first) > _SOURCE:
        first = first[: _SOURCE - 3] + "..."
    # No break inside one.
    return (f"{first} +{len(rest)}" if rest else first).replace(" ", "\u00a0")

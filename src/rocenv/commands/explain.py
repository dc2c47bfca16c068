"""`rocenv explain`: explain a GPU, a version, a variable or a code, with sources."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import LANGUAGE_OPTION, output_language
from rocenv.commands.output import colour, json_option, print_json
from rocenv.context import Context

if TYPE_CHECKING:
    from rocenv.explain.page import Explanation, Line

_WIDTH = 100  # if stdout is not a terminal


@click.command()
@click.argument("thing", nargs=-1, required=True, shell_complete=candidates.things)
@LANGUAGE_OPTION
@json_option
def command(thing: tuple[str, ...], lang: str | None, as_json: bool) -> None:
    """Explain THING, with sources.

    THING is a target (gfx1031), a product ("RX 6750 XT"), a version (rocm-6.1, hip-sdk-6.4, zluda-3.9.5,
    torch-2.9, or 6.1 alone), library packs (gfx1031-pack), a variable (HSA_OVERRIDE_GFX_VERSION), a subject
    (wsl, zluda, torch, pack), an incident (sdnext-3414), an exit code (0xC0000005), or a cause that `rocenv
    diagnose` or `rocenv doctor` reports (vram-oom). Causes are explained in English or Chinese.
    """
    from rocenv.explain import explain
    from rocenv.explain.page import rendered

    explanation = explain(" ".join(thing), Context().matrix, output_language(lang))
    if as_json:
        print_json(explanation_json(explanation))
        return
    title, *lines = rendered(explanation, width=text_width(60, 120))
    click.echo("\n".join((colour(title, "green"), *lines)))


def text_width(least: int, most: int) -> int:
    """Return the terminal's width within bounds, or 100 columns in a pipe."""
    room = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    return max(least, min(most, room))


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Build the document of `explain --json`."""
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

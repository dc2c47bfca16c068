"""`rocenv explain`: explain a GPU, a version, a variable or a code, with sources."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import LANGUAGE_OPTION, output_language
from rocenv.commands.options import json_option
from rocenv.commands.output import color, fields, print_json, terminal_width
from rocenv.context import Context
from rocenv.host import detect
from rocenv.system.machine import examined_windows
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.rows import Matrix
    from rocenv.explain.page import Explanation, Line, Step

_WIDTH = 100  # in columns, if stdout is not a terminal


_FULL = "Show everything, with sources, instead of one screen."
FULL_OPTION = click.option("--full", is_flag=True, help=_FULL)


class _Explain(click.Command):
    """A command that accepts negative numbers as arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        numbers = [word for word in args if re.fullmatch("-[0-9]+", word)]
        if numbers and "--" not in args:
            args = [*(word for word in args if word not in numbers), "--", *numbers]
        return super().parse_args(ctx, args)


@click.command(cls=_Explain)
@click.argument("thing", nargs=-1, required=True, shell_complete=candidates.things)
@FULL_OPTION
@LANGUAGE_OPTION
@json_option
def command(thing: tuple[str, ...], full: bool, lang: str | None, as_json: bool) -> None:
    """Explain a GPU, a version, a variable or an error.

    THING is a target (gfx1031), a product ("RX 6750 XT"), a version (rocm-6.1, hip-sdk-6.4, zluda-3.9.5,
    torch-2.9, or 6.1 alone), library packs (gfx1031-pack), a variable (HSA_OVERRIDE_GFX_VERSION), an app
    (llama.cpp, ollama, comfyui), another topic (wsl, zluda, torch, pack), an incident (sdnext-3414), an exit
    code (0xC0000005 or 3221225477), or a cause that `rocenv diagnose` or `rocenv doctor` reports (vram-oom).
    Explanations of causes are in English or Chinese. Suggested commands omit options that match this machine.
    """
    from rocenv.explain import explain
    from rocenv.explain.page import SCREEN, rendered, shortened

    context, language = Context(), output_language(lang)
    explanation = explain(" ".join(thing), context.matrix, language)
    if as_json:
        print_json(explanation_json(explanation))
        return
    explanation = _for_this_machine(explanation, context)
    width = text_width(60, 120)
    lines = rendered(explanation, width=width)
    if not full and len(lines) > SCREEN:
        chosen = ("--lang", lang) if lang else ()
        again = shell_join("rocenv", "explain", explanation.thing, *chosen, "--full")
        lines = shortened(explanation, width=width, command=again, language=language)
    click.echo("\n".join((color(lines[0], "green"), *lines[1:])))


def _for_this_machine(explanation: Explanation, context: Context) -> Explanation:
    """Adapt commands: use an unused env name, and omit options that match this platform and GPU.

    Commands for other platforms only plan the set, because it cannot be installed here.
    """
    name = context.home.unused_name("demo")

    def renamed(command: str) -> str:
        return re.sub(" demo(?= |$)", f" {name}", command)

    envs, platform = context.home.env_names(), "windows" if examined_windows() else "linux"

    def line(each: Line) -> Line:
        # Suggest `repair` only if there is exactly one env.
        repairs = [command for command in each.commands if command.startswith("rocenv repair demo")]
        kept = [command for command in each.commands if command not in repairs or len(envs) == 1]
        commands = (
            command.replace(" demo", f" {shell_join(envs[0])}") if command in repairs else renamed(command)
            for command in kept
        )
        return replace(each, commands=tuple(commands))

    def here_first(lines: Iterable[Line]) -> list[Line]:
        return sorted(lines, key=lambda each: each.platform not in ("", platform))

    sections = tuple(
        replace(each, lines=tuple(map(line, here_first(each.lines)))) for each in explanation.sections
    )
    steps = [replace(step, command=renamed(step.command)) for step in explanation.steps]
    if any("--platform" in step.command or step.vulkan_on for step in steps):
        host = detect(context.matrix)
        here = f" --platform {host.platform}"
        target = host.gpu.target.partition(":")[0] if host.gpu else ""
        steps = [replace(step, command=_shorter(step.command, here, target)) for step in steps]
        steps = _for_this_gpu(steps, host.platform, target, context.matrix)
    return replace(explanation, sections=sections, steps=tuple(steps))


def _for_this_gpu(steps: list[Step], platform: str, target: str, matrix: Matrix) -> list[Step]:
    """Omit Vulkan builds for other platforms; keep only Vulkan builds if AMD does not support the GPU."""
    from rocenv.explain.target import is_official

    vulkan = [step for step in steps if step.vulkan_on == platform]
    if vulkan and target and not is_official(target, matrix):
        return vulkan
    return [step for step in steps if step.vulkan_on in ("", platform)]


def _shorter(command: str, here: str, target: str) -> str:
    if here not in command:  # sets for other platforms can only be planned here
        return re.sub(r"^rocenv create \S+(?= .*--platform )", "rocenv resolve", command)
    command = command.replace(here, "")
    return re.sub(rf" --target {target}(?![^ ])", "", command) if target else command


def text_width(least: int, most: int) -> int:
    """Return the terminal's width (in a pipe, 100), but at least `least` and at most `most`."""
    return max(least, min(most, terminal_width() or _WIDTH))


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """The document that `explain --json` prints."""
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
            for step in (*explanation.steps, *_of_lines(explanation))
        ],
    }


def _of_lines(explanation: Explanation) -> list[Step]:
    from rocenv.explain.page import Step

    commands = dict.fromkeys(command for line in explanation.lines for command in line.commands)
    return [Step(command=command) for command in commands]


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "label": line.label or None,
        **fields(line, "text", "status"),
        "commands": list(line.commands),
        "sources": [fields(basis, "source", "status", "checked") for basis in line.basis],
    }

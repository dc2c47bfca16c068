"""`rocenv mem settings`: the settings of a program that save memory on a GPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.calling_shell import calling_shell
from rocenv.commands.mem_env import EnvView, view_of_env
from rocenv.commands.output import note, print_json
from rocenv.commands.shell_words import setting, unsetting
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.progress import sanitized
from rocenv.core.wrap import reading_width, wrapped
from rocenv.memory.amounts import amount
from rocenv.memory.settings import Advice, Advised, Card, advise
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.host import Gpu, Host

_LEADS = {"taken": "", "instead": "alternative: ", "kept-out": "left out: "}


def show_settings(program: str, name: str, *, memory_bytes: int | None, as_json: bool) -> int:
    """Show the settings of a program.

    Args:
        program: Its name in the rows, in any case.
        name: The env that it will run in, "" = the active one, if any.
        memory_bytes: Of the GPU to choose for, None = the GPU that programs use here.
        as_json: Print JSON.
    """
    from rocenv.host import detect

    context = Context()
    matrix = context.matrix
    program = _find_program(program, matrix)
    host = detect(matrix)
    env = view_of_env(context, host, name, ask_hip=False)
    gpu = env.gpu(host) if memory_bytes is None else None
    card = _card(host, gpu, env.record, memory_bytes)
    unknown = ""
    if memory_bytes is None and card.total_bytes is None:
        unknown = host.why if gpu is None else f"it is unknown how much memory GPU {gpu.index} has"
    advice = advise(program, card, matrix.setting, matrix.never_together, _environment(env.record))
    if as_json:
        print_json(_json(program, gpu, card, advice, unknown))
        return 0
    for line in _lines(program, gpu, card, advice, env):
        click.echo(sanitized(line))
    for text in (*advice.conflicts, *([unknown] if unknown else [])):
        note(text)
    return 0


def _find_program(program: str, matrix: Matrix) -> str:
    programs = sorted({row.program for row in matrix.setting})
    found = next((name for name in programs if name.lower() == program.lower()), None)
    if found is None:
        raise RocenvError(
            f"rocenv knows no memory settings of `{program}`",
            hints=tuple(f"rocenv mem settings {name}" for name in programs),
            code="program-unknown",
        )
    return found


def _card(host: Host, gpu: Gpu | None, record: Record | None, memory_bytes: int | None) -> Card:
    from rocenv.memory.gpus import memory_of

    components = record.lock.components if record else ()
    platform = record.lock.platform if record else host.platform
    torch = next((component.version for component in components if component.kind == "torch"), "")
    if gpu is None:
        target = record.lock.target if record else ""
        return Card(platform=platform, total_bytes=memory_bytes, target=target, torch=torch)
    memories = memory_of(host, with_holders=False)
    return Card(
        platform=platform,
        total_bytes=next(each.total_bytes for each in memories if each.gpu.index == gpu.index),
        integrated=gpu.integrated,
        target=gpu.target,
        torch=torch,
    )


def _environment(record: Record | None) -> Mapping[str, str]:
    """Return the environment that the program will start in."""
    changes = record.lock.environment if record else ()
    return {**os.environ, **{change.name: change.value for change in changes if change.action == "set"}}


def _lines(program: str, gpu: Gpu | None, card: Card, advice: Advice, env: EnvView) -> list[str]:
    width = reading_width()
    lines = [f"{program} on {_describe(gpu, card)}"]
    for each in advice.settings:
        lines += ["", *wrapped(_headline(each), width, "", "  ")]
        if each.row.place:
            lines += wrapped(f"in {each.row.place}", width, "  ", "  ")
        lines += wrapped(each.row.text, width, "  ", "  ")
    shell = calling_shell("windows" if WINDOWS else "linux")
    where = (
        f"`rocenv launch {env.name}` or `rocenv run {env.name}`" if env.name else "the shell that starts it"
    )
    if advice.unset:
        lines += ["", "Unset these variables in the shell that starts it:"]
        lines += [f"  {unsetting(shell, variable)}" for variable in advice.unset]
    if advice.variables:
        lines += ["", f"Variables, for {where}:"]
        lines += [f"  {setting(shell, variable, value)}" for variable, value in advice.variables.items()]
    if advice.arguments:
        lines += ["", "Arguments of the program:", f"  {' '.join(advice.arguments)}"]
    return lines


def _describe(gpu: Gpu | None, card: Card) -> str:
    size = amount(card.total_bytes) if card.total_bytes is not None else "unknown memory"
    if gpu is None:
        return f"a GPU ({card.target}) with {size}" if card.target else f"a GPU with {size}"
    return f"GPU {gpu.index}, {gpu.name or 'unknown name'} ({gpu.target or 'unknown target'}), with {size}"


def _headline(each: Advised) -> str:
    row = each.row
    if row.where == "note":
        return f"{each.condition}: {row.title}" if each.condition else row.title
    lead = f"only {each.condition}: " if each.state == "if" else _LEADS[each.state]
    value = f"{' = '.join(row.variables)} = {row.value}" if row.variables else row.set
    return f"{lead}{row.title}: {value}"


def _json(program: str, gpu: Gpu | None, card: Card, advice: Advice, unknown: str) -> dict[str, Any]:
    """Return the document of `mem settings --json`."""
    return {
        "program": program,
        "platform": card.platform,
        "gpu": gpu.index if gpu else None,
        "target": card.target or None,
        "integrated": card.integrated,
        "total_bytes": card.total_bytes,
        "torch": card.torch or None,
        "settings": [
            {
                "key": each.row.key,
                "title": each.row.title,
                "state": each.state,
                "condition": each.condition or None,
                "where": each.row.where,
                "place": each.row.place or None,
                "set": each.row.set or None,
                "text": each.row.text,
                "variables": dict.fromkeys(each.row.variables, each.row.value),
                "arguments": list(each.row.arguments),
                "status": each.row.status,
                "source": each.row.source,
            }
            for each in advice.settings
        ],
        "variables": dict(advice.variables),
        "arguments": list(advice.arguments),
        "conflicts": list(advice.conflicts),
        "unset": list(advice.unset),
        "notes": [unknown] if unknown else [],
    }

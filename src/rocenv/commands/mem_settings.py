"""`rocenv mem settings`: a program's settings that save GPU memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.calling_shell import calling_shell, set_variable, unset_variable
from rocenv.commands.options import active_env_argument, json_option, short_enough
from rocenv.commands.output import fields, fields_or_none, note, print_json, print_text
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.progress import sanitized
from rocenv.host import detect
from rocenv.memory.amounts import amount, parse_amount
from rocenv.memory.env import view_of_env
from rocenv.memory.gpus import read_usage
from rocenv.memory.settings import Advice, Advised, Card, advise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.core.model import Record
    from rocenv.host import Gpu, Host

_LEADS = {"taken": "", "instead": "alternative: ", "kept-out": "omitted: "}


def _parse_size(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    size = None if value is None else parse_amount(value)
    if value is not None and size is None:
        raise click.BadParameter(f"`{value[:40]}` is not a size such as `8GiB`")
    return size


@click.command()
@click.argument("program", callback=short_enough, shell_complete=candidates.memory_programs)
@active_env_argument
@click.option(
    "--memory",
    "memory_bytes",
    metavar="SIZE",
    callback=_parse_size,
    shell_complete=candidates.sizes,
    help="Assume a GPU with this much memory, such as `8GiB`, instead of this machine's.",
)
@json_option
def settings(program: str, name: str, memory_bytes: int | None, as_json: bool) -> None:
    """Show which of a program's settings save memory on this GPU.

    With env NAME or an active env, the settings match that env's GPU and PyTorch.
    """
    context = Context()
    matrix = context.matrix
    program = _find_program(program, sorted({row.program for row in matrix.setting}))
    host = detect(matrix)
    env = view_of_env(context, host, name, ask_hip=False)
    gpu = env.gpu(host) if memory_bytes is None else None
    card = _card(host, gpu, env.record, memory_bytes)
    notes = []
    if card.total_bytes is None:
        notes = [host.why if gpu is None else f"the memory size of GPU {gpu.index} is unknown"]
    changes = env.record.lock.environment if env.record else ()
    environ = {**os.environ, **{change.name: change.value for change in changes if change.action == "set"}}
    advice = advise(program, card, matrix.setting, matrix.never_together, environ)
    if as_json:
        print_json(_json(program, gpu, card, advice, notes))
        return
    print_text(sanitized("\n".join(_lines(program, gpu, card, advice))))
    if words := list(_words(program, advice, env.name)):
        print_text(sanitized("\n".join(words)), verbatim=True)
    for text in (*advice.conflicts, *notes):
        note(text)


def _find_program(program: str, programs: Sequence[str]) -> str:
    found = next((name for name in programs if name.lower() == program.lower()), None)
    if found is None:
        raise RocenvError(
            f"rocenv has no memory settings for `{program}`",
            hints=tuple(f"rocenv mem settings {name}" for name in programs),
            code="program-unknown",
        )
    return found


def _card(host: Host, gpu: Gpu | None, record: Record | None, memory_bytes: int | None) -> Card:
    components = record.lock.components if record else ()
    platform = record.lock.platform if record else host.platform
    torch = next((component.version for component in components if component.kind == "torch"), "")
    if gpu is None:
        target = record.lock.target if record else ""
        return Card(platform=platform, total_bytes=memory_bytes, target=target, torch=torch)
    memories = read_usage(host, with_holders=False).gpus
    total = next(each.total_bytes for each in memories if each.gpu.index == gpu.index)
    return Card(
        platform=platform, total_bytes=total, integrated=gpu.integrated, target=gpu.target, torch=torch
    )


def _lines(program: str, gpu: Gpu | None, card: Card, advice: Advice) -> Iterator[str]:
    size = amount(card.total_bytes) if card.total_bytes is not None else "unknown memory"
    name = f"GPU {gpu.index}, {gpu.name or 'unknown name'}" if gpu else "a GPU"
    yield f"{program} on {name} ({card.target or 'unknown target'}), with {size}"
    for each in advice.settings:
        yield from ("", _headline(each))
        if each.row.place:
            yield f"  in {each.row.place}"
        yield f"  {each.row.text}"


def _words(program: str, advice: Advice, env: str) -> Iterator[str]:
    """Yield the lines to copy, which are never wrapped."""
    shell = calling_shell()
    if advice.unset:
        yield from ("", f"Unset these variables in the shell that starts {program}:")
        yield from (f"  {unset_variable(shell, variable)}" for variable in advice.unset)
    if advice.variables:
        where = f"`rocenv launch {env}` or `rocenv run {env}`" if env else f"the shell that starts {program}"
        yield from ("", f"Variables for {where}:")
        yield from (f"  {set_variable(shell, variable, text)}" for variable, text in advice.variables.items())
    if advice.arguments:
        yield from ("", "Command-line arguments:", f"  {' '.join(advice.arguments)}")


def _headline(each: Advised) -> str:
    row = each.row
    if row.where == "note":
        return f"{each.condition}: {row.title}" if each.condition else row.title
    lead = f"only {each.condition}: " if each.state == "if" else _LEADS[each.state]
    value = f"{' = '.join(row.variables)} = {row.value}" if row.variables else row.set
    return f"{lead}{row.title}: {value}"


def _json(program: str, gpu: Gpu | None, card: Card, advice: Advice, notes: Sequence[str]) -> dict[str, Any]:
    """The document that `mem settings --json` prints."""
    return {
        "program": program,
        "gpu": gpu.index if gpu else None,
        **fields(card, "platform", "integrated", "total_bytes"),
        **fields_or_none(card, "target", "torch"),
        "settings": [_setting_json(each) for each in advice.settings],
        **fields(advice, "variables", "arguments", "conflicts", "unset"),
        "notes": list(notes),
    }


def _setting_json(each: Advised) -> dict[str, Any]:
    row = each.row
    return {
        **fields(row, "key", "title", "where", "text", "status", "source", "arguments"),
        **fields_or_none(row, "place", "set"),
        "state": each.state,
        "condition": each.condition or None,
        "variables": dict.fromkeys(row.variables, row.value),
    }

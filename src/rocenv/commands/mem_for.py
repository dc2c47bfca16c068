"""`rocenv mem --for`: how a program is set up for the memory of a card."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.calling_shell import calling_shell, set_variable, unset_variable
from rocenv.commands.mem_hip import env_or_active, gpu_of
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.progress import sanitized
from rocenv.core.wrap import reading_width, wrapped
from rocenv.memory.amounts import amount
from rocenv.memory.settings import Advice, Card, Setting, advise
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.model import Record
    from rocenv.data.knobs import Knob
    from rocenv.data.rows import Matrix
    from rocenv.host import Gpu, Host

_LEAD = {"taken": "", "instead": "or instead, not with it: ", "kept-out": "not added: "}


def show_knobs(program: str, name: str = "", *, memory_bytes: int | None = None, as_json: bool) -> int:
    """Show how a program is set up for a card.

    Args:
        program: As the rows have it.
        name: The env that it will run in, "" = the one that is active, if any.
        memory_bytes: Of the card that is meant, None = the one of this machine that is used.
        as_json: For scripts.
    """
    from rocenv.host import detect

    context = Context()
    matrix = context.matrix
    program = _known(program, matrix)
    host = detect(matrix)
    name = env_or_active(context, host, name)
    record = prefix_of(context.home, name).record() if name else None
    gpu = gpu_of(host, record) if memory_bytes is None else None
    card, why = _card(host, gpu, record)
    if memory_bytes is not None:
        card, why = replace(card, total_bytes=memory_bytes), ""
    advice = advise(program, card, matrix.knob, matrix.never_together, _environment(record))
    if as_json:
        print_json(_json(program, gpu, card, advice, why))
        return 0
    for text in _lines(program, gpu, card, advice, name):
        click.echo(sanitized(text))
    for text in (*advice.conflicts, *([why] if why else [])):
        note(text)
    return 0


def _known(program: str, matrix: Matrix) -> str:
    programs = sorted({knob.program for knob in matrix.knob})
    found = next((name for name in programs if name.lower() == program.lower()), None)
    if found is None:
        raise RocenvError(
            f"nothing is known of how `{program}` uses GPU memory",
            hints=tuple(f"rocenv mem --for {name}" for name in programs),
            code="program-unknown",
        )
    return found


def _card(host: Host, gpu: Gpu | None, record: Record | None) -> tuple[Card, str]:
    """Return what is known of the card and of the env, and why that is not all."""
    from rocenv.memory.gpus import memory_of

    platform = record.lock.platform if record else host.platform
    torch = ""
    if record:
        torch = next((part.version for part in record.lock.components if part.kind == "torch"), "")
    if gpu is None:
        target = record.lock.target if record else ""
        return Card(platform=platform, target=target, torch=torch), "" if host.gpu else host.why
    total = next(
        each.total_bytes for each in memory_of(host, with_holders=False) if each.gpu.index == gpu.index
    )
    return Card(
        platform=platform, total_bytes=total, integrated=gpu.integrated, target=gpu.target, torch=torch
    ), "" if total is not None else f"how much memory GPU {gpu.index} has is not known"


def _environment(record: Record | None) -> Mapping[str, str]:
    environ = dict(os.environ)
    for change in record.lock.environment if record else ():
        if change.action == "set":
            environ[change.name] = change.value
    return environ


def _lines(program: str, gpu: Gpu | None, card: Card, advice: Advice, name: str) -> list[str]:
    width = reading_width()
    lines = [f"{program} on {_card_name(gpu, card)}"]
    for each in advice.settings:
        lines += ["", *wrapped(f"{_lead(each)}{_what(each.knob)}", width, "", "  ")]
        if each.knob.place:
            lines += wrapped(f"at {each.knob.place}", width, "  ", "  ")
        lines += wrapped(each.knob.text, width, "  ", "  ")
    shell = calling_shell("windows" if WINDOWS else "linux")
    if advice.unset:
        lines += ["", "take away, in the shell that starts it:"]
        lines += [f"  {unset_variable(shell, variable)}" for variable in advice.unset]
    if advice.variables:
        lines += ["", f"variables, for {_starts(name)}:"]
        lines += [f"  {set_variable(shell, variable, value)}" for variable, value in advice.variables.items()]
    if advice.arguments:
        lines += ["", f"arguments, for {_starts(name)}:", f"  {' '.join(advice.arguments)}"]
    return lines


def _starts(name: str) -> str:
    return (
        f"`rocenv launch {name}` or `rocenv run {name}`" if name else "the shell or the script that starts it"
    )


def _card_name(gpu: Gpu | None, card: Card) -> str:
    size = amount(card.total_bytes) if card.total_bytes is not None else "memory not known"
    if gpu is None:
        return f"a card ({card.target}), {size}" if card.target else f"a card, {size}"
    return f"GPU {gpu.index}, {gpu.name or 'no name known'} ({gpu.target or 'target not known'}), {size}"


def _lead(each: Setting) -> str:
    if each.knob.where == "note":
        return f"{each.condition}: " if each.condition else ""
    return f"only {each.condition}: " if each.state == "if" else _LEAD[each.state]


def _what(knob: Knob) -> str:
    if knob.where == "note":
        return knob.title
    value = f"{' = '.join(knob.variables)} = {knob.value}" if knob.variables else knob.set
    return f"{knob.title}: {value}"


def _json(program: str, gpu: Gpu | None, card: Card, advice: Advice, why: str) -> dict[str, Any]:
    return {
        "program": program,
        "platform": card.platform,
        "gpu": gpu.index if gpu else None,
        "target": card.target or None,
        "integrated": card.integrated,
        "total_bytes": card.total_bytes,
        "torch": card.torch or None,
        "settings": [_setting_json(each) for each in advice.settings],
        "variables": dict(advice.variables),
        "arguments": list(advice.arguments),
        "conflicts": list(advice.conflicts),
        "unset": list(advice.unset),
        "notes": [why] if why else [],
    }


def _setting_json(each: Setting) -> dict[str, Any]:
    knob = each.knob
    return {
        "key": knob.key,
        "title": knob.title,
        "state": each.state,
        "condition": each.condition or None,
        "where": knob.where,
        "place": knob.place or None,
        "set": knob.set or None,
        "text": knob.text,
        "variables": dict.fromkeys(knob.variables, knob.value),
        "arguments": list(knob.arguments),
        "status": knob.status,
        "source": knob.source,
    }

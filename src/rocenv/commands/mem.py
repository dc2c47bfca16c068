"""`rocenv mem`: the memory of the GPUs."""

from __future__ import annotations

from pathlib import Path

import click

from rocenv.commands import candidates
from rocenv.commands.output import json_option, short_enough


def _size(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    from rocenv.memory.amounts import bytes_of

    size = None if value is None else bytes_of(value)
    if value is not None and size is None:
        raise click.BadParameter(f"`{value[:40]}` is no size: `8GiB` is one")
    return size


@click.command()
@click.argument("name", required=False, default="", shell_complete=candidates.env_names)
@click.option("--watch", is_flag=True, help="Keep showing it, with a graph, until Ctrl-C.")
@click.option(
    "--model",
    "model_file",
    metavar="FILE.gguf",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What a model would take of it, layer by layer.",
)
@click.option(
    "--context",
    "context",
    metavar="N",
    type=click.IntRange(1, 1 << 24),
    shell_complete=candidates.contexts,
    help="Tokens, for --model.",
)
@click.option("--probe", is_flag=True, help="Try how much can be had, with the HIP runtime of env NAME.")
@click.option(
    "--limit",
    metavar="SIZE",
    default="",
    callback=short_enough,
    shell_complete=candidates.limits,
    help="Take no more than that with --probe: `6GiB`, `80%`.",
)
@click.option(
    "--for",
    "program",
    metavar="PROGRAM",
    default="",
    callback=short_enough,
    shell_complete=candidates.memory_programs,
    help="How to set up a program for this card, or with env NAME.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    callback=_size,
    shell_complete=candidates.sizes,
    help="For --for: of a card with that much instead, `8GiB`.",
)
@json_option
def command(
    name: str,
    watch: bool,
    model_file: Path | None,
    context: int | None,
    probe: bool,
    limit: str,
    program: str,
    memory: int | None,
    as_json: bool,
) -> int:
    """Show the memory of each GPU: how much there is, what is free, and who has the rest.

    With an env NAME, or in one, its HIP runtime is asked too; the smaller figure counts.
    """
    _check({"--watch": watch, "--model": model_file is not None, "--probe": probe, "--for": bool(program)})
    if watch and name:  # a runtime that is loaded once a second would itself be what is seen
        raise click.UsageError("--watch shows what the system counts, and asks the runtime of no env")
    _check_with("--limit", bool(limit), "--probe", probe)
    _check_with("--context", context is not None, "--model", model_file is not None)
    _check_with("--memory", memory is not None, "--for", bool(program))
    if model_file is not None:
        from rocenv.commands.mem_model import show_model

        return show_model(model_file, name, context=context, as_json=as_json)
    if probe:
        from rocenv.commands.mem_probe import show_probe

        return show_probe(name, limit, as_json=as_json)
    if program:
        from rocenv.commands.mem_for import show_knobs

        return show_knobs(program, name, memory_bytes=memory, as_json=as_json)
    from rocenv.commands.mem_report import show_memory

    return show_memory(name, watch=watch, as_json=as_json)


def _check(given: dict[str, bool]) -> None:
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} do not go together")


def _check_with(name: str, given: bool, other: str, other_given: bool) -> None:
    if given and not other_given:
        raise click.UsageError(f"{name} goes with {other} only")

"""`rocenv mem`: GPU memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands import candidates
from rocenv.commands.output import json_option, short_enough
from rocenv.core.errors import WrongUsage
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_DEFAULT = "show"
# Options that became commands: the command, and whether the option took a value.
_OLD_OPTIONS = {
    "--watch": ("watch", False),
    "--probe": ("probe", False),
    "--model": ("model", True),
    "--for": ("settings", True),
}


class _Mem(click.Group):
    """A group with the default command `show`: a first word that is not a command is the name of an env."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and ctx.resilient_parsing:  # completion of the first word
            return super().parse_args(ctx, args)
        if args[:1] not in (["-h"], ["--help"]) and not set(args[:1]) & set(self.commands):
            _refuse_old_options(args)
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in definition order."""
        return list(self.commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands, the envs, and the options of `show`."""
        name = show.params[0].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *name, *show.shell_complete(ctx, incomplete)]


def _refuse_old_options(args: list[str]) -> None:
    """For an option that became a command, raise WrongUsage with the equivalent command line."""
    for place, word in enumerate(args):
        option, equals, value = word.partition("=")
        if word == "--":
            return
        if option not in _OLD_OPTIONS:
            continue
        name, takes_value = _OLD_OPTIONS[option]
        rest = args[place + 1 :]
        if takes_value and not equals:
            value, rest = (rest or [""])[0], rest[1:]
        words = ["rocenv", "mem", name, *([value] if value else []), *args[:place], *rest]
        raise WrongUsage(f"`{option}` is now a command", hints=(shell_join(*words),))


_env_argument = click.argument("name", required=False, default="", shell_complete=candidates.env_names)


@click.group(cls=_Mem, subcommand_metavar="[NAME | COMMAND [ARGS]...]")
def command() -> None:
    """Show total and free GPU memory, and which programs use it.

    `rocenv mem [NAME]` is short for `rocenv mem show [NAME]`.
    """


@command.command()
@_env_argument
@json_option
def show(name: str, as_json: bool) -> int:
    """Show each GPU's memory and which programs use it.

    With env NAME or an active env, this also queries the env's HIP runtime and shows the smaller figure.
    """
    from rocenv.commands.mem_show import show_memory

    return show_memory(name, as_json=as_json)


@command.command()
@json_option
def watch(as_json: bool) -> int:
    """Update the display every second, with a graph, until Ctrl-C.

    This does not query HIP: loading its runtime every second would itself use memory.
    """
    from rocenv.commands.mem_show import watch_memory

    return watch_memory(as_json=as_json)


def _parse_size(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    from rocenv.memory.amounts import parse_amount

    size = None if value is None else parse_amount(value)
    if value is not None and size is None:
        raise click.BadParameter(f"`{value[:40]}` is not a size such as `8GiB`")
    return size


@command.command()
@_env_argument
@click.option(
    "--limit",
    metavar="SIZE",
    default="",
    callback=short_enough,
    shell_complete=candidates.limits,
    help="Use at most this much: `6GiB`, or `80%` of the free memory.",
)
@json_option
def probe(name: str, limit: str, as_json: bool) -> int:
    """Test how much memory a program can allocate.

    The test allocates memory through the HIP runtime of env NAME (default: the active env), fills it, reads
    it back and frees it. It leaves room for the desktop and other programs.
    """
    from rocenv.commands.mem_probe import show_probe

    return show_probe(name, limit, as_json=as_json)


@command.command()
@click.argument("file", metavar="FILE.gguf", type=click.Path(dir_okay=False, path_type=Path))
@_env_argument
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(1, 1 << 24),
    shell_complete=candidates.contexts,
    help="Context length in tokens. Default: the length that the model was trained for.",
)
@json_option
def model(file: Path, name: str, context: int | None, as_json: bool) -> int:
    """Show a model's memory needs by layer, and how many layers fit.

    FILE is a GGUF model, one of its parts, or a llamafile. With env NAME or an active env, this also queries
    the env's HIP runtime for free memory.
    """
    from rocenv.commands.mem_model import show_model

    return show_model(file, name, context=context, as_json=as_json)


@command.command()
@click.argument("program", callback=short_enough, shell_complete=candidates.memory_programs)
@_env_argument
@click.option(
    "--memory",
    metavar="SIZE",
    callback=_parse_size,
    shell_complete=candidates.sizes,
    help="Assume a GPU with this much memory instead of this machine's: `8GiB`.",
)
@json_option
def settings(program: str, name: str, memory: int | None, as_json: bool) -> int:
    """Show a program's settings that save memory on this GPU.

    With env NAME or an active env, the settings match that env's GPU and PyTorch.
    """
    from rocenv.commands.mem_settings import show_settings

    return show_settings(program, name, memory_bytes=memory, as_json=as_json)

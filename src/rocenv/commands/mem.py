"""`rocenv mem`: GPU memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from rocenv.core.errors import WrongUsage
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_DEFAULT = "show"
# Command -> its module, which is imported only when it is used.
_MODULES = {
    "show": "mem_show",
    "watch": "mem_show",
    "probe": "mem_probe",
    "model": "mem_model",
    "settings": "mem_settings",
}
# Options that have become commands: the command, and whether the option took a value.
_OLD_OPTIONS = {
    "--watch": ("watch", False),
    "--probe": ("probe", False),
    "--model": ("model", True),
    "--for": ("settings", True),
}


class _Mem(click.Group):
    """A group whose default command is `show`: a first word that is not a command names an env."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and ctx.resilient_parsing:  # completion of the first word
            return super().parse_args(ctx, args)
        if args[:1] not in (["-h"], ["--help"]) and not set(args[:1]) & set(_MODULES):
            _refuse_old_options(args)
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in definition order."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import a command; `parse_args` has already replaced unknown commands."""
        module = importlib.import_module(f"rocenv.commands.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands, the envs, and the options of `show`."""
        show = self.get_command(ctx, _DEFAULT)
        name = show.params[0].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *name, *show.shell_complete(ctx, incomplete)]


def _refuse_old_options(args: list[str]) -> None:
    """If an option has become a command, raise WrongUsage with the new command line."""
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


@click.group(cls=_Mem, subcommand_metavar="[NAME | COMMAND [ARGS]...]")
def command() -> None:
    """Show total and free GPU memory, and which programs use it.

    `rocenv mem [NAME]` is short for `rocenv mem show [NAME]`.
    """

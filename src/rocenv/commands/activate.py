"""`rocenv activate`: how to activate an env, or the script that does it."""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING

import click

from rocenv.activate.shells import SHELLS
from rocenv.commands import candidates
from rocenv.commands.calling_shell import calling_shell, hook_advice
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.core.errors import PrefixError
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.prefix import Prefix


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@click.option(
    "--shell",
    type=click.Choice(list(SHELLS)),
    shell_complete=candidates.shells,
    help="Print the script for this shell.",
)
def command(name: str, shell: str | None) -> int:
    """Say how to activate the env NAME in this shell, or print the script with --shell.

    A command cannot change the shell that calls it: the script has to be sourced there.
    """
    prefix = prefix_of(Context().home, name)
    lock = prefix.record().lock
    if shell is not None:
        serving = [each for each in SHELLS if lock.platform in SHELLS[each].platforms]
        if shell not in serving:
            known = ", ".join(serving)
            raise click.UsageError(f"env `{name}` is for {lock.platform}, whose shells are {known}")
        from rocenv.activate.scripts import activation_script

        script = activation_script(
            name, str(prefix.path), lock.environment, lock.watched, shell, lock.platform
        )
        # The mark at the start of PowerShell's file is for files alone: evaluated, it would be a word.
        click.echo(SHELLS[shell].encode(script).removeprefix(codecs.BOM_UTF8), nl=False)
        return 0
    _say_what_to_type(prefix, lock.platform)
    return 1


def activation_line(prefix: Prefix, platform: str) -> str:
    """Return what to type to activate an env, in the shell that called."""
    return _line(prefix, calling_shell(platform))


def _say_what_to_type(prefix: Prefix, platform: str) -> None:
    shell = calling_shell(platform)
    # A cmd and a PowerShell cannot be told apart from here.
    shells = {"cmd": " in cmd", "powershell": " in PowerShell"} if platform == "windows" else {shell: ""}
    missing = [each for each in shells if not (prefix.path / SHELLS[each].file_name).is_file()]
    if missing:
        raise PrefixError(
            f"env `{prefix.name}` has no script for {missing[0]}: it was made by an older rocenv, or the "
            "script was removed",
            hints=(f"rocenv repair {shell_join(prefix.name)}",),
            code="script-missing",
        )
    for number, (each, where) in enumerate(shells.items()):
        start = "or" if number else "a command cannot change the shell that calls it; type this instead"
        note(f"{start}{where}:")
        line = _line(prefix, each)
        click.echo(line if WINDOWS else os.fsencode(line))
    note(hook_advice(f"activate {shell_join(prefix.name)}"))


def _line(prefix: Prefix, shell: str) -> str:
    return SHELLS[shell].source(str(prefix.path / SHELLS[shell].file_name))

"""`rocenv activate`: how to activate an env, or the script that does it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from rocenv.activate.shells import SHELLS, batch, posix
from rocenv.commands.world import World, note
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from rocenv.install.prefix import Prefix


@click.command()
@click.argument("name")
@click.option("--shell", type=click.Choice(list(SHELLS)), help="Print the script for this shell.")
def command(name: str, shell: str | None) -> int:
    """Say how to activate the env NAME in this shell, or print the script with --shell.

    A command cannot change the shell that calls it: the script has to be sourced there.
    """
    prefix = World().prefix(name)
    record = prefix.record()
    lock = record.lock
    if shell is not None:
        if SHELLS[shell].platform != lock.platform:
            raise click.UsageError(f"env `{name}` is for {lock.platform}, and {shell} is no shell of that")
        from rocenv.activate.scripts import activation_script

        script = activation_script(name, str(prefix.path), lock.environment, lock.watched, shell)
        click.echo(script, nl=False)
        return 0
    if lock.platform == "windows":
        from rocenv.activate.shells import powershell

        note("a command cannot change the shell that calls it; type this instead in cmd:")
        click.echo(activation_line(prefix))
        note("or in PowerShell:")
        click.echo(f". {powershell.quote(str(prefix.path / powershell.file_name))}")
        return 1
    note("a command cannot change the shell that calls it; type this instead:")
    click.echo(activation_line(prefix))
    return 1


def activation_line(prefix: Prefix) -> str:
    """Return what to type to activate an env, in the shell that most people have here."""
    if WINDOWS:
        return f'"{prefix.path / batch.file_name}"'
    return f". {shlex.quote(str(prefix.path / posix.file_name))}"

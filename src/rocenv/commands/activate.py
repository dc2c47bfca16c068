"""`rocenv activate`: how to activate an env, or the script that does it."""

from __future__ import annotations

import shlex

import click

from rocenv.activate.shells import SHELLS
from rocenv.commands.world import World, note


@click.command()
@click.argument("name")
@click.option("--shell", type=click.Choice(list(SHELLS)), help="Print the script for this shell.")
def command(name: str, shell: str | None) -> int:
    """Say how to activate the env NAME in this shell, or print the script with --shell.

    A command cannot change the shell that calls it: the script has to be sourced there.
    """
    prefix = World().prefix(name)
    record = prefix.record()
    if shell is not None:
        from rocenv.activate.scripts import activation_script

        click.echo(
            activation_script(name, str(prefix.path), record.lock.environment, record.lock.watched, shell),
            nl=False,
        )
        return 0
    note("a command cannot change the shell that calls it; type this instead:")
    click.echo(f". {shlex.quote(str(prefix.path / 'activate'))}")
    return 1

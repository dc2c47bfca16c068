"""`rocenv deactivate`: how to leave an env."""

from __future__ import annotations

import click

from rocenv.commands.world import note


@click.command()
def command() -> int:
    """Say how to leave the active env."""
    note("a command cannot change the shell that calls it; type this instead:")
    click.echo("deactivate")
    return 1

"""`rocenv remove`: take an env away."""

from __future__ import annotations

import sys

import click

from rocenv.commands import candidates
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.prefix import prefix_of


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(name: str, yes: bool) -> None:
    """Remove the env NAME and everything in its folder. What other envs share stays."""
    from rocenv.install.change import remove

    context = Context()
    prefix = prefix_of(context.home, name)
    asks = not yes and prefix.state == "complete" and sys.stdin.isatty() and sys.stderr.isatty()
    if asks and not click.confirm(f"Remove `{prefix.path}` and all that is in it?", err=True):
        raise click.Abort
    remove(context.home, name)
    note(f"removed env `{name}`; `rocenv gc` frees what no other env needs")

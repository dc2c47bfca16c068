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
    there = f"the link `{prefix.path}`" if prefix.is_link else f"`{prefix.path}` and all that is in it"
    asks = not yes and prefix.state == "complete" and sys.stdin.isatty() and sys.stderr.isatty()
    if asks and not click.confirm(f"Remove {there}?", err=True):
        raise click.Abort
    leads_to = prefix.path.resolve() if prefix.is_link else None
    remove(context.home, name)
    if leads_to is not None:
        note(f"removed the link `{prefix.path}`; `{leads_to}` is left alone")
        return
    note(f"removed env `{name}`; `rocenv gc` frees what no other env needs")

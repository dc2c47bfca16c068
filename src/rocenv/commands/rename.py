"""`rocenv rename`: another name for an env."""

from __future__ import annotations

import click

from rocenv.commands import candidates
from rocenv.commands.output import note
from rocenv.context import Context


@click.command()
@click.argument("old", shell_complete=candidates.env_names)
@click.argument("new")
def command(old: str, new: str) -> None:
    """Give the env OLD the name NEW. A shell in which it is active has to activate it again."""
    from rocenv.install.change import rename

    rename(Context().home, old, new)
    note(f"env `{old}` is now `{new}`")

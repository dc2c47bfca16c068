"""`rocenv clone`: a second env of the same set."""

from __future__ import annotations

import click

from rocenv.commands import candidates
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.prefix import prefix_of
from rocenv.system.quoting import shell_join


@click.command()
@click.argument("old", shell_complete=candidates.env_names)
@click.argument("new")
def command(old: str, new: str) -> None:
    """Make the env NEW of the same set as OLD, as it was created: what was added by hand is not in it."""
    from rocenv.install.build import build
    from rocenv.install.change import move_shims

    context = Context()
    record = prefix_of(context.home, old).record()
    build(prefix_of(context.home, new).name, record.lock, context)
    if record.shims_in_torch:
        move_shims(context.home, new, in_torch=True)
    note(f"env `{new}` has the set of `{old}`; prove it with `rocenv verify {shell_join(new)}`")

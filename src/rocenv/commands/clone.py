"""`rocenv clone`: a second env of the same set."""

from __future__ import annotations

import click

from rocenv.commands import candidates
from rocenv.commands.world import World, note
from rocenv.system.command_lines import as_typed


@click.command()
@click.argument("old", shell_complete=candidates.env_names)
@click.argument("new")
def command(old: str, new: str) -> None:
    """Make the env NEW of the same set as OLD, as it was created: what was added by hand is not in it."""
    from rocenv.install.build import build
    from rocenv.install.change import move_shims

    world = World()
    record = world.prefix(old).record()
    build(world.prefix(new).name, record.lock, world.building())
    if record.shims_in_torch:
        move_shims(world.home, new, in_torch=True)
    note(f"env `{new}` has the set of `{old}`; prove it with `rocenv verify {as_typed(new)}`")

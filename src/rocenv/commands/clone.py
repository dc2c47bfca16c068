"""`rocenv clone`: a second env of the same set."""

from __future__ import annotations

import shlex

import click

from rocenv.commands.world import World, note


@click.command()
@click.argument("old")
@click.argument("new")
def command(old: str, new: str) -> None:
    """Make the env NEW of the same set as OLD, as it was created: what was added by hand is not in it."""
    from rocenv.install.build import build

    world = World()
    lock = world.prefix(old).record().lock
    build(world.prefix(new).name, lock, world.building())
    note(f"env `{new}` has the set of `{old}`; prove it with `rocenv verify {shlex.quote(new)}`")

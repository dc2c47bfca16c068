"""`rocenv cache`: what is only kept to be fetched, or compiled, no second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.system.files import remove_tree, storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.home import Home


def parts(home: Home) -> dict[str, Path]:
    """Return the parts of the cache: name -> folder."""
    return {
        "artifacts": home.artifacts,
        "indices": home.indices,
        "wheels": home.uv_cache,
        "kernels": home.kernels,
    }


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show what is kept of what was fetched and compiled."""
    if context.invoked_subcommand is not None:
        return
    from rocenv.core.progress import size_text
    from rocenv.install.store import tree_bytes

    home = Context().home
    sizes = {name: tree_bytes(folder) if folder.exists() else 0 for name, folder in parts(home).items()}
    if as_json:
        found = [{"name": name, "path": str(parts(home)[name]), "size_bytes": sizes[name]} for name in sizes]
        print_json({"cache": found, "size_bytes": sum(sizes.values())})
        return
    click.echo(columns([(name, size_text(sizes[name]), str(parts(home)[name])) for name in sizes]))
    if any(sizes.values()):
        note("`rocenv cache clear [PART…]` frees it; envs do not need it, making the next one does")


@command.command()
@click.argument("names", nargs=-1, type=click.Choice(["artifacts", "indices", "wheels", "kernels"]))
def clear(names: tuple[str, ...]) -> None:
    """Free the named parts of the cache, or all of it."""
    from rocenv.core.progress import size_text
    from rocenv.install.store import tree_bytes

    context = Context()
    context.require_own_home(changes=True)
    home = context.home
    freed = 0
    with (
        storage_errors(home.path),
        locked(home.in_use, waiting="waiting for another rocenv that works with the cache"),
    ):
        for name, folder in parts(home).items():
            if not names or name in names:
                freed += tree_bytes(folder) if folder.exists() else 0
                remove_tree(folder)
    note(f"freed {size_text(freed)}")

"""`rocenv cache` and `rocenv gc`: show and free files that can be downloaded or compiled again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from rocenv.commands.options import json_option
from rocenv.commands.output import can_ask, columns, note, print_json, require_yes
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.progress import size_text
from rocenv.system.files import remove_tree, storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.home import Home

_PARTS = ("artifacts", "indices", "wheels", "kernels")
_FETCHED = _PARTS[:-1]  # recompiling kernels can take half an hour


def _folders(home: Home) -> dict[str, Path]:
    return dict(zip(_PARTS, (home.artifacts, home.indices, home.uv_cache, home.kernels), strict=True))


@contextlib.contextmanager
def _exclusive(what: str) -> Iterator[Context]:
    """Lock the home against other processes that use the cache or the store."""
    context = Context()
    context.require_own_home(changes=True)
    home, waiting = context.home, f"waiting for another rocenv process that is using the {what}"
    with storage_errors(home.path), locked(home.in_use, waiting=waiting):
        yield context


@click.group("cache", invoke_without_command=True)
@json_option
@click.pass_context
def cache(context: click.Context, as_json: bool) -> None:
    """Show the size of the cache: downloads, package lists, wheels and compiled kernels."""
    if context.invoked_subcommand is not None:
        return
    from rocenv.install.store import tree_bytes

    own = Context()
    folders = _folders(own.home)
    with own.progress.wait("Adding up file sizes", closing=False):
        sizes = {name: tree_bytes(folder) if folder.exists() else 0 for name, folder in folders.items()}
    if as_json:
        found = [{"name": name, "path": str(folders[name]), "size_bytes": sizes[name]} for name in sizes]
        print_json({"cache": found, "size_bytes": sum(sizes.values())})
        return
    click.echo(columns([(name, size_text(sizes[name]), str(folders[name])) for name in sizes]))
    if any(sizes.values()):
        note("`rocenv cache clear` frees all but the compiled kernels; this does not affect existing envs")


@cache.command()
@click.argument("names", metavar="[PART]...", nargs=-1, type=click.Choice(_PARTS))
def clear(names: tuple[str, ...]) -> None:
    """Empty the named parts of the cache: artifacts, indices, wheels, kernels.

    Without PART, empty all but the compiled kernels, which take a long time to recompile.
    """
    from rocenv.install.store import tree_bytes

    freed = 0
    with _exclusive("cache") as context, context.progress.wait("Emptying the cache", closing=False):
        for name, folder in _folders(context.home).items():
            if name in (names or _FETCHED):
                freed += tree_bytes(folder) if folder.exists() else 0
                remove_tree(folder)
    note(f"freed {size_text(freed)}")


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Free them without asking.")
@click.option("--dry-run", is_flag=True, help="Only show what would be freed.")
@json_option
def gc(yes: bool, dry_run: bool, as_json: bool) -> None:
    """Show and free unpacked packages that no env needs. For downloads, see `rocenv cache`."""
    from rocenv.install.store import sweep

    with _exclusive("store") as context:
        needed = frozenset(needed_artifacts(context.home))
        with context.progress.wait("Looking for unused packages", closing=False):
            found = sweep(context.home, needed, dry_run=True)
        total = sum(size for _, size in found)
        if not as_json:
            click.echo(
                columns([(title, size_text(size)) for title, size in found]) if found else "nothing to free"
            )
        free = bool(found) and not dry_run and (yes or can_ask())
        if free and not yes:
            require_yes(f"Free {size_text(total)}?")
        if free:
            with context.progress.wait("Removing unused packages", closing=False):
                sweep(context.home, needed, dry_run=False)
    if as_json:
        packages = [{"name": title, "size_bytes": size} for title, size in found]
        print_json({"freed": free, "size_bytes": total, "packages": packages})
    if free:
        note(f"freed {size_text(total)}")
    elif found:
        note(f"`rocenv gc -y` frees {size_text(total)}")


def needed_artifacts(home: Home) -> Iterator[str]:
    """Yield the hashes of the artifacts in complete envs."""
    from rocenv.prefix import all_prefixes

    for prefix in all_prefixes(home):
        if prefix.state == "complete":
            try:
                artifacts = prefix.record_wherever_made().lock.artifacts
            except RocenvError as error:
                note(f"cannot read env `{prefix.name}`, so its packages may be freed: {error.message}")
            else:
                yield from (artifact.sha256 for artifact in artifacts)

"""`rocenv gc`: free what no env needs."""

from __future__ import annotations

import sys

import click

from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Free it without asking.")
@click.option("--dry-run", is_flag=True, help="Only show it.")
@json_option
def command(yes: bool, dry_run: bool, as_json: bool) -> None:
    """Show the unpacked packages that no env needs, and free them. Fetched files: see `rocenv cache`."""
    from rocenv.core.progress import size_text
    from rocenv.install.store import sweep
    from rocenv.prefix import all_prefixes

    context = Context()
    context.require_own_home(changes=not dry_run)
    home = context.home
    with (
        storage_errors(home.path),
        locked(home.in_use, waiting="waiting for another rocenv that works with the store"),
    ):
        needed = set()
        for prefix in all_prefixes(home):
            if prefix.state == "complete":
                try:
                    lock = prefix.record_wherever_made().lock
                    needed |= {artifact.sha256 for artifact in lock.artifacts}
                except RocenvError as error:
                    note(
                        f"env `{prefix.name}` cannot be read, so what it needs is not known: {error.message}"
                    )
        keep = frozenset(needed)
        found = sweep(home, keep, dry_run=True)
        total = sum(size for _, size in found)
        if not as_json:
            rows: list[tuple[str, ...]] = [(title, size_text(size)) for title, size in found]
            click.echo(columns(rows) if rows else "nothing to free")
        free = bool(found) and not dry_run and (yes or _agreed(total))
        if free:
            sweep(home, keep, dry_run=False)
    if as_json:
        parts = [{"name": title, "size_bytes": size} for title, size in found]
        print_json({"freed": free, "size_bytes": total, "packages": parts})
    if free:
        note(f"freed {size_text(total)}")
    elif found:
        note(f"{size_text(total)} can be freed with `rocenv gc -y`")


def _agreed(total_bytes: int) -> bool:
    from rocenv.core.progress import size_text

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(f"Free {size_text(total_bytes)}?", err=True)

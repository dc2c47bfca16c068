"""`rocenv shim`: where the files lie that stand for those of CUDA."""

from __future__ import annotations

import click

from rocenv.commands import candidates
from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.prefix import prefix_of


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@click.option(
    "--in-torch",
    is_flag=True,
    help="Put them into the env's torch, for apps that load CUDA's files by path; the originals are kept.",
)
@click.option("--undo", is_flag=True, help="Give torch its own files back, byte for byte.")
@json_option
def command(name: str, in_torch: bool, undo: bool, as_json: bool) -> None:
    """Show which files of the env NAME stand for CUDA's, or change where they lie.

    They lie beside ZLUDA's, and the env's Python loads them before torch, unless --in-torch was asked for.
    """
    from rocenv.preload import shims_of

    if in_torch and undo:
        raise click.UsageError("--in-torch and --undo are each other's opposite")
    context = Context()
    prefix = prefix_of(context.home, name)
    if in_torch or undo:
        from rocenv.install.change import move_shims

        changed = move_shims(context.home, name, in_torch=in_torch)
        place = (
            "stand in the place of torch's own files"
            if in_torch
            else "lie beside ZLUDA's, torch is untouched"
        )
        note(f"the shims of env `{name}` {place}" + ("" if changed else "; nothing was to be done"))
    record = prefix.record()
    shims = shims_of(record.lock, in_torch=record.shims_in_torch)
    if as_json:
        told = [
            {"path": s.path, "is": s.source, "stands_for": s.stands_for, "original": s.original or None}
            for s in shims
        ]
        print_json({"env": name, "in_torch": record.shims_in_torch, "shims": told})
    elif shims:
        click.echo(columns([(s.path, f"is {s.source}", kept_text(s.original)) for s in shims]))
    else:
        note(f"env `{name}` has no shims: they come with ZLUDA")


def kept_text(original: str) -> str:
    """Return where torch's own file is kept, in words; "" where none was replaced."""
    return f"torch's own is kept as {original}" if original else ""

"""`rocenv repair`: put the files of an env back."""

from __future__ import annotations

import click

from rocenv.commands import candidates
from rocenv.commands.output import json_option, note, print_json
from rocenv.context import Context


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@json_option
def command(name: str, as_json: bool) -> None:
    """Put every file of the env NAME back as its record has it. Files that were added stay."""
    from rocenv.install.change import repair

    context = Context()
    found = repair(name, context)
    if as_json:
        print_json({"env": name, "repaired": [{"path": path, "what": what} for path, what in found.items()]})
    for path, what in found.items():
        note(f"put back: {path} (was {what})")
    note(f"env `{name}` is as its record has it" + ("" if found else "; nothing was to be done"))

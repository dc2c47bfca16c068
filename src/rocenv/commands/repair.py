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
    found = repair(context.home, name, context)
    if as_json:
        print_json({"env": name, "repaired": [{"path": each.path, "what": each.what} for each in found]})
    for each in found:
        note(f"put back: {each.path} (was {each.what})")
    note(f"env `{name}` is as its record has it" + ("" if found else "; nothing was to be done"))

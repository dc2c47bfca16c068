"""`rocenv deactivate`, where no function of the shell took it: is an env active, and how is it left?"""

from __future__ import annotations

import os

import click

from rocenv.commands.calling_shell import hook_advice
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.prefix import active_names


@click.command()
def command() -> int:
    """Leave the active env; where the shell cannot do that by itself, say how."""
    name = next(active_names(Context().home, os.environ), "")
    if not name:
        note("no env is active in this shell")
        return 0
    note(f"the variables of env `{name}` are set here, and a command cannot change the shell that calls it")
    note("- in the shell where it was activated, type `deactivate`, or `rocenv_deactivate` in a venv")
    note("- a shell that only inherited them from another one knows no `deactivate`: `exit` leads back there")
    note(hook_advice("deactivate"))
    return 1

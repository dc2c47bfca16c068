"""`rocenv deactivate`, where no function of the shell took it: is an env active, and how is it left?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from rocenv.commands.calling_shell import hook_advice
from rocenv.commands.output import note
from rocenv.context import Context

if TYPE_CHECKING:
    from pathlib import Path

# What every env sets, if it sets anything of the kind.
_FOLDERS = ("VIRTUAL_ENV", "ROCM_PATH", "HIP_PATH")


@click.command()
def command() -> int:
    """Leave the active env; where the shell cannot do that by itself, say how."""
    name = _active(Context().home.envs)
    if not name:
        note("no env is active in this shell")
        return 0
    note(f"the variables of env `{name}` are set here, and a command cannot change the shell that calls it")
    note("- in the shell where it was activated, type `deactivate`, or `rocenv_deactivate` in a venv")
    note("- a shell that only inherited them from another one knows no `deactivate`: `exit` leads back there")
    note(hook_advice("deactivate"))
    return 1


def _active(envs: Path) -> str:
    """Return the name of the env that this process has got the variables of, the first in PATH; "" = none."""
    named = [os.environ.get(name, "") for name in _FOLDERS]
    roots = {os.path.join(os.path.normcase(root), "") for root in (str(envs), os.path.realpath(envs))}
    for entry in (*os.environ.get("PATH", "").split(os.pathsep), *named):
        path = os.path.normpath(entry) if entry else ""
        for root in roots:
            if os.path.normcase(path).startswith(root):
                return path[len(root) :].split(os.sep)[0]
    return ""

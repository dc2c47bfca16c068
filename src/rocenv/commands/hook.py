"""`rocenv hook`: print the code for a shell's start-up file.

This runs whenever a shell starts, so this module avoids slow imports.
"""

from __future__ import annotations

import os
import sys

import click

from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from rocenv.home import Home
from rocenv.system import WINDOWS


def _start_up_lines() -> str:
    """List the line for each shell's startup file, after the marker that keeps click from wrapping it."""
    width = max(len(each.line) for each in HOOKS.values())
    lines = [f"{name:11} {each.line.ljust(width)}  {each.file}" for name, each in HOOKS.items()]
    return "\n".join(["\b", "The line for each SHELL, and the start-up file to add it to:", *lines])


@click.command(epilog=_start_up_lines())
@click.argument("shell", metavar="SHELL", type=click.Choice(list(HOOKS)))
def command(shell: str) -> None:
    """Print the code for SHELL's start-up file.

    With it, `rocenv activate NAME` and `rocenv deactivate` change the shell directly, tab completion works,
    and entering a folder that you trust (`rocenv trust`) activates its env.
    """
    place = Place(program=_own_program(), envs=str(Home.usual().envs))
    click.echo(os.fsencode(HOOKS[shell].render(place)), nl=False)


def _own_program() -> str:
    """Return the absolute path of the running rocenv, or its bare name if that is unknown."""
    name = "rocenv.exe" if WINDOWS else "rocenv"
    started = sys.argv[0]
    # The launcher on Windows omits `.exe`.
    for path in (started, f"{started}.exe") if WINDOWS else (started,):
        if os.path.basename(path).lower() == name and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    from rocenv.system.programs import program_on_path

    return program_on_path(name) or "rocenv"

"""`rocenv hook`: the code for a shell's start-up file."""

from __future__ import annotations

import os
import sys

import click

from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from rocenv.home import Home
from rocenv.system import WINDOWS


def _start_ups() -> str:
    """Return the line for each shell, which click does not wrap behind its mark."""
    width = max(len(start_up.line) for start_up in HOOKS.values())
    lines = [f"{name:11} {each.line.ljust(width)}  {each.file}" for name, each in HOOKS.items()]
    return "\n".join(["\b", "The line for each SHELL, and the start-up file that it belongs in:", *lines])


@click.command(epilog=_start_ups())
@click.argument("shell", metavar="SHELL", type=click.Choice(list(HOOKS)))
def command(shell: str) -> None:
    """Print the code for the start-up file of SHELL.

    It lets `rocenv activate NAME` and `rocenv deactivate` work by themselves, completes words, and activates
    the env of a folder that you trust (`rocenv trust`) on entering it.
    """
    click.echo(
        os.fsencode(HOOKS[shell].render(Place(program=_program(), envs=str(Home.usual().envs)))), nl=False
    )


def _program() -> str:
    """Return the absolute path that this program was started by, or its bare name where nobody knows it."""
    name = "rocenv.exe" if WINDOWS else "rocenv"
    started = sys.argv[0]
    # What starts rocenv on Windows takes `.exe` off.
    for path in (started, f"{started}.exe") if WINDOWS else (started,):
        if os.path.basename(path).lower() == name and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    from rocenv.system.programs import program_on_path

    return program_on_path(name) or "rocenv"

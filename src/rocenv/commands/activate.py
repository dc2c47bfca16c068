"""`rocenv activate` and `rocenv deactivate` in a shell without the hook.

A command cannot change the shell that calls it, so these commands show what to type. The hook (`hook.py`)
defines shell functions with the same names that do the work.
"""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING

import click

from rocenv.activate.env import users_cache
from rocenv.activate.shells import SHELLS
from rocenv.active_env import active_names
from rocenv.commands import candidates
from rocenv.commands.calling_shell import calling_shell, hook_advice
from rocenv.commands.options import env_argument
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.core.errors import PrefixError
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.prefix import Prefix


@click.command()
@env_argument
@click.option(
    "--shell",
    type=click.Choice(list(SHELLS)),
    shell_complete=candidates.shells,
    help="Print the script for this shell.",
)
def activate(name: str, shell: str | None) -> int:
    """Show how to activate the env NAME in this shell, or print the script with --shell.

    A command cannot change the shell that calls it, so the shell must run the script itself.
    """
    prefix = prefix_of(Context().home, name)
    lock = prefix.record().lock
    if shell is None:
        _print_lines(prefix, lock.platform)
        return 1
    supported = [each for each in SHELLS if lock.platform in SHELLS[each].platforms]
    if shell not in supported:
        raise click.UsageError(
            f"env `{name}` is for {lock.platform}, where the supported shells are {', '.join(supported)}"
        )
    from rocenv.activate.scripts import activation_script

    path = str(prefix.path)
    cache = users_cache(lock.platform, path, os.environ)
    script = activation_script(name, path, lock.environment, lock.watched, shell, lock.platform, cache)
    # The byte order mark is for PowerShell script files; `eval` would treat it as part of the first word.
    click.echo(SHELLS[shell].encode(script).removeprefix(codecs.BOM_UTF8), nl=False)
    return 0


def activation_line(prefix: Prefix, platform: str) -> str:
    """Return the line that activates an env in the calling shell."""
    return _line(prefix, calling_shell(platform))


def example_line(name: str) -> str:
    """Return an example command that runs a program in an env."""
    return shell_join("rocenv", "run", name, "--", "python" if WINDOWS else "python3")


def _print_lines(prefix: Prefix, platform: str) -> None:
    """Print the line to type. On Windows, print the lines for both cmd and PowerShell."""
    shells = {calling_shell(platform): ""}
    if platform == "windows":
        shells = {"cmd": " in cmd", "powershell": " in PowerShell"}
    missing = [each for each in shells if not (prefix.path / SHELLS[each].file_name).is_file()]
    if missing:
        raise PrefixError(
            f"env `{prefix.name}` has no script for {missing[0]}: an older rocenv created the env, or "
            "the script was removed",
            hints=(f"rocenv repair {shell_join(prefix.name)}",),
            code="script-missing",
        )
    for number, (each, where) in enumerate(shells.items()):
        start = "or" if number else "a command cannot change the shell that calls it; type this instead"
        note(f"{start}{where}:")
        line = _line(prefix, each)
        click.echo(line if WINDOWS else os.fsencode(line))
    note(hook_advice(f"activate {shell_join(prefix.name)}"), verbatim=True)


def _line(prefix: Prefix, shell: str) -> str:
    return SHELLS[shell].source(str(prefix.path / SHELLS[shell].file_name))


@click.command()
def deactivate() -> int:
    """Show how to deactivate the active env in a shell without the hook."""
    name = next(active_names(Context().home, os.environ), "")
    if not name:
        note("no env is active in this shell")
        return 0
    note(f"env `{name}` is active here, and a command cannot change the shell that calls it")
    note("- in the shell where you activated it, type `deactivate`, or `rocenv_deactivate` in a venv")
    note("- a shell that inherited its variables does not have `deactivate`: type `exit` to leave that shell")
    note(hook_advice("deactivate"), verbatim=True)
    return 1

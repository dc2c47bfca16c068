"""`rocenv launch`: an app in an env, looked after: checks before, a log, and an explanation of a bad end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands.world import World, colour, note
from rocenv.errors import PrefixError, RocenvError
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from rocenv.launch.start import Start
    from rocenv.launch.view import Concern, View

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command()
@click.argument("name")
@click.option("--app", metavar="APP", default="", help="Which app it is. Default: recognised by its files.")
@click.option(
    "--write-shortcut",
    "shortcut_folder",
    metavar="[DIR]",
    is_flag=False,
    flag_value=".",
    type=click.Path(file_okay=False, path_type=Path),
    help="Windows: write NAME.cmd, which a double-click starts the app by, and stop.",
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
def command(name: str, app: str, shortcut_folder: Path | None, argv: tuple[str, ...]) -> int:
    """Start an app in the env NAME, keep what it prints in a log, and say why it ended badly.

    In the folder of a known app no CMD is needed, or only arguments. The exit code is the app's own.
    """
    world = World()
    start = _start(world, name, app, argv)
    if shortcut_folder is not None:
        _write_shortcut(start, shortcut_folder, argv)
        return 0
    from rocenv.host import detect
    from rocenv.launch.view import View

    view = View(start=start, host=detect(world.matrix), matrix=world.matrix)
    return _run(view, _look(view))


def _start(world: World, name: str, app: str, words: tuple[str, ...]) -> Start:
    from rocenv.launch.start import choose, plan_start
    from rocenv.launch.streams import is_piped, terminal_columns

    prefix = world.prefix(name)
    record = prefix.record()
    chosen = choose(tuple(world.matrix.launcher), app, words, Path.cwd())
    columns = terminal_columns()
    return plan_start(prefix, record, chosen, words, os.environ, is_piped=is_piped(), columns=columns)


def _look(view: View) -> tuple[Concern, ...]:
    """Tell what is wrong before the start; raise PrefixError where starting would be no use."""
    from rocenv.launch.preflight import look

    concerns = look(view)
    worst = concerns[0] if concerns and concerns[0].severity == "error" else None
    for concern in concerns:
        if concern is not worst:
            _tell(concern)
    if worst is not None:
        raise PrefixError(worst.text, hints=tuple(filter(None, [worst.remedy])), code=worst.code)
    if view.start.added:
        note(f"added for ZLUDA: {' '.join(view.start.added)}")
    return concerns


def _tell(concern: Concern) -> None:
    click.echo(colour(f"{concern.severity}: ", _COLOURS[concern.severity], err=True), err=True, nl=False)
    note(concern.text + (f"\n  hint: {concern.remedy}" if concern.remedy else ""))


def _run(view: View, concerns: tuple[Concern, ...]) -> int:
    from rocenv.activate.loader import CommandNotExecutable
    from rocenv.launch.run import run
    from rocenv.verify import last_level

    try:
        done = run(view, concerns, last_level(view.start.prefix), note)
    except OSError as error:
        raise CommandNotExecutable(
            f"`{view.start.words[0]}` cannot be started: {error.strerror or error}"
        ) from error
    if done.explanation is not None:
        note("\n" + "\n".join(done.explanation.lines()))
    return exit_status(done.code)


def exit_status(code: int) -> int:
    """Return what this process has to exit with so that its parent sees the app's code.

    A signal is told as shells do. On Windows Python takes exit codes as signed numbers of 32 bits.
    """
    if WINDOWS:
        return code - (1 << 32) if code >= 1 << 31 else code
    return 128 - code if code < 0 else code


def _write_shortcut(start: Start, folder: Path, words: tuple[str, ...]) -> None:
    from rocenv.launch.shortcut import MARK, shortcut_text
    from rocenv.system.files import storage_errors, write_atomic

    name = start.prefix.name
    if start.record.lock.platform != "windows":
        raise RocenvError(
            f"`{name}` is an env for {start.record.lock.platform}, and shortcuts are for Windows",
            hints=(f"an alias does it: alias {name}='rocenv launch {name}'",),
            code="shortcut",
        )
    command = [sys.executable, "-m", "rocenv", "launch", name, "--app", start.launcher.key]
    command += ["--", *words] if words else []
    home = os.environ.get("ROCENV_HOME")
    text = shortcut_text(command, str(start.folder), {"ROCENV_HOME": home} if home else {})
    path = folder / f"{name}.cmd"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and MARK.encode() not in path.read_bytes():
            raise RocenvError(
                f"`{path}` is there already, and rocenv did not write it",
                hints=("name another folder: `--write-shortcut DIR`",),
                code="shortcut",
            )
        write_atomic(path, text)
    click.echo(str(path))

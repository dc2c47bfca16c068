"""Check that an app will use the env's Python and ZLUDA, and will not damage them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.apps.programs import env_for
from rocenv.apps.recognition import LOOKED_AT, is_there, name_of, program_at
from rocenv.checks.context import observe_app
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.checks.context import CheckContext
    from rocenv.findings import Observation

_BETWEEN_WORDS = re.compile(r"[\s;&|()'\"]+")  # of a shell script
_SETTINGS_BYTES = 1 << 16


def app_missing(context: CheckContext) -> Observation | None:
    """The app's start file is not in the current folder."""
    start = context.the_launch.start
    command = start.launcher.command
    if len(command) < 2 or command[1] not in start.words or Path(command[1]).exists():
        return None
    return observe_app("app_missing", context.the_launch, file=command[1], folder=str(Path.cwd()))


def app_torch_missing(context: CheckContext) -> Observation | None:
    """The app needs PyTorch, but the env has none, and the app cannot install its own under rocenv."""
    start = context.the_launch.start
    lock, launcher = start.record.lock, start.launcher
    if not launcher.needs_torch or not start.is_app or start.zluda or lock.part("torch"):
        return None
    create = env_for(launcher.key, lock, start.prefix.free_name())
    return observe_app("app_torch_missing", context.the_launch, {"create": create})


def app_own_zluda(context: CheckContext) -> Iterator[Observation]:
    """The app would load the ZLUDA in its own folder instead of the env's."""
    start, launcher = context.the_launch.start, context.the_launch.start.launcher
    if start.zluda is None or _is_zluda_of_env(start):
        return
    for name in launcher.own_zluda:
        if (start.folder / name).is_dir():
            yield observe_app("app_own_zluda", context.the_launch, folder=str(start.folder / name))


def app_deletes_zluda(context: CheckContext) -> Iterator[Observation]:
    """The app would delete the env's ZLUDA folder, because the app's variable points there."""
    launch, start = context.the_launch, context.the_launch.start
    launcher = start.launcher
    if start.zluda is None or not _is_zluda_of_env(start) or not start.is_app:
        return
    given = start.given()
    for name in launcher.deletes_zluda:
        variable = name.removeprefix("$")
        if name in given and name.startswith("-"):
            yield observe_app("app_deletes_zluda", context.the_launch, option=name)
        elif name.startswith("$") and start.environ.get(variable):
            yield observe_app("app_deletes_zluda", context.the_launch, option=variable, variable=variable)
        elif (start.zluda / name).exists():
            rows = (row for row in launch.matrix.zluda if row.preferred and name not in row.files)
            create = launch.another(next((row.version for row in rows), ""))
            yield observe_app("app_deletes_old_zluda", context.the_launch, {"create": create}, file=name)


def app_own_python(context: CheckContext) -> Iterator[Observation]:
    """The command starts the app's own Python instead of the env's."""
    start, launcher = context.the_launch.start, context.the_launch.start.launcher
    folders = [start.folder / name for name in launcher.own_python]
    commands = {"launch": _plain_launch(context.the_launch)}
    for word in _command_words(start):
        path = Path(os.path.abspath(word))
        if any(folder in path.parents for folder in folders) and not path.is_dir():
            yield observe_app("app_own_python", context.the_launch, commands, program=word)
            break
    for name in sorted({*start.programs()} & {*launcher.bypasses}):
        yield observe_app("app_bypasses_env", context.the_launch, commands, program=name)


def app_wrapper(context: CheckContext) -> Iterator[Observation]:
    """The command runs an app script that undoes the env's settings, and rocenv cannot bypass that script."""
    start, launcher = context.the_launch.start, context.the_launch.start.launcher
    if start.record.lock.platform != "linux" or not is_there(launcher, start.folder):
        return
    typed = [name_of(word) for word in _command_words(start)]
    commands = {"launch": _plain_launch(context.the_launch)}
    for name in (name for name in launcher.wrapper.names if name in typed):
        does = context.the_launch.text(launcher.wrapper.does)
        values = {"program": start.program, "script": name, "does": does}
        yield observe_app("app_wrapper", context.the_launch, commands, **values)


def app_argument_missing(context: CheckContext) -> Iterator[Observation]:
    """The command is a launch file that sets the app's arguments but omits one that ZLUDA needs."""
    start, launcher = context.the_launch.start, context.the_launch.start.launcher
    commands = {"launch": _plain_launch(context.the_launch)}
    for name in set(start.programs()) & {each.lower() for each in launcher.settings}:
        path = start.folder / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        for argument in launcher.zluda_arguments if start.zluda else ():
            if argument not in text.replace('"', " ").replace("=", " ").split():
                values = {"file": name, "argument": argument, "variable": launcher.arguments_variable}
                yield observe_app("app_argument_missing", context.the_launch, commands, **values)


def app_settings_not_read(context: CheckContext) -> Observation | None:
    """Only the app's script, which rocenv bypasses, reads the user's settings file."""
    start, wrapper = context.the_launch.start, context.the_launch.start.launcher.wrapper
    path = start.folder / wrapper.settings
    if not start.wrapper or not wrapper.settings or not _has_settings(path):
        return None
    values = {"file": str(path), "script": start.wrapper, "variable": start.launcher.arguments_variable}
    return observe_app("app_settings_not_read", context.the_launch, **values)


def app_shims_elsewhere(context: CheckContext) -> Observation | None:
    """ZLUDA is in the wrong folder for this app: PyTorch's instead of the app's own, or vice versa."""
    start = context.the_launch.start
    wanted, in_torch = start.launcher.shims, start.record.shims_in_torch
    if start.zluda is None or wanted == "any" or in_torch == (wanted == "torch"):
        return None
    return observe_app("app_shims_in_torch" if in_torch else "app_shims_elsewhere", context.the_launch)


def _is_zluda_of_env(start: Start) -> bool:
    """Whether the app's ZLUDA variable points to the env's ZLUDA."""
    text = start.environ.get(start.launcher.zluda_variable, "")
    assert start.zluda is not None
    return bool(text) and _spelled(text) == _spelled(start.zluda)


def _spelled(path: str | Path) -> str:
    return os.path.normcase(os.path.abspath(path))


def _command_words(start: Start) -> list[str]:
    """The command's first arguments, whole and split into words, because one may be an inline script."""
    first = start.words[: program_at(start.words, start.launcher.starters) + 2 * LOOKED_AT]
    return [part for word in first for part in (*_BETWEEN_WORDS.split(word), word)]  # for paths with spaces


def _has_settings(path: Path) -> bool:
    """Whether a settings script contains more than comments; the app's original does not."""
    try:
        if not path.is_file():  # opening a pipe would block
            return False
        with path.open("rb") as file:
            text = file.read(_SETTINGS_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return False
    return any(not line.lstrip().startswith("#") for line in text.splitlines() if line.strip())


def _plain_launch(launch: LaunchContext) -> str:
    """A `rocenv launch` command that runs the app's default command, or "" if the app has none."""
    key = launch.start.launcher.key
    usual = launch.start.launcher.command
    return shell_join("rocenv", "launch", launch.start.prefix.name, "--app", key) if usual else ""

"""What is run: which app, in which folder, with which arguments and variables."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.changes import apply, expand
from rocenv.activate.loader import find_program, loader_argv
from rocenv.errors import RocenvError
from rocenv.install.prefix import library_folders
from rocenv.matrix.apps import inherited
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.install.prefix import Prefix
    from rocenv.matrix.apps import Launcher
    from rocenv.model import EnvChange, Record

GENERIC = "generic"
_LOOKED_AT = 4  # words of a command that may name a file of the app
_HERE = "windows" if WINDOWS else "linux"  # whatever the env is for: it is started here


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An app as it is about to be started."""

    prefix: Prefix
    record: Record
    launcher: Launcher
    folder: Path  # the app's
    words: tuple[str, ...]  # the command
    changes: tuple[EnvChange, ...]  # what the env and the app's profile change
    outside: Mapping[str, str]  # the environment before that
    added: tuple[str, ...] = ()  # arguments that nobody gave

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the app."""
        return apply(self.changes, self.outside, _HERE)

    @property
    def title(self) -> str:
        """What to call the app in a sentence."""
        return f"`{_name(self.words[0])}`" if self.launcher.key == GENERIC else self.launcher.title

    @property
    def zluda(self) -> Path | None:
        """The env's ZLUDA; None where the set has none."""
        part = next((part for part in self.record.lock.components if part.kind == "zluda"), None)
        return self.prefix.path / (part.into or "zluda") if part else None

    def argv(self) -> tuple[str, ...]:
        """Return what is started for the command, as `rocenv run` does it.

        Raises:
            CommandNotFound: There is no such program.
            CommandNotExecutable: It is no program.
        """
        environ, record = self.environ, self.record
        if record.loader:
            folders = library_folders(self.prefix, record.lock)
            loader = self.prefix.path / record.loader
            return tuple(loader_argv(self.words, environ, loader=loader, library_dirs=folders))
        # As in cmd, the current folder counts: apps are started by a batch file of their own.
        found = shutil.which(self.words[0], path=environ.get("PATH", "")) if WINDOWS else None
        return (found or find_program(self.words[0], environ), *self.words[1:])

    @property
    def is_script(self) -> bool:
        """A script of a shell is started, whose end may not be the one of the program that it is about."""
        names = [*self.programs(), _name(self.argv()[0]).lower()]
        return any(name.endswith((".bat", ".cmd", ".sh")) for name in names)

    @property
    def is_app(self) -> bool:
        """What is started is the app itself, and not another program in its folder."""
        own = (*self.launcher.entries, *self.launcher.settings)
        return bool(set(self.programs()) & {name.lower() for name in own})

    def programs(self) -> list[str]:
        """Return the names of the programs and files that the command begins with, in lower case."""
        return [_name(word).lower() for word in self.words[:_LOOKED_AT]]

    def given(self) -> list[str]:
        """Return all arguments that the app will see."""
        name = self.launcher.arguments_variable
        return [*self.words, *(self.outside.get(name, "").split() if name else ())]


def choose(
    launchers: Sequence[Launcher], key: str, words: Sequence[str], here: Path
) -> tuple[Launcher, Path]:
    """Return how an app is started and where it lies.

    Args:
        launchers: All there are.
        key: The one that was asked for; "" = the app is recognised by its files.
        words: The command, which may name a file of it; may be empty.
        here: The folder that the command is given in.

    Raises:
        RocenvError: There is no such app, exit code 2.
    """
    known = {launcher.key: launcher for launcher in launchers}
    if GENERIC not in known:
        raise RocenvError("the data has no app `generic`", hints=("check ROCENV_PROFILES",))
    if key and key not in known:
        error = RocenvError(
            f"there is no app `{key}`",
            hints=(f"`--app` takes one of {', '.join(sorted(known))}; without it the app is recognised",),
            code="usage",
        )
        error.exit_code = 2
        raise error
    folders = _folders(words, here)
    for folder in folders:
        for launcher in sorted(launchers, key=lambda each: each.key):
            if key in ("", launcher.key) and _is_there(launcher, folder):
                return inherited(launcher, known[GENERIC]), folder
    return inherited(known[key or GENERIC], known[GENERIC]), folders[0]


def plan_start(
    prefix: Prefix,
    record: Record,
    chosen: tuple[Launcher, Path],
    words: Sequence[str],
    outside: Mapping[str, str],
    *,
    is_piped: bool,
    columns: int,
) -> Start:
    """Return an app as it is to be started.

    Args:
        prefix: The env.
        record: Its record.
        chosen: From `choose`.
        words: The command; only arguments (the first begins with `-`), or nothing, for the app's usual one.
        outside: The environment to start from.
        is_piped: What it prints goes through a pipe.
        columns: Width of the terminal that the pipe stands for; 0 = it stands for none.

    Raises:
        RocenvError: There is nothing to start, exit code 2.
    """
    launcher, folder = chosen
    python = str(prefix.venv_python)
    if not words or words[0].startswith("-"):
        words = (*(word.replace("{python}", python) for word in _usual(launcher)), *words)
    places = {
        "{python}": python,
        "{batch_python}": f'"{python}"' if WINDOWS else python,  # batch files put no quotes around it
        "{prefix}": str(prefix.path),
        "{columns}": str(columns),
    }
    own = (
        replace(change, value=_filled(change.value, places))
        for change in _changes(launcher, is_piped, columns)
    )
    start = Start(
        prefix=prefix,
        record=record,
        launcher=launcher,
        folder=folder,
        words=tuple(words),
        changes=(*expand(record.lock.environment, str(prefix.path)), *own),
        outside=outside,
    )
    added = _missing_arguments(start)
    return replace(start, words=(*words, *added), added=added)


def _usual(launcher: Launcher) -> tuple[str, ...]:
    if launcher.command:
        return launcher.command
    error = RocenvError(
        "there is no command to launch, and no app is recognised in this folder",
        hints=(
            "give one: `rocenv launch NAME -- CMD…`",
            "or go to the app's folder, or name the app with `--app`",
        ),
        code="usage",
    )
    error.exit_code = 2
    raise error


def _changes(launcher: Launcher, is_piped: bool, columns: int) -> Iterable[EnvChange]:
    yield from launcher.environment
    if is_piped:
        yield from launcher.piped
        if columns:
            yield from launcher.coloured


def _filled(value: str, places: Mapping[str, str]) -> str:
    for name, text in places.items():
        value = value.replace(name, text)
    return value


def _missing_arguments(start: Start) -> tuple[str, ...]:
    launcher = start.launcher
    if start.zluda is None or not set(start.programs()) & set(launcher.entries):
        return ()
    return tuple(each for each in launcher.zluda_arguments if each not in start.given())


def _folders(words: Sequence[str], here: Path) -> list[Path]:
    """Return the folders that the app may lie in, the likeliest first."""
    named = [
        Path(os.path.abspath(here / word)).parent
        for word in words[:_LOOKED_AT]
        if not word.startswith("-") and os.path.isfile(here / word)
    ]
    return [here, *(folder for folder in named if folder != here)]


def _is_there(launcher: Launcher, folder: Path) -> bool:
    return (
        bool(launcher.signs)
        and all((folder / name).exists() for name in launcher.signs)
        and not any((folder / name).exists() for name in launcher.unlike)
    )


def _name(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2] if WINDOWS else os.path.basename(word)

"""What is run: which app, in which folder, with which arguments and variables."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from msgspec import structs

from rocenv.activate.changes import apply, expand
from rocenv.activate.loader import find_program, loader_argv
from rocenv.core.errors import WrongUsage
from rocenv.core.template import fill
from rocenv.launch.log import without_secrets
from rocenv.launch.options import Given, Options
from rocenv.launch.recognition import (
    GENERIC,
    LOOKED_AT,
    choose,
    is_program,
    is_there,
    name_of,
    program_at,
    without_readers,
)
from rocenv.prefix import library_folders
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import EnvChange, Record
    from rocenv.data.apps import Launcher
    from rocenv.prefix import Prefix

__all__ = ["GENERIC", "Start", "choose", "plan_start"]

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
    notes: tuple[str, ...] = ()  # what is done otherwise than it was typed, and why: a line each
    wrapper: str = ""  # the app's script that was typed, and is not run
    made_for: Path | None = None  # the app's own program, where what rocenv made starts it
    has_kernels: bool | None = (
        None  # for the env's target, that came with the app or were made; None = not known
    )
    is_named: bool = False  # the user has said which app it is
    is_taken: bool = False  # its program has another name, and takes the app's arguments by its own help

    @property
    def shown_words(self) -> list[str]:
        """The command as others may see it, without passwords."""
        return without_secrets(self.words, self.launcher.secret_options)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the app."""
        return apply(self.changes, self.outside, _HERE)

    @property
    def title(self) -> str:
        """What to call the app in a sentence."""
        is_other = self.launcher.key == GENERIC or not self.is_app
        return f"`{self.program}`" if is_other else self.launcher.title

    @property
    def program(self) -> str:
        """The name of what is started, behind what only starts it."""
        return name_of((*self._behind_starters(), *self.words)[0])

    @property
    def zluda(self) -> Path | None:
        """The env's ZLUDA; None where the set has none."""
        part = self.record.lock.part("zluda")
        return self.prefix.path / part.into if part else None

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
        names = [*self.programs(), name_of(self.argv()[0]).lower()]
        return any(name.endswith((".bat", ".cmd", ".sh")) for name in names)

    @property
    def is_app(self) -> bool:
        """What is started is the app itself, and not another program in its folder."""
        own = (*self.launcher.entries, *self.launcher.settings)
        is_own = bool(set(self.programs()) & {name.lower() for name in own})
        return self.is_taken or is_own or is_program(self.launcher, self.program)

    @property
    def is_gpu_work(self) -> bool:
        """The app is to do something that the GPU is for, and nobody has asked for the CPU."""
        launcher = self.launcher
        if not self.is_app or self.wants_cpu or any(map(self.gives, launcher.only_tells)):
            return False
        works = (each.split(" + ") for each in launcher.gpu_work)
        return not launcher.gpu_work or any(all(map(self.gives, phrases)) for phrases in works)

    @property
    def wants_cpu(self) -> bool:
        """The user has asked for the CPU."""
        return any(map(self.gives, self.launcher.cpu))

    def gives(self, phrase: str) -> bool:
        """Tell whether a phrase as `-ngl 0` is given to the app."""
        return self._given_to_it().says(phrase)

    def _given_to_it(self) -> Given:
        return Given(
            words=(*self._behind_starters(), *self._in_variable()),
            environ=self.environ,
            options=Options(),
            behind=self.launcher.behind_dashes,
        )

    def programs(self) -> list[str]:
        """Return the names of the programs and files that the command begins with, in lower case."""
        return [name_of(word).lower() for word in self._behind_starters()[:LOOKED_AT]]

    def _behind_starters(self) -> tuple[str, ...]:
        return self.words[program_at(self.words, self.launcher.starters) :]

    def given(self) -> list[str]:
        """Return all arguments that the app will see."""
        return [*self.words, *self._in_variable()]

    def _in_variable(self) -> list[str]:
        name = self.launcher.arguments_variable
        return self.outside.get(name, "").split() if name else []


def plan_start(
    prefix: Prefix,
    record: Record,
    chosen: tuple[Launcher, Path],
    words: Sequence[str],
    outside: Mapping[str, str],
    *,
    is_piped: bool,
    columns: int,
    is_named: bool = False,
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
        is_named: The user has said which app it is.

    Raises:
        RocenvError: There is nothing to start, exit code 2.
    """
    launcher, folder = chosen
    python = str(prefix.path / record.lock.python)
    wrapper, before, words = _without_wrapper(launcher, folder, words)
    if wrapper or not words or words[0].startswith("-"):
        command = launcher.command or _ask_for_one(launcher, prefix.name, words, is_named)
        usual = (fill(word, {"python": python}) for word in command)
        words = (*before, *usual, *words)
    places = {
        "python": python,
        "batch_python": f'"{python}"' if WINDOWS else python,  # batch files put no quotes around it
        "prefix": str(prefix.path),
        "columns": str(columns),
    }
    own = (
        structs.replace(change, value=fill(change.value, places))
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
        wrapper=wrapper,
        is_named=is_named,
        notes=_about_wrapper(launcher, wrapper, words),
    )
    added, notes = _missing_arguments(start)
    return replace(start, words=(*words, *added), added=added, notes=(*start.notes, *notes))


def _without_wrapper(
    launcher: Launcher, folder: Path, words: Sequence[str]
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a script of the app's that is not run, what stands before it, and the arguments given to it.

    Without one these are "", nothing and the words.
    """
    at = program_at(words, launcher.starters)
    typed = words[at : at + 1]
    names = [name_of(path) for word in typed for path in (word, os.path.realpath(word))]
    name = next((each for each in names if each in launcher.wrapper.names), "")
    if _HERE != "linux" or not name or not is_there(launcher, folder):
        return "", (), tuple(words)
    return name, without_readers(words[:at], launcher.starters), tuple(words[at + 1 :])


def _about_wrapper(launcher: Launcher, wrapper: str, words: Sequence[str]) -> tuple[str, ...]:
    if not wrapper:
        return ()
    does = f": {launcher.wrapper.does}" if launcher.wrapper.does else ""
    shown = shell_join(*without_secrets(words, launcher.secret_options))
    return (f"`{wrapper}` is not run{does}; started in its place: {shown}",)


def _ask_for_one(launcher: Launcher, name: str, words: Sequence[str], is_named: bool) -> NoReturn:
    what = (
        "no app is recognised in this folder"
        if launcher.key == GENERIC
        else f"{launcher.title} has no usual one"
    )
    app = ("--app", launcher.key) if is_named else ()
    shown = without_secrets(words, launcher.secret_options)
    typed = f"CMD {shell_join(*shown)}" if words else "CMD…"
    hints = (
        f"give one: `{shell_join('rocenv', 'launch', name, *app)} -- {typed}`",
        *(() if is_named else ("or go to the app's folder, or name the app with `--app`",)),
    )
    raise WrongUsage(f"there is no command to launch, and {what}", hints=hints)


def _changes(launcher: Launcher, is_piped: bool, columns: int) -> Iterable[EnvChange]:
    yield from launcher.environment
    if is_piped:
        yield from launcher.piped
        if columns:
            yield from launcher.coloured


def _missing_arguments(start: Start) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments with which an app takes the env's ZLUDA or its torch, and what to tell of it."""
    launcher = start.launcher
    if not set(start.programs()) & set(launcher.entries):
        return (), ()
    # With ZLUDA an app loads it in the same step in which it would install its torch.
    wanted = launcher.own_torch if start.zluda is None else launcher.zluda_arguments
    added = tuple(each for each in wanted if each not in start.given())
    why = "so that the env's torch stays as it is" if start.zluda is None else "for ZLUDA"
    return added, ((f"added {why}: {' '.join(added)}",) if added else ())

"""Plan how to start an app: its folder, its arguments and its environment."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from msgspec import structs

from rocenv.activate.changes import apply
from rocenv.activate.env import changes_for_user
from rocenv.activate.loader import argv_in
from rocenv.apps.options import Given, Options
from rocenv.apps.recognition import (
    GENERIC,
    LOOKED_AT,
    is_program,
    is_there,
    name_of,
    program_at,
    without_readers,
)
from rocenv.apps.secrets import without_secrets
from rocenv.core.errors import WrongUsage
from rocenv.core.model import EnvChange
from rocenv.core.template import fill
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import Record
    from rocenv.data.apps import Launcher
    from rocenv.prefix import Prefix

_HERE = "windows" if WINDOWS else "linux"  # the platform that rocenv runs on; the env's can be different
# With a pipe instead of a terminal, programs buffer their output, and Python on Windows changes its encoding.
_PIPED = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An app that is about to start."""

    prefix: Prefix
    record: Record
    launcher: Launcher
    folder: Path  # the app's folder
    words: tuple[str, ...]  # the command
    changes: tuple[EnvChange, ...]  # from the env and the app's profile
    outside: Mapping[str, str]  # the environment before these changes
    added: tuple[str, ...] = ()  # arguments that rocenv added
    notes: tuple[str, ...] = ()  # what differs from the user's command, and why, one line each
    wrapper: str = ""  # the app's script that rocenv replaces
    made_for: Path | None = None  # the app's own program, if a script from rocenv starts it
    has_kernels: bool | None = None  # kernels for the env's target, shipped or built; None if unknown
    is_named: bool = False  # the user specified the app
    is_taken: bool = False  # the program has another name, but its help lists the app's arguments

    @property
    def shown_words(self) -> list[str]:
        """The command with secrets masked."""
        return without_secrets(self.words, self.launcher.secret_options)

    @property
    def environ(self) -> dict[str, str]:
        """The app's environment."""
        return apply(self.changes, self.outside, _HERE)

    @property
    def title(self) -> str:
        """The app's name, for messages."""
        is_other = self.launcher.key == GENERIC or not self.is_app
        return f"`{self.program}`" if is_other else self.launcher.title

    @property
    def program(self) -> str:
        """The program's file name, skipping wrappers such as `nice`."""
        return name_of((*self._from_program(), *self.words)[0])

    @property
    def zluda(self) -> Path | None:
        """The env's ZLUDA folder, or None without ZLUDA."""
        part = self.record.lock.part("zluda")
        return self.prefix.path / part.into if part else None

    def argv(self) -> tuple[str, ...]:
        """Resolve the command for the system, as `rocenv run` does.

        Raises:
            CommandNotFound: The program does not exist.
            CommandNotExecutable: The file cannot be executed.
        """
        environ = self.environ
        # Search the current folder, as cmd does, because people start apps with the app's own batch files.
        if WINDOWS and (found := shutil.which(self.words[0], path=environ.get("PATH", ""))):
            return (found, *self.words[1:])
        return argv_in(self.prefix, self.record, self.words, environ)

    @property
    def is_script(self) -> bool:
        """Whether a shell script starts the program; if so, the exit code could be the script's."""
        names = [*self.programs(), name_of(self.argv()[0]).lower()]
        return any(name.endswith((".bat", ".cmd", ".sh")) for name in names)

    @property
    def is_app(self) -> bool:
        """Whether the command starts the app itself, not some other program in its folder."""
        own = (*self.launcher.entries, *self.launcher.settings)
        is_own = bool(set(self.programs()) & {name.lower() for name in own})
        return self.is_taken or is_own or is_program(self.launcher, self.program)

    @property
    def is_gpu_work(self) -> bool:
        """Whether the command makes the app use the GPU; False if the user asked for the CPU."""
        launcher = self.launcher
        if not self.is_app or self.wants_cpu or any(map(self.gives, launcher.only_tells)):
            return False
        return not launcher.gpu_work or any(map(self.gives, launcher.gpu_work))

    @property
    def wants_cpu(self) -> bool:
        """Whether the user asked for the CPU."""
        return any(map(self.gives, self.launcher.cpu))

    def gives(self, phrase: str) -> bool:
        """Whether the user gave an argument such as `-ngl 0`."""
        given = Given(
            words=(*self._from_program(), *self._from_variable()),
            environ=self.environ,
            options=Options(),
            behind=self.launcher.behind_dashes,
        )
        return given.says(phrase)

    def programs(self) -> list[str]:
        """The names of programs and files at the beginning of the command, in lowercase."""
        return [name_of(word).lower() for word in self._from_program()[:LOOKED_AT]]

    def given(self) -> list[str]:
        """All of the app's arguments, including those in its environment variable."""
        return [*self.words, *self._from_variable()]

    def _from_program(self) -> tuple[str, ...]:
        return self.words[program_at(self.words, self.launcher.starters) :]

    def _from_variable(self) -> list[str]:
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
    """Plan how to start an app.

    Args:
        prefix: The env.
        record: Its record.
        chosen: From `choose`.
        words: The command. If it is empty or begins with an option, the app's default command is prepended.
        outside: The current environment.
        is_piped: Whether the app writes to a pipe.
        columns: The width of the terminal that the pipe replaces; 0 without a terminal.
        is_named: Whether the user specified the app.

    Raises:
        RocenvError: There is no command to start (exit code 2).
    """
    launcher, folder = chosen
    python = str(prefix.path / record.lock.python)
    wrapper, before, words = _without_wrapper(launcher, folder, words)
    if wrapper or not words or words[0].startswith("-"):
        command = launcher.command or _no_command(launcher, prefix.name, words, is_named)
        words = (*before, *(fill(word, {"python": python}) for word in command), *words)
    places = {
        "python": python,
        "batch_python": f'"{python}"' if WINDOWS else python,  # batch files do not quote it
        "prefix": str(prefix.path),
    }
    own = [structs.replace(each, value=fill(each.value, places)) for each in launcher.environment]
    start = Start(
        prefix=prefix,
        record=record,
        launcher=launcher,
        folder=folder,
        words=tuple(words),
        changes=(
            *changes_for_user(record.lock, str(prefix.path), outside),
            *own,
            *_for_pipe(is_piped, columns),
        ),
        outside=outside,
        wrapper=wrapper,
        is_named=is_named,
    )
    added = _missing_arguments(start)
    return replace(start, words=(*words, *added), added=added)


def _without_wrapper(
    launcher: Launcher, folder: Path, words: Sequence[str]
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Split a command at one of the app's scripts that would undo the env's settings.

    Returns the script's name, the words before it, and the words after it; without such a script, returns "",
    () and all words.
    """
    at = program_at(words, launcher.starters)
    typed = words[at : at + 1]
    names = [name_of(path) for word in typed for path in (word, os.path.realpath(word))]
    name = next((each for each in names if each in launcher.wrapper.names), "")
    if _HERE != "linux" or not name or not is_there(launcher, folder):
        return "", (), tuple(words)
    return name, without_readers(words[:at], launcher.starters), tuple(words[at + 1 :])


def _no_command(launcher: Launcher, name: str, words: Sequence[str], is_named: bool) -> NoReturn:
    what = (
        "rocenv does not recognize an app in this folder"
        if launcher.key == GENERIC
        else f"{launcher.title} has no default command"
    )
    app = ("--app", launcher.key) if is_named else ()
    python = "python" if WINDOWS else "python3"
    typed = without_secrets(words, launcher.secret_options)
    example = shell_join("rocenv", "launch", name, *app, "--", python, "app.py", *typed)
    hints = (
        f"add the app's command, for example: `{example}`",
        *(() if is_named else ("or change to the app's folder, or specify the app with `--app`",)),
    )
    raise WrongUsage(f"there is no command to launch: {what}", hints=hints)


def _for_pipe(is_piped: bool, columns: int) -> list[EnvChange]:
    values = {
        **(_PIPED if is_piped else {}),
        **({"FORCE_COLOR": "1", "COLUMNS": str(columns)} if is_piped and columns else {}),
    }
    return [EnvChange(action="set", name=name, value=value) for name, value in values.items()]


def _missing_arguments(start: Start) -> tuple[str, ...]:
    """List the missing arguments that make an app use the env's ZLUDA or torch."""
    launcher = start.launcher
    if not set(start.programs()) & set(launcher.entries):
        return ()
    # With ZLUDA, do not skip the app's step that installs torch, because it also loads ZLUDA.
    wanted = launcher.own_torch if start.zluda is None else launcher.zluda_arguments
    return tuple(each for each in wanted if each not in start.given())

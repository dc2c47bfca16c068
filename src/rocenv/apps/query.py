"""Run an app's program to get its help, its GPUs and its version, with limits on time and output."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.loader import find_program
from rocenv.apps.options import Options, read_help
from rocenv.apps.recognition import is_program as has_app_name
from rocenv.apps.recognition import name_of, plain_name, program_at
from rocenv.core.errors import RocenvError
from rocenv.system import process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.apps.start import Start
    from rocenv.data.apps import Launcher
    from rocenv.system.process import Completed

HELP_S = 60.0  # a multi-GB program may unpack itself first
DEVICES_S = 90.0  # waking a sleeping GPU can take a long time
_VERSION_S = 60.0
_MAX_LINE = 4000  # characters per line
_SHOWN = 200  # characters of a line shown in messages


def ask(start: Start, arguments: Sequence[str], timeout_s: float) -> Completed:
    """Run an app's program in the env, with `arguments` instead of the user's.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file cannot be executed.
    """
    words = (*(program_words(start) or start.words[:1]), *arguments)
    argv = replace(start, words=words).argv()
    return process.run(
        argv, environ=start.environ, stderr=process.MERGE, timeout_s=timeout_s, plain_scripts=True
    )


def ask_help(start: Start, timeout_s: float = HELP_S) -> Options:
    """Read this version's arguments from the program's help.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file cannot be executed.
    """
    launcher = start.launcher
    modes = tuple(word for word in start.words if word in launcher.modes)
    answer = ask(start, (*modes, *launcher.help), timeout_s)
    return read_help(answer.text) if answer.ok else Options(problem=answer.end)


def ask_version(start: Start) -> str:
    """Run the program with `--version`, unless it is a script, which might start the app instead.

    Raises:
        RocenvError: The version is unknown.
    """
    if program_path(start) is None:
        raise RocenvError("the program does not exist")
    if not program_words(start):
        raise RocenvError("rocenv does not run scripts to detect their version")
    argv = replace(start, words=program_words(start)).argv()
    return printed_version(argv, start.environ, start.launcher)


def printed_version(argv: Sequence[str], environ: Mapping[str, str] | None, launcher: Launcher) -> str:
    """Run a program with `--version`, and find the version in its output.

    Raises:
        RocenvError: The program failed, or it did not print a version.
    """
    answer = process.run(
        [*argv, "--version"],
        environ=environ,
        stderr=process.MERGE,
        timeout_s=_VERSION_S,
        plain_scripts=True,
    )
    pattern = re.compile(launcher.version)
    for line in answer.lines if answer.ok else ():
        if found := pattern.search(line[:_MAX_LINE]):
            return found["version"]
    last = f"; last line: `{answer.lines[-1].strip()[:_SHOWN]}`" if answer.lines else ""
    end = "it did not print a version" if answer.ok else answer.end
    raise RocenvError(f"with `--version`, {end}{last}")


def program_words(start: Start) -> tuple[str, ...]:
    """The command's words up to the program that accepts the app's arguments, or () if there is none.

    The program must have one of the app's names or a similar one, unless the user specified the app. A
    script's name must match exactly, because other scripts might ignore the arguments and do
    their actual work.
    """
    launcher = start.launcher
    at = program_at(start.words, launcher.starters)
    words = start.words[at : at + 2]
    if not words:
        return ()
    is_first_own = is_program(words[0], launcher) or has_app_name(launcher, words[0])
    by_python = name_of(words[0]).lower().startswith("python")
    has_script = len(words) > 1 and not words[1].startswith("-")
    count = 2 if has_script and by_python and not is_first_own else 1
    word, found = words[count - 1], start.words[: at + count]
    if plain_name(word) in _plain_names((*launcher.entries, *launcher.programs)):
        return found
    is_likely = start.is_named or has_app_name(launcher, word)
    return found if is_likely and not _is_script(found, start) else ()


def is_script(start: Start) -> bool:
    """Whether the command starts a script."""
    at = program_at(start.words, start.launcher.starters)
    return _is_script(start.words[: at + 1], start)


def is_program(word: str, launcher: Launcher) -> bool:
    """Whether a word is the name of a program that accepts the app's arguments."""
    if launcher.entries:
        return plain_name(word) in _plain_names(launcher.entries)
    return has_app_name(launcher, word)


def program_file(words: Sequence[str], environ_path: str) -> Path | None:
    """Find the program file that the last word refers to."""
    name = words[-1] if words else ""
    found = name if os.path.isfile(name) else shutil.which(name, path=environ_path) if name else None
    return Path(found) if found else None


def program_path(start: Start) -> Path | None:
    """Find the file that a command starts, and resolve links; return None if it does not exist."""
    words = program_words(start) or start.words[:1]
    try:
        return Path(os.path.realpath(find_program(words[-1], start.environ)))
    except RocenvError:
        return None


def program_behind(start: Start) -> Path | None:
    """Find the file that a command starts; for an env's launch script, the program that the script starts."""
    path = program_path(start)
    if path is None or path.parent != Path(os.path.realpath(start.prefix.bin)):
        return path
    for part in start.record.lock.components:
        for program in part.layout.programs if part.layout else ():
            behind = start.prefix.path / program.path
            if path.name in (program.names or (behind.name,)) and behind.is_file():
                return behind
    return path


def _is_script(words: Sequence[str], start: Start) -> bool:
    file = program_file(words, start.environ.get("PATH", ""))
    if file is None:
        return False
    try:
        with file.open("rb") as stream:
            return not stream.read(4).startswith((b"\x7fELF", b"MZ"))
    except OSError:
        return True


def _plain_names(words: Sequence[str]) -> set[str]:
    return set(map(plain_name, words))

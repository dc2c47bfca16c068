"""Asking a program something before it is started for good: bounded in time and in what it may print."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.launch.recognition import is_program as recognised
from rocenv.launch.recognition import name_of, program_at
from rocenv.system import process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.apps import Launcher
    from rocenv.launch.start import Start
    from rocenv.system.process import Completed

__all__ = ["ask", "is_executable", "is_helper", "is_program", "is_script", "program_file", "program_words"]


def program_words(start: Start) -> tuple[str, ...]:
    """Return the words up to the program that takes the app's arguments; () where none is known to.

    That is a program of one of the app's own names, or one of a likely name, or whatever is started where the
    user has said which app it is. Of the latter two no script: it may do its work whatever it is asked.
    """
    launcher = start.launcher
    at = program_at(start.words, launcher.starters)
    words = start.words[at : at + 2]
    if not words:
        return ()
    is_first_own = is_program(words[0], launcher) or recognised(launcher, words[0])
    by_another = name_of(words[0]).lower().startswith("python")
    has_script = len(words) > 1 and not words[1].startswith("-")
    count = 2 if has_script and by_another and not is_first_own else 1
    word, found = words[count - 1], start.words[: at + count]
    if _has_own_name(word, launcher):
        return found
    is_likely = start.is_named or recognised(launcher, word)
    return found if is_likely and not _is_script(found, start) else ()


def is_script(start: Start) -> bool:
    """Tell whether what is started, behind what only starts it, is a script."""
    at = program_at(start.words, start.launcher.starters)
    return _is_script(start.words[: at + 1], start)


def _is_script(words: Sequence[str], start: Start) -> bool:
    file = program_file(words, start.environ.get("PATH", ""))
    return file is not None and not is_executable(file)


def program_file(words: Sequence[str], environ_path: str) -> Path | None:
    """Return the file of the program that words end with."""
    name = words[-1] if words else ""
    found = name if os.path.isfile(name) else shutil.which(name, path=environ_path) if name else None
    return Path(found) if found else None


def _has_own_name(word: str, launcher: Launcher) -> bool:
    names = {each.lower().removesuffix(".exe") for each in (*launcher.entries, *launcher.programs)}
    return name_of(word).lower().removesuffix(".exe") in names


def is_program(word: str, launcher: Launcher) -> bool:
    """Tell whether a word names a program that takes an app's arguments."""
    name = name_of(word).lower().removesuffix(".exe")
    if launcher.entries:
        return name in [each.lower().removesuffix(".exe") for each in launcher.entries]
    return recognised(launcher, word)


def is_helper(word: str, launcher: Launcher) -> bool:
    """Tell whether a word names a program of an app that has nothing to do on a GPU."""
    return name_of(word).lower().removesuffix(".exe") in launcher.helpers


def is_executable(path: Path) -> bool:
    """Whether a file is a program of Linux or Windows itself, and no script."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"MZ"))
    except OSError:
        return False


def ask(start: Start, arguments: Sequence[str], timeout_s: float) -> Completed:
    """Run the program of a start with other arguments, in the env, and return what it says.

    Args:
        start: What is about to be started.
        arguments: In place of the user's.
        timeout_s: After which it is ended, with all that it started.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    words = (*(program_words(start) or start.words[:1]), *arguments)
    argv = replace(start, words=words).argv()
    return process.run(
        argv, environ=start.environ, stderr=process.MERGE, timeout_s=timeout_s, plain_scripts=True
    )

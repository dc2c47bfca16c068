"""Asking a program something before it is started for good: bounded in time and in what it may print."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.launch.recognition import is_program as recognised
from rocenv.launch.recognition import name_of, program_at
from rocenv.system.bounded import Answer, ended, run_bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.launch.start import Start
    from rocenv.matrix.apps import Launcher

__all__ = ["Answer", "ask", "ended", "is_program", "program_words"]


def program_words(start: Start) -> tuple[str, ...]:
    """Return the words up to the program that takes the app's arguments; () where none is known to.

    That is a program of a known name, or whatever is started where the user has said which app it is.
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
    word = words[count - 1]
    if start.is_named or is_program(word, launcher) or recognised(launcher, word):
        return start.words[: at + count]
    return ()


def is_program(word: str, launcher: Launcher) -> bool:
    """Tell whether a word names a program that takes an app's arguments."""
    name = name_of(word).lower().removesuffix(".exe")
    if launcher.entries:
        return name in [each.lower().removesuffix(".exe") for each in launcher.entries]
    return recognised(launcher, word)


def ask(start: Start, arguments: Sequence[str], timeout_s: float) -> Answer:
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
    return run_bounded(argv, start.environ, timeout_s)

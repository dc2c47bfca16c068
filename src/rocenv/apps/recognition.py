"""Recognize which app a command starts, and find its folder."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.data.apps import Launcher, Starter

GENERIC = "generic"
LOOKED_AT = 4  # how many words at the start of a command are checked for the app's files
_WILDCARDS = "*?[]"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def choose(
    launchers: Sequence[Launcher],
    key: str,
    words: Sequence[str],
    here: Path,
    *,
    platform: str = "",
    own: str = "",
) -> tuple[Launcher, Path]:
    """Find the profile and folder of the app that a command starts.

    The program's name takes precedence, then the files around it, and finally the app that the env was
    created for.

    Args:
        launchers: All profiles.
        key: The app that the user specified; "" to recognize it.
        words: The command; it can be empty.
        here: The current folder.
        platform: The env's platform; "" for any.
        own: The app that the env was created for; "" if none.

    Raises:
        RocenvError: The app does not exist, or does not run on this platform (exit code 2).
    """
    known = {launcher.key: launcher for launcher in launchers}
    if GENERIC not in known:
        raise RocenvError("the data does not contain the app `generic`", hints=("check ROCENV_PROFILES",))
    if key:
        _require(key, known, platform)
    usable = [known[each] for each in sorted(known) if _runs_on(known[each], platform)]
    allowed = [each for each in usable if key in ("", each.key)]
    command = words[program_at(words, known[GENERIC].starters) :]
    found = _by_program(allowed, command, here) or _by_files(allowed, _folders(command, here))
    if found is None:
        launcher = next((each for each in usable if each.key == (key or own)), known[GENERIC])
        found = launcher, here
    return found[0].inheriting(known[GENERIC]), found[1]


def _require(key: str, known: dict[str, Launcher], platform: str) -> None:
    if key in known and _runs_on(known[key], platform):
        return
    text, code = f"there is no app `{key}`", "usage"
    if key in known:
        text, code = f"{known[key].title} runs only on {known[key].platforms[0].title()}", "app-platform"
    names = ", ".join(sorted(each for each in known if _runs_on(known[each], platform)))
    raise WrongUsage(text, hints=(f"use one of these with `--app`: {names}",), code=code)


def _runs_on(launcher: Launcher, platform: str) -> bool:
    return not platform or platform in launcher.platforms


def program_at(words: Sequence[str], starters: Sequence[Starter]) -> int:
    """Find the index of a command's actual program, after words such as `env A=1 nice -n 5`.

    Returns the command's length if no program follows.
    """
    return max((end for _starter, _begin, end in _started(words, starters)), default=0)


def without_readers(words: Sequence[str], starters: Sequence[Starter]) -> tuple[str, ...]:
    """Return the words of a command's wrappers (`env`, `nice`) except shells that read a script."""
    kept = (words[begin:end] for starter, begin, end in _started(words, starters) if not starter.reads)
    return tuple(word for part in kept for word in part)


def _started(words: Sequence[str], starters: Sequence[Starter]) -> Iterator[tuple[Starter, int, int]]:
    """Yield each wrapper at the beginning of a command, such as `nice`, and where its words start and end."""
    at = 0
    while at < len(words):
        starter = next((each for each in starters if plain_name(words[at]) in each.names), None)
        if starter is None:
            return
        begin, at = at, _end_of(starter, words, at + 1)
        yield starter, begin, at


def _end_of(starter: Starter, words: Sequence[str], at: int) -> int:
    operands = starter.operands
    while at < len(words):
        word = words[at]
        if _has_inline_script(starter, word):
            return len(words)
        if word.startswith("-") or word in starter.valued:
            at += 1 + _takes_next_word(starter, word)
        elif _ASSIGNMENT.match(word):
            at += 1
        elif operands:
            operands, at = operands - 1, at + 1
        else:
            break
    return min(at, len(words))


def _has_inline_script(starter: Starter, word: str) -> bool:
    """Whether this word is or contains an option for an inline script, such as `-c` or `-ec`."""
    letters = [each[1] for each in starter.inline if len(each) == 2]
    is_short = word.startswith("-") and not word.startswith("--")
    return word.partition("=")[0] in starter.inline or (is_short and any(each in word for each in letters))


def _takes_next_word(starter: Starter, word: str) -> bool:
    """Whether the next word is the value for this option, or for the last one in a group such as `-eo`."""
    return word in starter.valued or (word[1:].isalpha() and f"{word[0]}{word[-1]}" in starter.valued)


def is_program(launcher: Launcher, word: str) -> bool:
    """Whether a word is a program name that identifies the app."""
    return _likeness(launcher, word) > 0


def _by_program(
    launchers: Iterable[Launcher], words: Sequence[str], here: Path
) -> tuple[Launcher, Path] | None:
    word = words[0] if words else ""
    best = max(launchers, key=lambda each: _likeness(each, word), default=None)
    if best is None or not is_program(best, word):
        return None
    return best, Path(os.path.abspath(here / word)).parent if os.path.dirname(word) else here


def _likeness(launcher: Launcher, word: str) -> int:
    """Count the literal characters in the best matching pattern: `*.llamafile` beats `l*`."""
    names = {name_of(word).lower(), plain_name(word)}
    matching = (each for each in launcher.programs if any(fnmatchcase(name, each.lower()) for name in names))
    return max((sum(char not in _WILDCARDS for char in pattern) for pattern in matching), default=0)


def _by_files(launchers: Sequence[Launcher], folders: Iterable[Path]) -> tuple[Launcher, Path] | None:
    return next(((each, folder) for folder in folders for each in launchers if is_there(each, folder)), None)


def is_there(launcher: Launcher, folder: Path) -> bool:
    """Whether a folder contains the files that identify the app, and none that rule it out."""
    return (
        bool(launcher.signs)
        and all((folder / name).exists() for name in launcher.signs)
        and not any((folder / name).exists() for name in launcher.unlike)
    )


def _folders(words: Sequence[str], here: Path) -> list[Path]:
    """List the folders that could contain the app, most likely first."""
    named = [
        Path(place(here / word)).parent
        for word in words[:LOOKED_AT]
        if not word.startswith("-") and os.path.isfile(here / word)
        for place in (os.path.abspath, os.path.realpath)  # links to the app's script can be anywhere
    ]
    return list(dict.fromkeys((*named, here)))


def name_of(word: str) -> str:
    """The last component of a path, in this operating system's syntax."""
    return word.replace("\\", "/").rpartition("/")[2] if WINDOWS else os.path.basename(word)


def plain_name(word: str) -> str:
    """A program's name in lowercase, without its folder or `.exe`."""
    return name_of(word).lower().removesuffix(".exe")

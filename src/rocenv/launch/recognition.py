"""Which app it is that is to be started, and where it lies."""

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
LOOKED_AT = 4  # words of a command that may name a file of the app
_ANYTHING = "*?[]"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")


def choose(
    launchers: Sequence[Launcher],
    key: str,
    words: Sequence[str],
    here: Path,
    *,
    platform: str = "",
    own: str = "",
) -> tuple[Launcher, Path]:
    """Return how an app is started and where it lies.

    It is recognised by the name of the program, then by the files around it, and last by what the env is for.

    Args:
        launchers: All there are.
        key: The one that was asked for; "" = the app is recognised.
        words: The command, which may name a file of it; may be empty.
        here: The folder that the command is given in.
        platform: What the env is for; "" = any.
        own: The app that the env was made for; "" = none, or not known.

    Raises:
        RocenvError: There is no such app, or none for this platform, exit code 2.
    """
    known = {launcher.key: launcher for launcher in launchers}
    if GENERIC not in known:
        raise RocenvError("the data has no app `generic`", hints=("check ROCENV_PROFILES",))
    if key:
        _require(key, known, platform)
    fitting = [known[each] for each in sorted(known) if _is_for(known[each], platform)]
    asked = [each for each in fitting if key in ("", each.key)]
    command = words[program_at(words, known[GENERIC].starters) :]
    found = _by_program(asked, command, here) or _by_files(asked, _folders(command, here))
    if found is None:
        launcher = next((each for each in fitting if each.key == (key or own)), known[GENERIC])
        found = launcher, here
    return found[0].inheriting(known[GENERIC]), found[1]


def _require(key: str, known: dict[str, Launcher], platform: str) -> None:
    if key in known and _is_for(known[key], platform):
        return
    text, code = f"there is no app `{key}`", "usage"
    if key in known:
        code = "app-platform"
        text = (
            f"{known[key].title} is not started on {platform}: its profile is for {known[key].platforms[0]}"
        )
    names = ", ".join(sorted(each for each in known if _is_for(known[each], platform)))
    hints = (f"`--app` takes one of {names}",)
    raise WrongUsage(text, hints=hints, code=code)


def _is_for(launcher: Launcher, platform: str) -> bool:
    return not platform or platform in launcher.platforms


def program_at(words: Sequence[str], starters: Sequence[Starter]) -> int:
    """Return where the program of a command stands, behind programs that only start another one.

    It is the number of words where they start none.
    """
    return max((end for _starter, _begin, end in _started(words, starters)), default=0)


def without_readers(words: Sequence[str], starters: Sequence[Starter]) -> tuple[str, ...]:
    """Return the words before the program of a command, but those of shells that run it line by line."""
    kept = (words[begin:end] for starter, begin, end in _started(words, starters) if not starter.reads)
    return tuple(word for part in kept for word in part)


def _started(words: Sequence[str], starters: Sequence[Starter]) -> Iterator[tuple[Starter, int, int]]:
    """Yield what only starts another program, with the place of its own words."""
    at = 0
    while at < len(words):
        name = name_of(words[at]).lower().removesuffix(".exe")
        starter = next((each for each in starters if name in each.names), None)
        if starter is None:
            return
        begin, at = at, _behind(starter, words, at + 1)
        yield starter, begin, at


def _behind(starter: Starter, words: Sequence[str], at: int) -> int:
    operands = starter.operands
    while at < len(words):
        word = words[at]
        if _is_inline(starter, word):
            return len(words)
        if word.startswith("-") or word in starter.valued:
            at += 1 + _is_followed(starter, word)
        elif _ASSIGNED.match(word):
            at += 1
        elif operands:
            operands, at = operands - 1, at + 1
        else:
            break
    return min(at, len(words))


def _is_inline(starter: Starter, word: str) -> bool:
    """Tell whether a text to be run follows an argument, which may stand among others: `-ec`."""
    letters = [each[1] for each in starter.inline if len(each) == 2]
    is_short = word.startswith("-") and not word.startswith("--")
    return word.partition("=")[0] in starter.inline or (is_short and any(each in word for each in letters))


def _is_followed(starter: Starter, word: str) -> bool:
    """Tell whether a word of its own follows an argument, which may be the last of several: `-eo`."""
    return word in starter.valued or (word[1:].isalpha() and f"{word[0]}{word[-1]}" in starter.valued)


def is_program(launcher: Launcher, word: str) -> bool:
    """Tell whether a word is the name of a program by which an app is recognised."""
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
    """Return how many letters of a program's name an app's patterns name: `*.llamafile` is more than `l*`."""
    name = name_of(word).lower()
    names = {name, name.removesuffix(".exe")}
    fits = (each for each in launcher.programs if any(fnmatchcase(name, each.lower()) for name in names))
    return max((sum(char not in _ANYTHING for char in pattern) for pattern in fits), default=0)


def _by_files(launchers: Sequence[Launcher], folders: Iterable[Path]) -> tuple[Launcher, Path] | None:
    return next(((each, folder) for folder in folders for each in launchers if is_there(each, folder)), None)


def is_there(launcher: Launcher, folder: Path) -> bool:
    """Tell whether an app lies in a folder, as far as its profile says how that looks."""
    return (
        bool(launcher.signs)
        and all((folder / name).exists() for name in launcher.signs)
        and not any((folder / name).exists() for name in launcher.unlike)
    )


def _folders(words: Sequence[str], here: Path) -> list[Path]:
    """Return the folders that the app may lie in, the likeliest first: those of the files that are named."""
    named = [
        Path(place(here / word)).parent
        for word in words[:LOOKED_AT]
        if not word.startswith("-") and os.path.isfile(here / word)
        for place in (os.path.abspath, os.path.realpath)  # links to an app's script lie anywhere
    ]
    return list(dict.fromkeys((*named, here)))


def name_of(word: str) -> str:
    """Return the last part of a path, by the rules of the system that it is started on."""
    return word.replace("\\", "/").rpartition("/")[2] if WINDOWS else os.path.basename(word)

"""Which app it is that is to be started, and where it lies."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.matrix.apps import inherited
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.matrix.apps import Launcher

GENERIC = "generic"
LOOKED_AT = 4  # words of a command that may name a file of the app
_SHELLS = (
    "sh",
    "bash",
    "dash",
    "zsh",
)  # a llamafile is started by one where the system takes it for no program
_ANYTHING = "*?[]"


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
    folders = _folders(words, here)
    found = _by_program(asked, words, here) or _by_files(asked, folders)
    if found is None:
        launcher = next((each for each in fitting if each.key == (key or own)), known[GENERIC])
        found = launcher, folders[0]
    return inherited(found[0], known[GENERIC]), found[1]


def _require(key: str, known: dict[str, Launcher], platform: str) -> None:
    if key in known and _is_for(known[key], platform):
        return
    text = f"there is no app `{key}`"
    if key in known:
        text = (
            f"{known[key].title} is not started on {platform}: its profile is for {known[key].platforms[0]}"
        )
    names = ", ".join(sorted(each for each in known if _is_for(known[each], platform)))
    hints = (f"`--app` takes one of {names}; without it the app is recognised",)
    error = RocenvError(text, hints=hints, code="usage")
    error.exit_code = 2
    raise error


def _is_for(launcher: Launcher, platform: str) -> bool:
    return not platform or platform in launcher.platforms


def program_of(words: Sequence[str]) -> str:
    """Return the word of a command that names the program it is about; "" where it names none."""
    if not words or words[0].startswith("-"):
        return ""
    is_shell = name_of(words[0]).lower() in _SHELLS and len(words) > 1 and not words[1].startswith("-")
    return words[1] if is_shell else words[0]


def is_program(launcher: Launcher, word: str) -> bool:
    """Tell whether a word is the name of a program by which an app is recognised."""
    return _likeness(launcher, word) > 0


def _by_program(
    launchers: Iterable[Launcher], words: Sequence[str], here: Path
) -> tuple[Launcher, Path] | None:
    word = program_of(words)
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
    """Return the folders that the app may lie in, the likeliest first."""
    named = [
        Path(os.path.abspath(here / word)).parent
        for word in words[:LOOKED_AT]
        if not word.startswith("-") and os.path.isfile(here / word)
    ]
    return [here, *(folder for folder in named if folder != here)]


def name_of(word: str) -> str:
    """Return the last part of a path, by the rules of the system that it is started on."""
    return word.replace("\\", "/").rpartition("/")[2] if WINDOWS else os.path.basename(word)

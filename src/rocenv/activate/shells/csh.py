"""tcsh, which is also `csh` on most systems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import EXECUTED_STATUS, RESOURCES, fill, resource_text
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.env import Env, Place

FILE = "activate.csh"
# tcsh shell variables that would hide environment variables and cannot be unset. Source: tcsh(1),
# "Special shell variables"
_OWN = frozenset(
    {"argv", "cwd", "dirstack", "euid", "euser", "gid", "group", "histchars", "home", "noglob", "owd", "path"}
    | {"prompt", "prompt2", "prompt3", "shell", "shlvl", "status", "tcsh", "term", "tty", "uid", "user"}
    | {"verbose", "version"}
)
_GLOBS = str.maketrans(dict.fromkeys("*?[]{}^\\~", "?"))


def quote(value: str) -> str:
    """Put `value` in single quotes, as a single literal word in a script."""
    return "'" + value.replace("'", "'\\''").replace("\n", "\\\n") + "'"


def typed(word: str) -> str:
    """Quote a literal word for a prompt, where history expansion applies even within quotes."""
    return quote(word).replace("!", "\\!")


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f"source {typed(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script.

    Raises:
        DataError: A change affects a variable that tcsh reserves.
    """
    for name in env.changed:
        if name in _OWN:
            raise DataError(f"`{name}` is a variable that tcsh reserves")
    others = [name for name in env.changed if name != "PATH"]
    _, *texts = re.split(r"^: TEXT (\w+)\n", resource_text("csh-texts.csh"), flags=re.MULTILINE)
    named = zip(texts[::2], texts[1::2], strict=True)
    script, mark = env.path(FILE), f"({env.label}) "
    words = {
        "LABEL": env.label,
        "IDENT": env.ident,
        "SCRIPT": quote(script),
        "MARKER": quote(env.marker),
        "EXECUTED": quote(f"source this file instead of running it:  {source(script)}"),
        "STATUS": str(EXECUTED_STATUS),
        "GONE": quote(env.gone),
        "TEXTS": " ".join(f"_ROCENV_{name}={quote(text.rstrip())}" for name, text in named),
        "ARE_OTHERS_SET": _are_set(others),
        "ARE_WATCHED_SET": _are_set(env.watched),
        "HAD": "\n".join(f"if ($?{name}) set _rocenv_had=($_rocenv_had {name})" for name in others),
        "CHANGES": "\n".join(_changes(env)),
        "CHANGED": " ".join(env.changed),
        "NEW": " ".join(f"x${name}:q" if name in env.after else "u" for name in env.changed),
        "CUTS": "".join(
            f" _ROCENV_CUT_{env.ident}_{name}=({' '.join(map(quote, entries))})"
            for name, entries in env.lists.items()
        ),
        "LISTS": " ".join(env.lists),
        "WATCHED": " ".join(env.watched),
        "MARK": quote(mark),
        "UNMARK": quote(_unmark(mark)),
    }
    return {FILE: fill("csh.csh", words)}


def _are_set(names: Sequence[str]) -> str:
    return "".join(f"$?{name}" for name in names)


def _changes(env: Env) -> list[str]:
    """Render the changes; each list is set only once, because tcsh rereads the folders on PATH each time."""
    words = {"PREFIX": quote(env.prefix), "IDENT": env.ident}
    found = [fill("csh-cache.csh", words).rstrip()] if env.caches else []
    for change in env.changes:
        if (rest := env.cached(change)) is not None:
            found.append(f"''setenv {change.name} $_rocenv_cache:q{quote(rest)}")
        elif change.action == "set":
            found.append(f"''setenv {change.name} {quote(change.value)}")
        elif change.action == "unset":
            found.append(f"''unsetenv {change.name}")
    return [*found, *(_prepend(name, entries) for name, entries in env.lists.items())]


def _prepend(name: str, entries: Sequence[str]) -> str:
    newest = list(dict.fromkeys(reversed(entries)))
    # Quotes do not make a pattern literal, so this may match a different entry; the code that then runs
    # compares exactly.
    there = " || ".join(f"${{_rocenv_l:q}}: =~ *:{quote(entry.translate(_GLOBS))}:*" for entry in newest)
    cuts = "\n".join(f"set _rocenv_e={quote(entry)}\n''eval $_ROCENV_CUT:q" for entry in newest)
    return f"""\
set _rocenv_l=
if ($?{name}) then
if ($%{name}) set _rocenv_l=:${name}:q
if ({there}) then
{cuts}
endif
endif
set _rocenv_l=:{":".join(map(quote, newest))}$_rocenv_l:q
''setenv {name} $_rocenv_l:s/://:q"""


def _unmark(mark: str) -> str:
    # A venv activated on top of the env has saved the prompt with our label, and prepended its own.
    return f"""\
if ($?_OLD_VIRTUAL_PROMPT) then
set _OLD_VIRTUAL_PROMPT=$_OLD_VIRTUAL_PROMPT:s/{mark}//:q
endif
if ("$prompt:q" =~ *{quote(mark)}*) set prompt=$prompt:s/{mark}//:q"""


def hook(place: Place) -> str:
    """Return the line for `~/.tcshrc`; it sources files, because backquotes yield only a single line."""
    folder = RESOURCES / "tcsh-hook"
    words = (str(folder / "load.csh"), str(folder), place.program, place.envs)
    return " ".join(["''source", *map(typed, words)]) + "\n"

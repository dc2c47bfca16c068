"""xonsh: a Python script in the form of a single statement that xonsh and Python parse the same way.

xonsh's own parser is slow and treats a line as a command whenever it can. So the script is a single string
that is passed to `exec` within an `if`, which cannot be mistaken for a command. Values in the string do not
contain quotation marks, which could end it. The script is ASCII, so `$XONSH_ENCODING` does not matter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import resource_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.activate.env import Env, Place

FILE = "activate.xsh"
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")


def quote(value: str) -> str:
    """Return an ASCII Python literal in which quotation marks are escaped."""
    escaped = value.encode("unicode_escape").decode("ascii")
    return '"' + escaped.replace('"', "\\x22").replace("'", "\\x27") + '"'


def source(script: str) -> str:
    """Return the command that sources the script."""
    # xonsh expands `$NAME` even within quotes, unless the word comes from Python.
    return f"source {script}" if _PLAIN.fullmatch(script) else f"source @({script!r})"


def files(env: Env) -> dict[str, str]:
    """Render the script."""
    changes = (_tuple(each.action, each.name, each.value) for each in env.changes)
    caches = (_tuple(name, rest) for name, rest in env.caches.items())
    restore = (_tuple(name, *env.lists.get(name, ())) for name in env.changed)
    names = {
        "SOURCE": quote(source(env.path(FILE))),
        "GONE": quote(f"rocenv: {env.gone}"),
        "COPIED": quote(f"rocenv: {env.copied}"),
        "MARKER": quote(env.marker),
        "IDENT": quote(env.ident),
        "LABEL": quote(f"({env.label}) "),
        "CHANGES": _list(changes),
        "PREFIX": quote(env.prefix),
        "CACHES": _list(caches),
        "RESTORE": _list(restore),
        "LEFTOVERS": _tuple(*env.watched),
    }
    first = f"# Source this file to activate the env {quote(env.label)}. `deactivate` undoes it.\n"
    return {FILE: first + _statement("xonsh.xsh", names)}


def encode(script: str) -> bytes:
    """Encode the script."""
    return script.encode("ascii")


def _tuple(*values: str) -> str:
    return "(" + ", ".join(map(quote, values)) + ",)"


def _list(items: Iterable[str]) -> str:
    return "\n".join(["[", *(f"{item}," for item in items), "]"])


def _statement(resource: str, names: Mapping[str, str]) -> str:
    """Return the statement that runs a resource file with these names bound to values from `quote`."""
    given = "\n".join(f"{name} = {value}" for name, value in names.items())
    return f"""\
if __import__("builtins").exec(r'''
{given}
{resource_text(resource)}''', {{"__name__": __name__}}): pass
"""


def hook(place: Place) -> str:
    """Render the code that the line in ~/.xonshrc runs."""
    return _statement("xonsh-hook.xsh", {"PROGRAM": quote(place.program), "ENVS": quote(place.envs)})

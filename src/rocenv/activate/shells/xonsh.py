"""xonsh: a script in Python, in the form of one statement that is the same to xonsh and to Python.

xonsh reads a script with a parser of its own, which is slow, and takes a line for a command wherever it can.
So the script is one text that is handed to `exec`, within an `if`, which cannot be taken for a command. In
that text no value has a quotation mark, which could end it. It is ASCII, whatever `$XONSH_ENCODING` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.xonsh_runtime import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.xsh"
platforms = ("linux",)
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")


def source(script: str) -> str:
    """Return what a person types to source the script."""
    # xonsh expands `$NAME` even within quotes, unless the word comes from Python.
    return f"source {script}" if _PLAIN.fullmatch(script) else f"source @({script!r})"


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` as a literal of Python, in ASCII and with no quotation mark in it."""
    escaped = value.encode("unicode_escape").decode("ascii")
    return '"' + escaped.replace('"', "\\x22").replace("'", "\\x27") + '"'


def save(_ident: str, _names: Sequence[str]) -> str:
    """Return nothing: the script remembers whatever it has to restore."""
    return ""


def set(name: str, value: str) -> str:
    """Set."""
    return _tuple("set", name, value)


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return _tuple("prepend", name, value)


def unset(name: str) -> str:
    """Make the variable absent."""
    return _tuple("unset", name, "")


def restore(_ident: str, name: str, _after: str | None, entries: Sequence[str]) -> str:
    """Name what is to be restored, and the entries to take out if the user has changed the list."""
    return _tuple(name, *entries)


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    names = {
        "SOURCE": quote(source(parts.script)),
        "PREFIX": quote(parts.prefix),
        "MARKER": quote(parts.marker),
        "IDENT": quote(parts.ident),
        "LABEL": quote(f"({parts.label}) "),
        "CHANGES": _list(parts.change),
        "RESTORE": _list(parts.restore),
        "LEFTOVERS": _tuple(*parts.leftovers),
    }
    return f"""\
# To be sourced: activates the env {quote(parts.label)}, and adds `deactivate`, which takes that back.
{statement(RUNTIME, names)}"""


def statement(code: str, names: Mapping[str, str]) -> str:
    """Return the statement that runs Python code, to which names mean values that were printed by `quote`."""
    given = "\n".join(f"{name} = {value}" for name, value in names.items())
    return f"""\
if __import__("builtins").exec(r'''
{given}
{code}''', {{"__name__": __name__}}): pass
"""


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the script's bytes."""
    return script.encode("ascii")


def _tuple(*values: str) -> str:
    return "(" + ", ".join(map(quote, values)) + ",)"


def _list(items: Sequence[str]) -> str:
    return "\n".join(["[", *(f"{item}," for item in items), "]"])

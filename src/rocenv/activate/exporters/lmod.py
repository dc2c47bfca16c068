"""Lmod modules, in Lua.

Loading a module activates the env, and unloading it restores the previous environment. `family` makes Lmod
replace a loaded env with the new one.

Source: lmod.readthedocs.io, "Lua Modulefile Functions"
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.env import fill
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from rocenv.activate.env import Env, Surroundings
    from rocenv.core.model import EnvChange


def quote(value: str) -> str:
    """Return a literal in plain ASCII, which does not depend on the locale."""
    return '"' + "".join(map(_escaped, os.fsencode(value))) + '"'


def _escaped(byte: int) -> str:
    char = chr(byte)
    return char if 32 <= byte < 127 and char not in '"\\' else f"\\{byte:03d}"


def render(env: Env, _surroundings: Surroundings) -> str:
    """Render the module.

    Raises:
        DataError: A value contains a control character, which Lmod would pass to the shell unquoted.
    """
    for change in env.changes:
        if any(ord(char) < 32 or ord(char) == 127 for char in change.value):
            raise DataError(
                f"the value of `{change.name}` contains a control character, which Lmod does not support"
            )
    words = {
        "NAME": quote(f"The rocenv env {env.label} at {env.prefix}"),
        "PREFIX": quote(env.prefix),
        "IDENT": quote(f"/rocenv/{env.ident}"),
        "MARKER": quote(env.marker),
        "GONE": quote(f"rocenv: the env at {env.prefix} no longer exists, or you are not allowed to read it"),
        "CHANGES": "\n".join(_change(env, change) for change in env.changes),
    }
    return fill("lmod.lua", words)


def _change(env: Env, change: EnvChange) -> str:
    name = quote(change.name)
    if change.action == "prepend":
        return f"prepend_path({name}, {quote(change.value)})"
    if change.action == "unset":
        return f"pushenv({name}, false)"
    rest = env.cached(change)
    value = quote(change.value) if rest is None else f"cache .. {quote(rest)}"
    return f"pushenv({name}, {value})"

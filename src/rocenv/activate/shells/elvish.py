"""elvish: `activate.elv`, which is read and evaluated, because elvish cannot source a file.

Definitions in evaluated code disappear when the code ends, so the script adds `deactivate` to the prompt's
namespace. A user's script has no prompt, so activation assigns to the script's own `deactivate`. elvish
compiles the complete script before running it, so the script must define `fn deactivate { }` before the
line that activates the env.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import fill, resource_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "activate.elv"
_NO_UTF_8 = re.compile("[\udc80-\udcff]")


def quote(value: str) -> str:
    r"""Put `value` in single quotes, in which only a single quote is special.

    Source code must be UTF-8, and elvish replaces invalid bytes, so they are written as `\xHH` in double
    quotes.
    """
    if not _NO_UTF_8.search(value):
        return "'" + value.replace("'", "''") + "'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _NO_UTF_8.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", escaped) + '"'


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f"eval (slurp < {quote(script)})"


def files(env: Env) -> dict[str, str]:
    """Render the script."""
    executed = f"rocenv: source this file instead of running it:  {source(env.path(FILE))}"
    lists = " ".join(f"&{name}={_list(entries)}" for name, entries in env.lists.items())
    words = {
        "LABEL": env.label,
        "EXECUTED": quote(executed),
        "GONE": quote(f"rocenv: {env.gone}"),
        "MARKER": quote(env.marker),
        "IDENT": env.ident,
        "MARK": quote(f"({env.label}) "),
        "NAMES": _list(env.changed),
        "WATCHED": _list(env.watched),
        "LISTS": f"[{lists or '&'}]",
        "CACHE": quote(env.path("cache") if env.caches else ""),
        "CHANGES": f"[{' '.join(_change(env, each) for each in env.changes)}]",
        "CODE": quote(resource_text("elvish-shared.elv") + resource_text("elvish-library.elv")),
    }
    return {FILE: fill("elvish.elv", words)}


def _change(env: Env, change: EnvChange) -> str:
    if change.action == "unset":
        return f"[unset {change.name}]"
    rest = env.caches.get(change.name)
    if rest is not None:
        return f"[cache {change.name} {quote(rest)}]"
    return f"[{change.action} {change.name} {quote(change.value)}]"


def _list(values: Iterable[str]) -> str:
    return f"[{' '.join(map(quote, values))}]"


def hook(place: Place) -> str:
    """Render the code for `rc.elv`."""
    code = resource_text("elvish-shared.elv") + resource_text("elvish-hook.elv")
    words = {"PROGRAM": quote(place.program), "ENVS": quote(place.envs), "CODE": quote(code)}
    return fill("elvish-load.elv", words)

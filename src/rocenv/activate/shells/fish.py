"""fish, from 3.0 on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import EXECUTED_STATUS, fill, resource_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "activate.fish"


def quote(value: str) -> str:
    r"""Put `value` in single quotes, within which nothing but `\` and `'` is special to fish."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def source(script: str) -> str:
    """What a person types to source the script."""
    return f"source {quote(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script."""
    library = resource_text("fish-library.fish")
    functions = ["_rocenv_lib", "rocenv_deactivate", *re.findall(r"^function (_rocenv_\w+)", library, re.M)]
    others = [name for name in env.changed if name != "PATH"]
    script = env.path(FILE)
    single = [_change(change) for change in env.changes if change.name not in env.lists]
    lists = [_put_first(name, entries) for name, entries in env.lists.items()]
    lists += [f'set -g _ROCENV_NEW_{name}_{env.ident} "x${name}"' for name in env.lists]
    words = {
        "LABEL": env.label,
        "MARK": quote(f"({env.label}) "),
        "IDENT": env.ident,
        "MARKER": quote(env.marker),
        "EXECUTED": quote(f"rocenv: this file is to be sourced, not run. Type:  {source(script)}"),
        "STATUS": str(EXECUTED_STATUS),
        "GONE": quote(f"rocenv: {env.gone}"),
        "LIBRARY": quote(library.replace("__FUNCTIONS__", " ".join(functions))),
        "OTHERS": " ".join(others),
        "ALL_UNSET": str(len(others) + 1),
        "ALL_LOCAL_UNSET": str(len(others) + 2),
        "CHANGES": "\n".join([*single, *lists]),
        "RESTORE": quote("\n".join(_restore(env, name) for name in env.changed)),
        "WATCHED": " ".join(env.watched),
        "ALL_WATCHED_UNSET": str(len(env.watched) + 1),
    }
    return {FILE: fill("fish.fish", words)}


def _change(change: EnvChange) -> str:
    if change.action == "set":
        return f"set -gx {change.name} {quote(change.value)}"
    if change.action == "prepend":
        return _put_first(change.name, [change.value])
    # A universal one, which belongs to every shell of the user, stays.
    return f"set -eg {change.name}"


def _put_first(name: str, entries: Sequence[str]) -> str:
    # A path variable is split at every `:` in what it is set to. Before 3.3.1 fish complains of one in what
    # `PATH` is set to, which is a path variable anyway.
    first = list(dict.fromkeys(reversed(entries)))
    rest = "$PATH" if name == "PATH" else f'"${name}"'
    return f"""\
set -l _rocenv_first {" ".join(map(quote, first))}
if test -n "${name}"
set -gx --path {name} $_rocenv_first {rest}
for _rocenv_n in $_rocenv_first
builtin contains -- $_rocenv_n ${name}[{len(first) + 1}..-1]
and _rocenv_lib _rocenv_once {name} {len(first)}
end
else
set -gx --path {name} $_rocenv_first
end"""


def _restore(env: Env, name: str) -> str:
    entries = env.lists.get(name, ())
    after = env.after.get(name)
    state = f'"$_ROCENV_NEW_{name}_{env.ident}"' if entries else quote("" if after is None else "x" + after)
    return " ".join([f"_rocenv_restore {env.ident} {name} {state}", *map(quote, entries)])


def hook(place: Place) -> str:
    """Render the code for `config.fish`."""
    return fill("fish-hook.fish", {"PROGRAM": quote(place.program), "ENVS": quote(place.envs)})

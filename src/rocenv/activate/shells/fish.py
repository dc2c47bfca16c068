"""fish 3.0 and later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import EXECUTED_STATUS, fill, resource_text
from rocenv.core.template import fill_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "activate.fish"


def quote(value: str) -> str:
    r"""Put `value` in single quotes, in which fish treats only `\` and `'` specially."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f"source {quote(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script."""
    library = resource_text("fish-library.fish")
    functions = ["_rocenv_lib", "rocenv_deactivate", *re.findall(r"^function (_rocenv_\w+)", library, re.M)]
    others = [name for name in env.changed if name != "PATH"]
    watched = " ".join(env.watched)
    script = env.path(FILE)
    first = {name: _first(entries) for name, entries in env.lists.items()}
    single = [change for change in env.changes if change.action != "prepend"]
    remember = [f'set -g _ROCENV_NEW_{name}_{env.ident} "x${name}"' for name in env.lists]
    words = {
        "LABEL": env.label,
        "MARK": quote(f"({env.label}) "),
        "IDENT": env.ident,
        "MARKER": quote(env.marker),
        "EXECUTED": quote(f"rocenv: source this file instead of running it:  {source(script)}"),
        "STATUS": str(EXECUTED_STATUS),
        "GONE": quote(f"rocenv: {env.gone}"),
        "COPIED": quote(f"rocenv: {env.copied}"),
        "SCRIPT": quote(script),
        "LIBRARY": quote(fill_script(library, {"FUNCTIONS": " ".join(functions), "WATCHED": watched})),
        "OTHERS": " ".join(others),
        "ALL_UNSET": str(len(others) + 1),
        "ALL_LOCAL_UNSET": str(len(others) + 2),
        "PATH_WITHOUT_OURS": "\n".join(
            f"and not builtin contains -- {quote(entry)} $PATH" for entry in env.lists.get("PATH", ())
        ),
        "NEW_LISTS": "\n".join(_new_list(name, entries) for name, entries in first.items()),
        "LISTS": "\n".join(
            f"_rocenv_lib _rocenv_put_first {name} {entries}" for name, entries in first.items()
        ),
        "CHANGES": "\n".join([*_cache(env), *(_change(env, each) for each in single), *remember]),
        "RESTORE": "\n".join(_restore(env, name) for name in env.changed),
        "WATCHED": watched,
        "ALL_WATCHED_UNSET": str(len(env.watched) + 1),
    }
    return {FILE: fill("fish.fish", words)}


def _first(entries: Sequence[str]) -> str:
    return " ".join(map(quote, dict.fromkeys(reversed(entries))))


def _new_list(name: str, first: str) -> str:
    return f"set -gx --path {name} {first}{' $PATH' if name == 'PATH' else ''}"


def _cache(env: Env) -> list[str]:
    words = {"PREFIX": quote(env.prefix), "IDENT": env.ident}
    return [fill("fish-cache.fish", words).rstrip()] if env.caches else []


def _in_cache(env: Env, name: str, word: str, first: str = "") -> str:
    """Return the word for a value; for a cache folder, the word contains the variable that locates it."""
    rest = env.caches.get(name)
    return word if rest is None else f'"{first}$_ROCENV_CACHE_{env.ident}"{quote(rest)}'


def _change(env: Env, change: EnvChange) -> str:
    if change.action == "set":
        return f"set -gx {change.name} {_in_cache(env, change.name, quote(change.value))}"
    # Keep universal variables, because all of the user's shells share them.
    return f"set -eg {change.name}"


def _restore(env: Env, name: str) -> str:
    entries = env.lists.get(name, ())
    after = env.after.get(name)
    state = f'"$_ROCENV_NEW_{name}_{env.ident}"'
    if not entries:
        state = _in_cache(env, name, quote("" if after is None else "x" + after), "x")
    return " ".join([f"_rocenv_restore {env.ident} {name} {state}", *map(quote, entries)])


def hook(place: Place) -> str:
    """Render the code for `config.fish`."""
    return fill("fish-hook.fish", {"PROGRAM": quote(place.program), "ENVS": quote(place.envs)})

"""nushell: `activate.nu`, and the env's data for the hook.

The hook reads the data because nushell cannot source a path that is known only at run time. Here, an env is
only data, which `nu-library.nu` applies.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.activate.env import fill, resource_text
from rocenv.core.template import fill_script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.activate.env import Env, Place

FILE = "activate.nu"
_DATA = ".rocenv/activate.nuon"
# In 0.112 and later, `%` calls a builtin even if an alias or command has the same name.
# Source: nushell/nushell#17956
_WITHOUT_SIGIL = r"^0\.([0-9]?[0-9]|10[0-9]|11[01])\."


def quote(value: str) -> str:
    """Put `value` in single quotes, which do not support escapes, or in double quotes with escapes."""
    if "'" not in value and value.isprintable():
        return f"'{value}'"
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f"source {quote(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script and the data."""
    library = resource_text("nu-library.nu")
    words = {
        "LABEL": env.label,
        "NEW": library,
        "OLD": library.replace("%", ""),
        "DATA": _data(env),
        "WITHOUT_SIGIL": quote(_WITHOUT_SIGIL),
    }
    return {FILE: fill("nu.nu", words), _DATA: _data(env) + "\n"}


def _data(env: Env) -> str:
    script = env.path(FILE)
    texts = {
        "ident": env.ident,
        "label": env.label,
        "prefix": env.prefix,
        "script": script,
        "typed": source(script),
        "marker": env.marker,
    }
    caches = (f"{quote(name)}: {quote(rest)}" for name, rest in env.caches.items())
    lists = (f"{quote(name)}: {_list(entries)}" for name, entries in env.lists.items())
    changes = (
        f"{{name: {quote(each.name)}, value: {'null' if each.action == 'unset' else quote(each.value)}, "
        f"prepend: {str(each.action == 'prepend').lower()}}}"
        for each in env.changes
    )
    fields = [f"{name}: {quote(text)}" for name, text in texts.items()]
    fields += [
        f"changed: {_list(env.changed)}",
        f"caches: {{{', '.join(caches)}}}",
        f"lists: {{{', '.join(lists)}}}",
        f"watched: {_list(env.watched)}",
        f"changes: [{', '.join(changes)}]",
    ]
    return f"{{{', '.join(fields)}}}"


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(quote, values))}]"


def hook(place: Place) -> str:
    """Render the hook for the nushell version that NU_VERSION specifies.

    Versions without the `%` sigil convert bare words (`1kb` becomes a size), so they get no completion.
    """
    code = resource_text("nu-library.nu") + resource_text("nu-hook.nu")
    if re.match(_WITHOUT_SIGIL, os.environ.get("NU_VERSION", "")):
        code = re.sub(r"^@complete .*", "", code.replace("%", ""), flags=re.MULTILINE)
        code = code.replace("[...words]", "[...words: string]")
    words = {"PROGRAM": quote(place.program), "ENVS": quote(place.envs), "DATA": _DATA}
    return f"module rocenv-hook {{\n{fill_script(code, words)}}}\nuse rocenv-hook [rocenv deactivate]\n"

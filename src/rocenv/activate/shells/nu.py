"""nushell: `activate.nu`, and the env's data beside it for the hook.

Everything is data here but for the code that does the work, which stands in `nu_runtime`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.shells.nu_runtime import RUNTIME, either, modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.nu"
DATA_NAME = ".rocenv/activate.nuon"
platforms = ("linux",)


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f"source {quote(script)}"


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` in single quotes, within which nothing is special, or in double ones with escapes."""
    if "'" not in value and value.isprintable():
        return f"'{value}'"
    return f'"{"".join(map(_escaped, value))}"'


def save(_ident: str, names: Sequence[str]) -> str:
    """Return the names; their values are remembered by the runtime."""
    return _list(names)


def set(name: str, value: str) -> str:
    """Set."""
    return _change(name, quote(value))


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return _change(name, quote(value), prepend=True)


def unset(name: str) -> str:
    """Make the variable absent."""
    return _change(name, "null")


def restore(_ident: str, name: str, _after: str | None, entries: Sequence[str]) -> str:
    """Return what the runtime has to know to put back what was there: the entries of a list."""
    return f"{quote(name)}: {_list(entries)}" if entries else ""


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    return f"""\
# To be sourced: activates the env `{parts.label}`, and defines `deactivate`, which takes that back.
module rocenv-activation {{
{modules(RUNTIME)}
export def --env deactivate [] {{ {either("leave")} }}
export-env {{
let data = {_data(parts)}
{either("enter-here $data")}
}}
}}
use rocenv-activation deactivate
null # This file is to be sourced (`source`); it is no module and no overlay.
"""


def companions(parts: Parts) -> dict[str, str]:
    """Return the env's data, which the hook reads: nushell sources no path that it learns when it runs."""
    return {DATA_NAME: _data(parts) + "\n"}


def encode(script: str) -> bytes:
    """Return the script's bytes; what is no valid UTF-8 nushell refuses to read."""
    return os.fsencode(script)


def _data(parts: Parts) -> str:
    texts = {
        "ident": parts.ident,
        "label": parts.label,
        "prefix": parts.prefix,
        "script": parts.script,
        "typed": source(parts.script),
        "marker": parts.marker,
    }
    fields = [f"{name}: {quote(text)}" for name, text in texts.items()]
    fields += [
        f"changed: {parts.save}",
        f"lists: {{{', '.join(filter(None, parts.restore))}}}",
        f"watched: {_list(parts.leftovers)}",
        f"changes: [{', '.join(parts.change)}]",
    ]
    return f"{{{', '.join(fields)}}}"


def _change(name: str, value: str, *, prepend: bool = False) -> str:
    return f"{{name: {quote(name)}, value: {value}, prepend: {str(prepend).lower()}}}"


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(map(quote, values))}]"

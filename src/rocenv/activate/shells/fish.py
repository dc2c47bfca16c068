"""fish, from 3.0 on: its script starts no process.

All of it runs in functions, which do not see the variables of what sources the script. Commands whose names
fish does not reserve are called past the user's functions, by `builtin`. A `return` outside of a function is
an error of syntax before fish 3.4.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.fish_runtime import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.fish"
platforms = ("linux",)
EXECUTED_STATUS = 33
_FUNCTIONS = ["_rocenv_lib", *re.findall(r"^function (_rocenv_\w+)", LIBRARY, re.MULTILINE)]


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f"source {quote(script)}"


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    r"""Return `value` in single quotes, within which nothing but `\` and `'` is special to fish."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set, and whether they are exported."""
    # Mostly `PATH` is set and the others are not: two commands find that out, and the library has the rest.
    # The exit code is the number of those that are not set.
    others = [name for name in names if name != "PATH"]
    path = f"""\
if set -qgx PATH
set -g _ROCENV_OLD_PATH_{ident} --export --path $PATH
else
_rocenv_lib _rocenv_save {ident} PATH
end
"""
    # A local variable that is exported, as in `PATH=... source FILE`, is copied into each function that is
    # called, and would hide the global one. Only the copy is erased.
    return f"""\
set -l _rocenv_names {" ".join(others)}
set -ql _ROCENV_NONE PATH $_rocenv_names
if test $status -ne {len(others) + 2}
for _rocenv_n in PATH $_rocenv_names
set -el $_rocenv_n
end
end
{path if "PATH" in names else ""}set -q _ROCENV_NONE $_rocenv_names
set -l _rocenv_unset $status
test $_rocenv_unset -ne {len(others) + 1}
and _rocenv_lib _rocenv_save {ident} $_rocenv_names"""


def set(name: str, value: str) -> str:
    """Set."""
    return f"set -gx {name} {quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return _put_first(name, [value])


def unset(name: str) -> str:
    """Make the variable absent; a universal one, which belongs to every shell of the user, stays."""
    return f"set -eg {name}"


def restore(ident: str, name: str, after: str | None, entries: Sequence[str]) -> str:
    """Put back what `save` remembered; after a change by the user take only `entries` out."""
    state = f'"$_ROCENV_NEW_{name}_{ident}"' if entries else quote("" if after is None else "x" + after)
    return " ".join([f"_rocenv_restore {ident} {name} {state}", *map(quote, entries)])


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    script = quote(parts.script)
    executed = quote(f"rocenv: this file is to be sourced, not run. Type:  source {script}")
    gone = quote(
        f"rocenv: there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    )
    return f"""\
# To be sourced: activates the env `{parts.label}`, and defines `deactivate`, which takes that back.
function _rocenv_enter
builtin functions -e _rocenv_enter
if test $argv[1] -ne 0
builtin printf '%s\\n' {executed} >&2
return {EXECUTED_STATUS}
else if not test -f {quote(parts.marker)}
builtin printf '%s\\n' {gone} >&2
return 1
end
{_on(parts)}
end
# What is sourced has an `argv` of its own.
set -ql argv
_rocenv_enter $status $argv
"""


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the script's bytes; paths may be no valid UTF-8, and go through as they are."""
    return os.fsencode(script)


def _on(parts: Parts) -> str:
    ident, watched = parts.ident, len(parts.leftovers) + 1
    unset = len([name for name in parts.changed if name != "PATH"]) + 1
    library = re.sub(r"^ +", "", LIBRARY.strip(), flags=re.MULTILINE)
    library = library.replace("FUNCTIONS", " ".join(_FUNCTIONS))
    singly = {prepend(name, entry) for name, entries in parts.lists.items() for entry in entries}
    lines = [
        # No `eval`, which the user could replace before fish 3.5.
        "function _rocenv_lib",
        f"builtin printf %s {quote(library)} | builtin source",
        "$argv",
        "end",
        # Active already: the hook leaves it at that; else leave it, with those on top, and start afresh.
        f"if builtin contains -- {ident} $_ROCENV_STACK",
        "set -q argv[2]",
        "and return 0",
        f"_rocenv_lib _rocenv_leave {ident}",
        "end",
        parts.save,
        *(change for change in parts.change if change not in singly),
        *(_put_first(name, entries) for name, entries in parts.lists.items()),
        *(f'set -g _ROCENV_NEW_{name}_{ident} "x${name}"' for name in parts.lists),
        f"set -g _ROCENV_OFF_{ident} {quote(chr(10).join(parts.restore))}",
        "if not set -q _ROCENV_STACK[1]",
        f"set -l _rocenv_watched {' '.join(parts.leftovers)}",
        "set -qx _ROCENV_NONE $_rocenv_watched",
        f"test $_rocenv_unset/$status != {unset}/{watched}",
        f"and _rocenv_lib _rocenv_report {ident} $_rocenv_names -- $_rocenv_watched",
        "end",
        "if builtin functions -q deactivate",
        f"builtin functions -c deactivate _rocenv_foreign_{ident}",
        "end",
        "function deactivate --description 'Leave the newest env of rocenv'",
        "_rocenv_lib _rocenv_end",
        "end",
        'status is-interactive; and test -z "$ROCENV_DISABLE_PROMPT"',
        f"and _rocenv_lib _rocenv_mark {ident} {quote(f'({parts.label}) ')}",
        f"set -g _ROCENV_STACK {ident} $_ROCENV_STACK",
        "return 0",
    ]
    return "\n".join(lines)


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

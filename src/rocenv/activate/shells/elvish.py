"""elvish: `activate.elv`, which is read and evaluated, because elvish has no command to source a file.

What evaluated code defines is gone when it ends, so the script hands `deactivate` to the prompt. A script of
the user's has no prompt, and is compiled before any of it runs: there `fn deactivate { }` has to stand before
the line that activates, which assigns to that name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.elvish_runtime import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.elv"
platforms = ("linux",)
_NO_UTF_8 = re.compile("[\udc80-\udcff]")


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f"eval (slurp < {quote(script)})"


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    r"""Return `value` in single quotes, within which only these are special.

    Source code must be UTF-8, and elvish replaces what is not; bytes that are none are written as `\xHH` in
    double quotes.
    """
    if not _NO_UTF_8.search(value):
        return "'" + value.replace("'", "''") + "'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _NO_UTF_8.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", escaped) + '"'


def save(_ident: str, names: Sequence[str]) -> str:
    """Return the names; their values are remembered by the runtime."""
    return _list(names)


def set(name: str, value: str) -> str:
    """Set."""
    return f"[set {name} {quote(value)}]"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return f"[prepend {name} {quote(value)}]"


def unset(name: str) -> str:
    """Make the variable absent."""
    return f"[unset {name}]"


def restore(_ident: str, name: str, _after: str | None, entries: Sequence[str]) -> str:
    """Return what the runtime has to know to put back what was there: the entries of a list."""
    return f"&{name}={_list(entries)}" if entries else ""


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    executed = f"rocenv: this file is to be sourced, not run. Type:  {source(parts.script)}"
    gone = f"rocenv: there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    there = f"path:is-regular &follow-symlink=$builtin:true {quote(parts.marker)}"
    own = [
        f"&ident={parts.ident}",
        f"&label={quote(f'({parts.label}) ')}",
        f"&names={parts.save}",
        f"&watched={_list(parts.leftovers)}",
        f"&lists=[{' '.join(filter(None, parts.restore)) or '&'}]",
        f"&changes=[{' '.join(parts.change)}]",
    ]
    return "\n".join(
        [
            f"# To be evaluated: activates the env `{parts.label}`. `deactivate` takes that back.",
            "use builtin",
            "use path",
            f"var rocenv-executed rocenv-gone = {quote(executed)} {quote(gone)}",
            "if (builtin:src)[is-file] { builtin:fail $rocenv-executed }",
            f"if (builtin:not ({there})) {{ builtin:fail $rocenv-gone }}",
            *evaluated(own, RUNTIME),
            "",
        ]
    )


def evaluated(own: Iterable[str], code: str) -> list[str]:
    """Return the lines that evaluate `code` in a namespace of `$own`, these pairs, and of `$caller`.

    The caller's namespace is the one in which no code has run. Whatever the caller has defined, these lines
    mean the same, and a failure within `code` does not show all of it.
    """
    return [
        "use builtin",
        f"var rocenv-code = {quote(code)}",
        "var rocenv-own = [",
        *own,
        "]",
        "builtin:eval '' &on-end={|caller|",
        "builtin:eval &ns=(builtin:ns [&own=$rocenv-own &caller=$caller]) $rocenv-code }",
    ]


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the script's bytes."""
    return script.encode()


def _list(values: Iterable[str]) -> str:
    return f"[{' '.join(map(quote, values))}]"

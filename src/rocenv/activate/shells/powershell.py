"""PowerShell on Windows, 5.1 and 7: `Activate.ps1`, in UTF-8 with a byte order mark, which 5.1 needs.

A sourced script runs in the caller's scope, so all of it happens in functions; what an active env has to
remember is `$_RocenvStack`, a global variable that no child process gets. Everything works under
`Set-StrictMode -Version Latest` and `$ErrorActionPreference = 'Stop'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.shells.powershell_runtime import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.activate.shells import Parts

file_name = "Activate.ps1"
platform = "windows"
# PowerShell takes the typographic ones for single quotes too. Source: PowerShell/PowerShell, CharTraits.cs
_QUOTES = str.maketrans({quote: quote * 2 for quote in "'\u2018\u2019\u201a\u201b"})


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` in single quotes, within which only these are special."""
    return f"'{value.translate(_QUOTES)}'"


def save(_ident: str, names: Sequence[str]) -> str:
    """Return the names; their values are remembered by the runtime."""
    return _array(names)


def set(name: str, value: str) -> str:
    """Set."""
    return f"_RocenvPut {quote(name)} {quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return f"_RocenvPrepend {quote(name)} {quote(value)}"


def unset(name: str) -> str:
    """Make the variable absent."""
    return f"_RocenvPut {quote(name)} ''"


def restore(_ident: str, name: str, _after: str | None, entries: Sequence[str]) -> str:
    """Return what the runtime has to know to put back what was there: the entries of a list."""
    return f"{quote(name)} = {_array(entries)}" if entries else ""


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    gone = f"rocenv: there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    lists = "; ".join(filter(None, parts.restore))
    there = f"Test-Path -LiteralPath {quote(parts.marker)} -PathType Leaf"
    return "\n".join(
        [
            f"# Activates the env `{parts.label}`: dot-source it. `deactivate` takes that back.",
            f"if (-not ({there})) {{ throw {quote(gone)} }}",
            RUNTIME,
            "_RocenvEnter @{",
            f"    Ident = {quote(parts.ident)}",
            f"    Label = {quote(f'({parts.label}) ')}",
            f"    Names = {parts.save}",
            f"    Lists = @{{ {lists} }}",
            f"    Watched = {_array(parts.leftovers)}",
            "    Old = @{}",
            "    New = @{}",
            "    Change = {",
            *(f"        {line}" for line in parts.change),
            "    }",
            "}",
            "",
        ]
    )


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the file's bytes."""
    return script.replace("\n", "\r\n").encode("utf-8-sig")


def _array(values: Iterable[str]) -> str:
    return f"@({', '.join(map(quote, values))})"

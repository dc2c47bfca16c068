"""PowerShell, 5.1 and 7: `Activate.ps1`, in UTF-8 with a byte order mark, which 5.1 needs.

A sourced script runs in the caller's scope, so all of it happens in functions; what an active env has to
remember is `$_RocenvStack`, a global variable that no child process gets. Everything works under
`Set-StrictMode -Version Latest` and `$ErrorActionPreference = 'Stop'`. Under `SilentlyContinue` a `throw`
does not end a script; `return` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.powershell_runtime import runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.activate.shells import Parts

file_name = "Activate.ps1"
platforms = ("linux", "windows")
# PowerShell takes the typographic ones for single quotes too. Source: PowerShell/PowerShell, CharTraits.cs
_QUOTES = str.maketrans({quote: quote * 2 for quote in "'\u2018\u2019\u201a\u201b"})
# A literal may hold them, but what is piped into `Invoke-Expression` is cut at some of them.
_CONTROL = re.compile("([\0-\x1f\x7f])")
_LONE = re.compile("[\ud800-\udfff]")


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f". {quote(to_run(script))}"


def to_run(path: str) -> str:
    """Return what stands for a path behind `.` and `&`.

    PowerShell 5.1 reads it as a pattern, 7 tries that too. Source: PowerShell/PowerShell issue 4726
    """
    return re.sub(r"([*?\[\]])", r"`\1", path) if re.search(r"[*?\[]", path) else path


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str, apart: re.Pattern[str] = _CONTROL) -> str:
    """Return `value` in single quotes, within which only these are special.

    Args:
        value: The text.
        apart: Finds the characters, as a group, that shall not stand in the code.
    """
    text, *others = apart.split(value)
    words = [_literal(text)]
    for index, other in enumerate(others):
        if index % 2:
            words += [_literal(other)] if other else []
        else:
            units = other.encode("utf-16-be", "surrogatepass")
            words += [f"[char]{units[at] * 256 + units[at + 1]}" for at in range(0, len(units), 2)]
    return words[0] if len(words) == 1 else f"({' + '.join(words)})"


def _literal(value: str) -> str:
    return f"'{value.translate(_QUOTES)}'"


def save(_ident: str, _names: Sequence[str]) -> str:
    """Return nothing: the runtime remembers all values."""
    return ""


def set(name: str, value: str) -> str:
    """Set."""
    return f"_RocenvPut {quote(name)} {quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return f"_RocenvPrepend {quote(name)} {quote(value)}"


def unset(name: str) -> str:
    """Make the variable absent."""
    return f"_RocenvPut {quote(name)} $null"


def restore(_ident: str, name: str, _after: str | None, entries: Sequence[str]) -> str:
    """Return what the runtime has to know to put back what was there, and where it keeps that."""
    return f"@{{ Name = {quote(name)}; Entries = {_array(entries)}; Old = $null; New = $null }}"


def assemble(parts: Parts) -> str:
    """Return the whole script.

    PowerShell reads UTF-8 only. Where the env has a path or a value that is none, the script just says so.
    """
    script = "\n".join(
        [
            f"# Activates the env `{parts.label}`: dot-source it. `deactivate` takes that back.",
            "[CmdletBinding()] param()",  # so PowerShell itself refuses arguments
            *_refusals(parts),
            runtime(parts.platform),
            "_RocenvEnter @{",
            f"    Ident = {quote(parts.ident)}",
            f"    Label = {quote(f'({parts.label}) ')}",
            f"    Watched = {_array(parts.leftovers)}",
            "    Variables = @(",
            *(f"        {line}" for line in parts.restore),
            "    )",
            "    Change = {",
            *(f"        {line}" for line in parts.change),
            "    }",
            "}",
            "",
        ]
    )
    if not _LONE.search(script):
        return script
    return _refusal("$true", "paths and values that are no UTF-8 cannot be said in PowerShell") + "\n"


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the file's bytes."""
    return script.replace("\n", "\r\n").encode("utf-8-sig")


def _refusals(parts: Parts) -> list[str]:
    """Return the lines that stop where nothing can be done right, before anything is changed."""
    gone = f"there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    return [
        _refusal(
            "$ExecutionContext.SessionState.LanguageMode -ne 'FullLanguage'",
            "this PowerShell is restricted to a part of its language; `rocenv run` needs none of it",
        ),
        _refusal(f"-not [IO.File]::Exists({quote(parts.marker)})", gone),
    ]


def _refusal(condition: str, reason: str) -> str:
    return f"if ({condition}) {{ throw {quote(f'rocenv: {reason}')}; return }}"


def _array(values: Iterable[str]) -> str:
    return f"@({', '.join(map(quote, values))})"

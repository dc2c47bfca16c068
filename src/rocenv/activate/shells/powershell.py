"""PowerShell, 5.1 and 7: `Activate.ps1`, in UTF-8 with a byte order mark, which 5.1 needs.

A sourced script runs in the caller's scope, so all of it happens in functions; what an active env has to
remember is `$_RocenvStack`, a global variable that no child process gets. Everything works under
`Set-StrictMode -Version Latest` and `$ErrorActionPreference = 'Stop'`. Under `SilentlyContinue` a `throw`
does not end a script; `return` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import fill, fill_text, resource_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "Activate.ps1"
# What separates entries, how entries and names are compared, and whether a variable may be empty.
_PLATFORMS = {
    "linux": {"SEPARATOR": ":", "COMPARISON": "Ordinal", "EMPTY": "true"},
    "windows": {"SEPARATOR": ";", "COMPARISON": "OrdinalIgnoreCase", "EMPTY": "false"},
}
# PowerShell takes the typographic ones for single quotes too. Source: PowerShell/PowerShell, CharTraits.cs
_QUOTES = str.maketrans({quote: quote * 2 for quote in "'\u2018\u2019\u201a\u201b"})
# A literal may hold them, but what is piped into `Invoke-Expression` is cut at some of them.
_CONTROL = re.compile("([\0-\x1f\x7f])")
# What a program prints reaches `Invoke-Expression` in an encoding that nobody knows, so the hook is ASCII.
_NOT_ASCII = re.compile("([^ -~])")
_LONE = re.compile("[\ud800-\udfff]")
_NO_UTF_8 = "throw 'rocenv: paths and values that are no UTF-8 cannot be said in PowerShell'; return\n"


def quote(value: str, apart: re.Pattern[str] = _CONTROL) -> str:
    """Put `value` in single quotes, within which only these are special.

    Args:
        value: The text.
        apart: Finds the characters, as a group, that must not be in the code.
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


def source(script: str) -> str:
    """What a person types to source the script."""
    return f". {quote(_to_run(script))}"


def _to_run(path: str) -> str:
    """A path as it stands behind `.` and `&`.

    PowerShell 5.1 reads it as a pattern, 7 tries that too. Source: PowerShell/PowerShell issue 4726
    """
    return re.sub(r"([*?\[\]])", r"`\1", path) if re.search(r"[*?\[]", path) else path


def files(env: Env) -> dict[str, str]:
    """Render the script; it just says so where the env has a path or a value that is no UTF-8."""
    variables = (
        f"@{{ Name = {quote(name)}; Entries = {_array(env.lists.get(name, ()))}; Old = $null; New = $null }}"
        for name in env.changed
    )
    words = {
        "LABEL": env.label,
        "MARKER": quote(env.marker),
        "GONE": quote(f"rocenv: {env.gone}"),
        "LIBRARY": library(env.platform),
        "IDENT": quote(env.ident),
        "MARK": quote(f"({env.label}) "),
        "WATCHED": _array(env.watched),
        "VARIABLES": "\n        ".join(variables),
        "CHANGE": "\n        ".join(map(_change, env.changes)),
    }
    script = fill("powershell.ps1", words)
    return {FILE: _NO_UTF_8 if _LONE.search(script) else script}


def library(platform: str) -> str:
    """The functions of a script, for shells on the platform."""
    code = resource_text("powershell-library.ps1")
    functions, variables = (
        ", ".join(f"'{name}'" for name in dict.fromkeys(re.findall(pattern, code)))
        for pattern in (r"function global:(_Rocenv\w+)", r"\$global:(_Rocenv\w+)")
    )
    return fill_text(code, {**_PLATFORMS[platform], "FUNCTIONS": functions, "VARIABLES": variables})


def _change(change: EnvChange) -> str:
    if change.action == "prepend":
        return f"_RocenvPrepend {quote(change.name)} {quote(change.value)}"
    return f"_RocenvPut {quote(change.name)} {quote(change.value) if change.action == 'set' else '$null'}"


def _array(values: Iterable[str]) -> str:
    return f"@({', '.join(map(quote, values))})"


def encode(script: str) -> bytes:
    """The file's bytes."""
    return script.replace("\n", "\r\n").encode("utf-8-sig")


def hook(place: Place) -> str:
    """Render the text for `Invoke-Expression`."""
    program = quote(_to_run(place.program), _NOT_ASCII)
    if not re.search(r"[/\\]", place.program):
        # The function of this name is not meant.
        command = r"Microsoft.PowerShell.Core\Get-Command"
        program = f"{command} -Name {program} -CommandType Application -TotalCount 1"
    return fill("powershell-hook.ps1", {"PROGRAM": program, "ENVS": quote(place.envs, _NOT_ASCII)})

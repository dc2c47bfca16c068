"""PowerShell 5.1 and 7: `Activate.ps1`, in UTF-8 with a byte order mark, which 5.1 requires.

A sourced script runs in the caller's scope, so all its code is in functions; the state of active envs is in
`$_RocenvStack`, a global variable that child processes do not inherit. Everything works with `Set-StrictMode
-Version Latest` and `$ErrorActionPreference = 'Stop'`. With `SilentlyContinue`, `throw` does not end a
script, but `return` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import fill, resource_text
from rocenv.core.template import fill_script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "Activate.ps1"
# The entry separator, how to compare entries and names, and whether a variable may be empty.
_PLATFORMS = {
    "linux": {"SEPARATOR": ":", "COMPARISON": "Ordinal", "EMPTY": "true"},
    "windows": {"SEPARATOR": ";", "COMPARISON": "OrdinalIgnoreCase", "EMPTY": "false"},
}
# PowerShell also accepts typographic single quotes. Source: PowerShell/PowerShell, CharTraits.cs
_QUOTES = str.maketrans({quote: quote * 2 for quote in "'\u2018\u2019\u201a\u201b"})
# Literals may contain these, but some of them truncate text that is piped into `Invoke-Expression`.
_CONTROL = re.compile("([\0-\x1f\x7f])")
# Program output reaches `Invoke-Expression` in an unknown encoding, so the hook is ASCII.
_NOT_ASCII = re.compile("([^ -~])")
_LONE = re.compile("[\ud800-\udfff]")
_NO_UTF_8 = "throw 'rocenv: PowerShell does not support paths and values that are not UTF-8'; return\n"


def quote(value: str, apart: re.Pattern[str] = _CONTROL) -> str:
    """Put `value` in single quotes, within which only quotes are special.

    Args:
        value: The text.
        apart: Pattern with a group that matches characters that must not appear in the code.
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
    """Return the command that sources the script."""
    return f". {quote(_to_run(script))}"


def _to_run(path: str) -> str:
    """Escape a path for use after `.` or `&`.

    PowerShell 5.1 treats the path as a pattern, and PowerShell 7 also tries it as one.

    Source: PowerShell/PowerShell issue 4726
    """
    return re.sub(r"([*?\[\]])", r"`\1", path) if re.search(r"[*?\[]", path) else path


def files(env: Env) -> dict[str, str]:
    """Render the script or, if a path or value is not UTF-8, one that only reports an error."""
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
        "CHANGE": "\n        ".join([*_cache(env), *(_change(env, each) for each in env.changes)]),
    }
    script = fill("powershell.ps1", words)
    return {FILE: _NO_UTF_8 if _LONE.search(script) else script}


def library(platform: str) -> str:
    """Return a script's functions for the platform."""
    code = resource_text("powershell-library.ps1")
    functions, variables = (
        ", ".join(f"'{name}'" for name in dict.fromkeys(re.findall(pattern, code)))
        for pattern in (r"function global:(_Rocenv\w+)", r"\$global:(_Rocenv\w+)")
    )
    return fill_script(code, {**_PLATFORMS[platform], "FUNCTIONS": functions, "VARIABLES": variables})


def _cache(env: Env) -> list[str]:
    return [f"$cache = _RocenvCache {quote(env.path('cache'))} {quote(env.ident)}"] if env.caches else []


def _change(env: Env, change: EnvChange) -> str:
    rest = env.caches.get(change.name)
    if rest is not None:
        return f"_RocenvPut {quote(change.name)} ($cache + {quote(rest)})"
    if change.action == "prepend":
        return f"_RocenvPrepend {quote(change.name)} {quote(change.value)}"
    return f"_RocenvPut {quote(change.name)} {quote(change.value) if change.action == 'set' else '$null'}"


def _array(values: Iterable[str]) -> str:
    return f"@({', '.join(map(quote, values))})"


def encode(script: str) -> bytes:
    """Encode the script."""
    return script.replace("\n", "\r\n").encode("utf-8-sig")


def hook(place: Place) -> str:
    """Render the text for `Invoke-Expression`."""
    program = quote(_to_run(place.program), _NOT_ASCII)
    if not re.search(r"[/\\]", place.program):
        # Bypass the hook's function of the same name.
        command = r"Microsoft.PowerShell.Core\Get-Command"
        program = f"{command} -Name {program} -CommandType Application -TotalCount 1"
    return fill("powershell-hook.ps1", {"PROGRAM": program, "ENVS": quote(place.envs, _NOT_ASCII)})

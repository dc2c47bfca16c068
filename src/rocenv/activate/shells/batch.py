"""Windows cmd: `activate.bat`, and `bin/deactivate.bat`, which is on `PATH` while the env is active.

cmd reads scripts in the console's code page, so scripts are plain ASCII and do not change the code page. If
the prefix is not ASCII, the script derives it from its own path, after checking that path's length and its
ASCII beginning and end. Prefixes and values that cmd would misread are rejected earlier
(`changes.against_cmd`); if an existing variable contains such characters, the script refuses to run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.activate.env import fill
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

FILE = "activate.bat"
# Two values must fit on a line, and cmd limits lines to 8191 characters. Source: learn.microsoft.com,
# "Command prompt line string limitation"
_LONGEST = 4000
_PREFIX = "%_ROCENV_P%"  # contains the prefix while the script runs
# Variables that venv scripts save as `_OLD_VIRTUAL_...` and restore, with their defaults. Source: CPython,
# Lib/venv/scripts/nt
_VENV = {"PATH": "", "PROMPT": "$P$G"}
# Variables that contain folders; with them, paths below those folders can be written in ASCII.
_KNOWN = ("LOCALAPPDATA", "APPDATA", "USERPROFILE")


def quote(value: str) -> str:
    """Quote `value`; only `%`, `!`, and quotes are special within quotes, and values do not contain them."""
    if not value.isascii():
        raise DataError(f"`{value}` cannot be used in a batch file, because its code page is unknown")
    return f'"{value}"'


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f'"{script}"'


def files(env: Env) -> dict[str, str]:
    """Render the activation and deactivation scripts."""
    longest = _LONGEST - max((len(";".join(own)) for own in env.lists.values()), default=0) - 1
    placed = replace(env, changes=tuple(_placed(env, change) for change in env.changes))
    return {FILE: _activate(placed, longest), "bin/deactivate.bat": _deactivate(placed)}


def encode(script: str) -> bytes:
    """Encode the script with CRLF line endings, because cmd cannot find some labels without them."""
    return script.replace("\n", "\r\n").encode("ascii")


def _placed(env: Env, change: EnvChange) -> EnvChange:
    from msgspec import structs  # imported late, because the hook does not use values

    # Doubling `%` never changes the prefix: `%` occurs only in URLs, which encode the prefix.
    return structs.replace(change, value=change.value.replace("%", "%%").replace(env.prefix, _PREFIX))


def _activate(env: Env, longest: int) -> str:
    ident = env.ident
    remember = [f'@set "_ROCENV_NEW_{ident}_{name}=%{name}%"' for name in env.changed]
    remember += [f'@set "_ROCENV_ADD_{ident}_{name}={";".join(own)};"' for name, own in env.lists.items()]
    words = {
        "LABEL": _ascii(env.label),
        "IDENT": ident,
        "PLACE": "\n".join(_place(env.prefix)),
        "MARKER": quote(_PREFIX + env.marker.removeprefix(env.prefix)),
        "WHERE": quote(env.prefix) if env.prefix.isascii() else '"%~dp0."',
        "LONGEST": str(longest),
        "CHECKS": "\n".join(map(_check, env.changed)),
        "CHECK_PROMPT": _check("PROMPT"),
        "SAVE": "\n".join(f'@set "_ROCENV_OLD_{ident}_{name}=%{name}%"' for name in env.changed),
        "CHANGES": "\n".join(map(_change, env.changes)),
        "REMEMBER": "\n".join(remember),
        "REPORT": "\n".join(_report(env)),
        "SHOWN": _shown(env),
    }
    return fill("batch.bat", words) + fill("batch-library.bat", words)


def _deactivate(env: Env) -> str:
    words = {
        "LABEL": _ascii(env.label),
        "IDENT": env.ident,
        "LONGEST": str(_LONGEST),
        "CHECKS": "\n".join(
            map(_check, (*env.changed, "PROMPT", *(f"_OLD_VIRTUAL_{each}" for each in _VENV)))
        ),
        "FROM_VENV": "\n".join(_from_venv(env.ident, each) for each in _VENV),
        "RESTORE": "\n".join(_restore(env.ident, name) for name in env.changed),
        "RESTORE_PROMPT": _restore(env.ident, "PROMPT"),
    }
    return fill("batch-deactivate.bat", words) + fill("batch-library.bat", words)


def _change(change: EnvChange) -> str:
    name, value = change.name, change.value
    if change.action == "unset":
        return f'@set "{name}="'
    if change.action == "set":
        return f"@set {quote(f'{name}={value}')}"
    return f"""\
@set "_ROCENV_V=%{name}%"
@set {quote(f"_ROCENV_E={value}")}
@call :prepend
@set "{name}=%_ROCENV_V%\""""


def _check(name: str, where: str = "checked") -> str:
    """Render the check of a variable's value; if the variable is unset, cmd jumps past the check."""
    return f"""\
@if not defined {name} goto {where}_{name}
@setlocal DisableDelayedExpansion
@set "_ROCENV_V=%{name}:"=%"
@set "_ROCENV_W=%{name}:"='%"
@call :check
@endlocal
@if errorlevel 2 set "_ROCENV_B=%_ROCENV_B% {name}"
@if errorlevel 1 if not errorlevel 2 set "_ROCENV_X=%_ROCENV_X% {name}"
:{where}_{name}"""


def _copies(ident: str, name: str, value_of: str) -> str:
    """Render code that copies values for a subroutine, because cmd would reparse its arguments."""
    copies = {"V": value_of, "W": f"_ROCENV_NEW_{ident}_{name}", "O": f"_ROCENV_OLD_{ident}_{name}"}
    copies["A"] = f"_ROCENV_ADD_{ident}_{name}"
    return "\n".join(f'@set "_ROCENV_{short}=%{source}%"' for short, source in copies.items())


def _restore(ident: str, name: str) -> str:
    """Render code that restores a saved value, or removes the env's entries from a changed value."""
    return f"""\
@set "_ROCENV_X="
{_check(name, "restored")}
@if defined _ROCENV_X set "_ROCENV_K=%_ROCENV_K% {name}"
@if defined _ROCENV_X goto kept_{name}
{_copies(ident, name, name)}
@call :restore {name}
@set "{name}=%_ROCENV_V%"
:kept_{name}
@set "_ROCENV_OLD_{ident}_{name}="
@set "_ROCENV_NEW_{ident}_{name}="
@set "_ROCENV_ADD_{ident}_{name}=\""""


def _from_venv(ident: str, name: str) -> str:
    """Render code that removes the env from the value that a venv activated on top of it will restore."""
    saved = f"_OLD_VIRTUAL_{name}"
    # Pass PROMPT as the name, because `restore` does not report changes to PROMPT.
    return f"""\
@if not defined {saved} goto venv_{name}
@set "_ROCENV_X="
{_check(saved, "of_venv")}
@if defined _ROCENV_X goto venv_{name}
{_copies(ident, name, saved)}
@call :restore PROMPT
@if not defined _ROCENV_V set "_ROCENV_V={_VENV[name]}"
@set "{saved}=%_ROCENV_V%"
:venv_{name}"""


def _place(prefix: str) -> list[str]:
    """Render the lines that set the prefix variable."""
    if prefix.isascii():
        return [f"@set {quote(f'_ROCENV_P={prefix}')}"]
    before = next(index for index, char in enumerate(prefix) if not char.isascii())
    after = next(index for index, char in enumerate(reversed(prefix)) if not char.isascii())
    length = len(prefix.encode("utf-16-le")) // 2
    tail = prefix[len(prefix) - after :] + "\\"
    return [
        '@set "_ROCENV_P=%~dp0"',
        f'@set "_ROCENV_V=%_ROCENV_P:~{length},2%"',
        '@if not "%_ROCENV_V%"=="\\" goto gone',
        f'@set "_ROCENV_V=%_ROCENV_P:~0,{before}%"' if before else '@set "_ROCENV_V="',
        f'@if /i not "%_ROCENV_V%"=={quote(prefix[:before])} goto gone',
        f'@set "_ROCENV_V=%_ROCENV_P:~-{len(tail)}%"',
        f'@if /i not "%_ROCENV_V%"=={quote(tail)} goto gone',
        '@set "_ROCENV_P=%_ROCENV_P:~0,-1%"',
    ]


def _report(env: Env) -> list[str]:
    """Render the lines that report variables already set on the machine."""
    lines = []
    for name in env.changed:
        old, into = f"_ROCENV_OLD_{env.ident}_{name}", "L" if name in env.lists else "K"
        if name.upper() != "PATH":
            lines.append(
                f'@if defined {old} if not "%{old}%"=="%{name}%" set "_ROCENV_{into}=%_ROCENV_{into}% {name}"'
            )
    return [*lines, *(f'@if defined {name} set "_ROCENV_L=%_ROCENV_L% {name}"' for name in env.watched)]


def _shown(env: Env) -> str:
    # Take the name from the folder at run time, because the script must be ASCII and the name might not be.
    is_folder = env.label == env.name == env.prefix.rpartition("\\")[2]
    if is_folder and not env.label.isascii():
        return '@for %%N in ("%_ROCENV_P%") do @set "_ROCENV_V=%%~nxN"'
    return f'@set "_ROCENV_V={_ascii(env.label)}"'


def _ascii(text: str) -> str:
    return "".join(char if char.isascii() else "?" for char in text)


# ---------------------------------------------------------------- the hook


def hook(place: Place) -> str:
    """Render the hook's batch file in ASCII, because cmd's code page is unknown."""
    program = _said(place.program) if "\\" in place.program else ""
    words = {
        "PROGRAM": f'"{program}"' if program else "rocenv.exe",
        "ENVS": _said(place.envs) or r"%LOCALAPPDATA%\rocenv\envs",
    }
    return fill("batch-hook.cmd", words).replace("\n", "\r\n")


def _said(path: str) -> str:
    """Return the path as written in a batch file, or "" if it cannot be written in ASCII."""
    if path.isascii():
        return path.replace("%", "%%")
    for name in _KNOWN:
        folder = os.environ.get(name, "")
        below = path.removeprefix(f"{folder}\\")
        if folder and below != path and below.isascii():
            return f"%{name}%\\{below.replace('%', '%%')}"
    return ""

"""The cmd of Windows: `activate.bat`, and `bin/deactivate.bat`, where `PATH` leads while the env is active.

cmd has no functions, and every variable is one of the environment, so what an active env has to remember
stands there, and a cmd started from this one finds the env active. It reads a script in the code page of the
console, so scripts are plain ASCII and no code page is touched: where the prefix is not, the script takes it
from its own path, after a comparison of what of it can be compared. What a prefix and a value may not hold,
because cmd would read it as something else, is refused before (`changes.against_cmd`); a variable of the
machine that holds it makes the script refuse.

An active env keeps:

    _ROCENV_STACK           idents of the active envs, each followed by a space, the newest first
    _ROCENV_TOP             path of the script that takes back what the newest of them changed
    _ROCENV_LOW_IDENT       what that was before; absent for the oldest
    _ROCENV_OLD_IDENT_NAME  what NAME was; absent if it was unset
    _ROCENV_NEW_IDENT_NAME  what the env made of it
    _ROCENV_ADD_IDENT_NAME  the entries that were prepended, each followed by `;`, where NAME is a list
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.shells import batch_runtime as code
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.bat"
platforms = ("windows",)
_DEACTIVATE = "bin/deactivate.bat"
# Two values have to stand in one line, which is at most 8191 characters long. Source: learn.microsoft.com,
# "Command prompt line string limitation"
_LONGEST = 4000
_PREFIX = "%_ROCENV_P%"
# What the scripts of a venv remember as `_OLD_VIRTUAL_...` and put back as it is, and what they take for it
# where there was nothing. Source: CPython, Lib/venv/scripts/nt
_VENV = {"PATH": "", "PROMPT": "$P$G"}


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f'"{script}"'


def prefix_word(_prefix: str) -> str:
    """Return the variable that holds the prefix while the script runs."""
    return _PREFIX


def quote(value: str) -> str:
    """Return `value` in quotes, within which only `%`, `!` and quotes are special: no value holds them."""
    if not value.isascii():
        raise DataError(
            f"`{value}` cannot stand in a batch file: it is read in a code page that nobody knows"
        )
    return f'"{value}"'


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set."""
    return "\n".join(f'@set "_ROCENV_OLD_{ident}_{name}=%{name}%"' for name in names)


def set(name: str, value: str) -> str:
    """Set."""
    return f"@set {quote(f'{name}={value}')}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    entry = quote(f"_ROCENV_E={value}")
    return "\n".join(
        [
            f'@set "_ROCENV_V=%{name}%"',
            f"@set {entry}",
            "@call :prepend",
            f'@set "{name}=%_ROCENV_V%"',
        ]
    )


def unset(name: str) -> str:
    """Make the variable absent."""
    return f'@set "{name}="'


def restore(ident: str, name: str, _after: str | None, _entries: Sequence[str]) -> str:
    """Put back what `save` remembered; after a change by the user take only the entries out.

    The variables are copied here, in the one way that cmd does not read their values again.
    """
    copies = {"V": name, "W": f"_ROCENV_NEW_{ident}_{name}", "O": f"_ROCENV_OLD_{ident}_{name}"}
    copies["A"] = f"_ROCENV_ADD_{ident}_{name}"
    return "\n".join(
        [
            '@set "_ROCENV_X="',
            _check(name),
            f'@if defined _ROCENV_X set "_ROCENV_K=%_ROCENV_K% {name}"',
            f"@if defined _ROCENV_X goto kept_{name}",
            *(f'@set "_ROCENV_{short}=%{source}%"' for short, source in copies.items()),
            f"@call :restore {name}",
            f'@set "{name}=%_ROCENV_V%"',
            f":kept_{name}",
            *(f'@set "_ROCENV_{kind}_{ident}_{name}="' for kind in ("OLD", "NEW", "ADD")),
        ]
    )


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    ident = parts.ident
    placed = [";".join(own).replace(_PREFIX, parts.prefix) for own in parts.lists.values()]
    longest = _LONGEST - max(map(len, placed), default=0) - 1
    lines = [
        f"@rem Activates the env `{_ascii(parts.label)}` in cmd. In a batch file: call, and this path.",
        *_place(parts),
        f"@if not exist {_below(parts, parts.marker)} goto gone",
        *_checks(parts.changed),
        "@if defined _ROCENV_X goto unfit",
        "@if defined _ROCENV_B goto delayed",
        "@call :leave",
        "@if errorlevel 1 goto failed",
        parts.save,
        *parts.change,
        *(f'@set "_ROCENV_NEW_{ident}_{name}=%{name}%"' for name in parts.changed),
        *(f'@set "_ROCENV_ADD_{ident}_{name}={";".join(own)};"' for name, own in parts.lists.items()),
        f'@set "_ROCENV_LOW_{ident}=%_ROCENV_TOP%"',
        f'@set "_ROCENV_TOP={_PREFIX}\\{_DEACTIVATE.replace("/", chr(92))}"',
        *_report(parts),
        f'@set "_ROCENV_STACK={ident} %_ROCENV_STACK%"',
        _prompt(parts),
        code.CLEAN_ALL,
        "@exit /b 0",
        *_refusals(parts, longest),
        code.LEAVE.replace("IDENT", ident),
    ]
    return _finished([*lines, code.LISTS, _check_code(longest), code.CLEAN])


def companions(parts: Parts) -> dict[str, str]:
    """Return the script that takes the changes back; it holds no path."""
    ident = parts.ident
    lines = [
        f"@rem Leaves the env `{_ascii(parts.label)}` in cmd, or the one that was activated after it.",
        code.TOP.replace("IDENT", ident),
        *_checks((*parts.changed, "PROMPT", *(f"_OLD_VIRTUAL_{each}" for each in _VENV))),
        "@if defined _ROCENV_B goto delayed",
        '@set "_ROCENV_K="',
        *(_from_venv(ident, each) for each in _VENV),
        *parts.restore,
        f"@if not defined _ROCENV_NEW_{ident}_PROMPT goto no_prompt",
        restore(ident, "PROMPT", None, ()),
        ":no_prompt",
        f'@set "_ROCENV_TOP=%_ROCENV_LOW_{ident}%"',
        f'@set "_ROCENV_LOW_{ident}="',
        '@for /f "tokens=1*" %%I in ("%_ROCENV_STACK%") do @set "_ROCENV_STACK=%%J"',
        "@if defined _ROCENV_K >&2 echo rocenv: "
        "changed while the env was active, and left as it is now:%_ROCENV_K%",
        "@call :clean",
        "@exit /b 0",
        code.DELAYED,
        "@call :clean",
        "@exit /b 1",
        code.GONE_BELOW,
    ]
    return {_DEACTIVATE: _finished([*lines, code.RESTORE, code.LISTS, _check_code(_LONGEST), code.CLEAN])}


def encode(script: str) -> bytes:
    """Return the file's bytes: cmd misses labels where lines do not end in CR and LF."""
    return script.replace("\n", "\r\n").encode("ascii")


def _from_venv(ident: str, name: str) -> str:
    """Take the env out of what a venv that was activated inside it is going to put back."""
    saved = f"_OLD_VIRTUAL_{name}"
    copies = {"V": saved, "W": f"_ROCENV_NEW_{ident}_{name}", "O": f"_ROCENV_OLD_{ident}_{name}"}
    copies["A"] = f"_ROCENV_ADD_{ident}_{name}"
    return "\n".join(
        [
            f"@if not defined {saved} goto venv_{name}",
            '@set "_ROCENV_X="',
            _check(saved),
            f"@if defined _ROCENV_X goto venv_{name}",
            *(f'@set "_ROCENV_{short}=%{source}%"' for short, source in copies.items()),
            "@call :restore PROMPT",  # which reports nothing
            f'@if not defined _ROCENV_V set "_ROCENV_V={_VENV[name]}"',
            f'@set "{saved}=%_ROCENV_V%"',
            f":venv_{name}",
        ]
    )


def _check_code(longest: int) -> str:
    return code.CHECK.replace("LONGEST", str(longest))


def _finished(lines: Sequence[str]) -> str:
    """Return the lines as one text, with a number for each label that stands for one of many."""
    first, *rest = "\n".join(lines).split("goto LABEL\n")
    for number, part in enumerate(rest):
        first += f"goto label_{number}\n" + part.replace(":LABEL\n", f":label_{number}\n", 1)
    return first


def _ascii(text: str) -> str:
    return "".join(char if char.isascii() else "?" for char in text)


def _below(parts: Parts, path: str) -> str:
    return quote(_PREFIX + path.removeprefix(parts.prefix))


def _place(parts: Parts) -> list[str]:
    """Return the lines that put the prefix into its variable."""
    prefix = parts.prefix
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


def _checks(names: Sequence[str]) -> list[str]:
    """Return the lines that note which variables have values that cmd cannot carry."""
    return [
        *(f'@set "_ROCENV_{each}="' for each in "BDX"),
        '@if "!!"=="" set "_ROCENV_D=1"',
        *map(_check, names),
    ]


def _check(name: str) -> str:
    """Return the lines that look at one value; the label keeps cmd from reading them where there is none."""
    return code.CHECK_ONE.replace("NAME", name)


def _report(parts: Parts) -> list[str]:
    """Return the lines that name what the machine had set, unless another env is active below."""
    old = f"_ROCENV_OLD_{parts.ident}_"
    lines = ["@if defined _ROCENV_STACK goto reported", '@set "_ROCENV_K="', '@set "_ROCENV_L="']
    for name in parts.changed:
        into = "L" if name in parts.lists else "K"
        if name.upper() != "PATH":
            lines.append(
                f'@if defined {old}{name} if not "%{old}{name}%"=="%{name}%" '
                f'set "_ROCENV_{into}=%_ROCENV_{into}% {name}"'
            )
    lines += [f'@if defined {name} set "_ROCENV_L=%_ROCENV_L% {name}"' for name in parts.leftovers]
    return [
        *lines,
        "@if defined _ROCENV_K >&2 echo rocenv: set on this machine, replaced until deactivation:%_ROCENV_K%",
        "@if defined _ROCENV_L >&2 echo rocenv: set on this machine, and acts on this env too:%_ROCENV_L%",
        ":reported",
    ]


def _prompt(parts: Parts) -> str:
    own_name = '@for %%N in ("%_ROCENV_P%") do @set "_ROCENV_V=%%~nxN"'
    shown = f'@set "_ROCENV_V={_ascii(parts.label)}"'
    # The name is the folder's; read from there it may hold any letter.
    is_folder = parts.label == parts.name == parts.prefix.rpartition("\\")[2]
    line = own_name if is_folder and not parts.label.isascii() else shown
    return code.PROMPT.replace("IDENT", parts.ident).replace("SHOWN", line)


def _refusals(parts: Parts, longest: int) -> list[str]:
    where = quote(parts.prefix) if parts.prefix.isascii() else '"%~dp0."'
    return [code.REFUSALS.replace("LONGEST", str(longest)).replace("WHERE", where), code.DELAYED, code.FAILED]

"""POSIX sh, bash, zsh, ksh and dash: one script for all of them, which starts no process.

bash reads code slowly, so the script is short and made for the usual case, in which the machine has set none
of the names. Everything else is in a second file, which bash and zsh keep as text until they need it: an env
can be left after it was removed.

bash on Windows (Git, MSYS2, Cygwin) takes the same script. There `PATH` is a list of paths such as `/c/Users`
(MSYS2, Git) or `/cygdrive/c/Users` (Cygwin), which its runtime translates for programs of Windows; all other
values stay as Windows spells them. The script asks the shell which of the two it is; `cygpath` is a process.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.activate.env import EXECUTED_STATUS, fill, resource_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

_LIBRARY = ".rocenv/activate.sh"
# Where the drives are. Source: MSYS2's and Cygwin's own documentation, "The Cygwin Mount Table"
ROOTS = {"CYGWIN": "/cygdrive", "MSYS": ""}
# Stands for the root of the drives until the text is complete; no path or value of Windows holds it.
_ROOT = "\1root\1"


def quote(value: str) -> str:
    """Put `value` in single quotes, within which nothing is special to any of these shells."""
    return "'" + value.replace("'", "'\\''") + "'"


def source(script: str) -> str:
    """What a person types to source the script."""
    return f". {quote(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script and the library that it reads."""
    return _files(env, separator=":")


def _files(env: Env, separator: str) -> dict[str, str]:
    library = resource_text("posix-library.sh")
    functions = " ".join(re.findall(r"^(_rocenv_\w+)\(\)", library, re.MULTILINE))
    library = library.replace("__FUNCTIONS__", functions)
    return {"activate": _script(env, separator), _LIBRARY: library}


def _script(env: Env, separator: str) -> str:
    others = [name for name in env.changed if name != "PATH"]
    script = env.path("activate")
    return fill(
        "posix.sh",
        {
            "LABEL": env.label,
            "MARK": quote(f"({env.label}) "),
            "IDENT": env.ident,
            "SCRIPT": quote(script),
            "LIBRARY": quote(f"{env.prefix}/{_LIBRARY}"),
            "MARKER": quote(env.marker),
            "EXECUTED": quote(f"rocenv: this file is to be sourced, not run. Type:  {source(script)}"),
            "STATUS": str(EXECUTED_STATUS),
            "GONE": quote(f"rocenv: {env.gone}"),
            "THOSE_SET": _those_set(others),
            "WATCHED_SET": _those_set(env.watched),
            "LISTS": quote(" ".join(env.lists)),
            "RESTORE": quote("\n".join(_restore(env, name) for name in env.changed)),
            "CHANGES": "\n".join(_change(change, separator) for change in env.changes),
            # Without names `export` would list what is exported.
            "EXPORT": f'"$_ROCENV_DO" export {" ".join(env.after)}' if env.after else "",
            "REMEMBER": "\n".join(f'_ROCENV_NEW_{env.ident}_{name}="x${name}"' for name in env.lists),
        },
    )


def _those_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+ {name}}}" for name in names)


def _change(change: EnvChange, separator: str) -> str:
    name, value = change.name, quote(change.value)
    if change.action == "set":
        return f"{name}={value}"
    if change.action == "unset":
        return f'"$_ROCENV_DO" unset -v {name}'
    if separator == ";" and name != "PATH":  # a list of Windows' own, which is not taken apart
        return f"""\
case ";${{{name}-}};" in *";"{value}";"*) ;; *) {name}={value}${{{name}:+";${name}"}} ;; esac"""
    return f"""\
case :${{{name}-}}: in *:{value}:*) _rocenv_lib _rocenv_without {name} {value} ;; esac
{name}={value}${{{name}:+":${name}"}}"""


def _restore(env: Env, name: str) -> str:
    if entries := env.lists.get(name):
        return " ".join(["_rocenv_restore", name, f'"$_ROCENV_NEW_{env.ident}_{name}"', *map(quote, entries)])
    after = env.after.get(name)
    return f"_rocenv_restore {name} {quote('' if after is None else 'x' + after)}"


# ---------------------------------------------------------------- bash on Windows


def windows_source(script: str) -> str:
    """What a person types; all of these shells take a path with a drive."""
    return source(PureWindowsPath(script).as_posix())


def windows_files(env: Env) -> dict[str, str]:
    """Render the files for bash on Windows."""
    spelled = replace(
        env, prefix=_spelled(env.prefix), platform="linux", changes=tuple(map(_windows_change, env.changes))
    )
    found = _files(spelled, separator=";")
    # It is within single quotes, wherever it is.
    script = found["activate"].replace(_ROOT, "'\"$_ROCENV_ROOT\"'")
    ask = fill("msys.sh", {kind: quote(root) for kind, root in ROOTS.items()})
    return {**found, "activate": ask + script}


def _windows_change(change: EnvChange) -> EnvChange:
    if change.name.upper() == "PATH":
        return structs.replace(change, value=_spelled(change.value))
    if change.action == "set" and not change.value:  # a variable cannot be empty on Windows
        return structs.replace(change, action="unset")
    return change


def _spelled(path: str) -> str:
    drive, rest = path[:2], path[2:].replace("\\", "/")
    return f"//{rest}" if drive == "\\\\" else f"{_ROOT}/{drive[0].lower()}{rest}"


# ---------------------------------------------------------------- the hook


def bash_hook(place: Place) -> str:
    """Render the hook of bash."""
    return _hook(place, "bash-hook.sh", {"DO": r"\builtin", "LOCAL": r"\local", "OPTIONS": ""})


def zsh_hook(place: Place) -> str:
    """Render the hook of zsh."""
    options = r"\builtin emulate -L zsh; \builtin setopt no_warn_create_global no_warn_nested_var"
    return _hook(place, "zsh-hook.zsh", {"DO": r"\builtin", "LOCAL": r"\local", "OPTIONS": options})


def plain_hook(place: Place) -> str:
    """Render the hook of a POSIX shell that is neither: nothing runs at its prompt, so `cd` looks."""
    return _hook(place, "plain-hook.sh", {"DO": r"\command", "LOCAL": ":", "OPTIONS": ""})


def _hook(place: Place, own: str, words: Mapping[str, str]) -> str:
    words = {"PROGRAM": quote(place.program), "ENVS": quote(place.envs), **words}
    return fill("posix-hook.sh", words) + fill(own, words)

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

from rocenv.activate.env import EXECUTED_STATUS, fill, fill_text, resource_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    return {"activate": _script(env, separator), _LIBRARY: _library(env, separator)}


def _library(env: Env, separator: str) -> str:
    text = resource_text("posix-library.sh")
    words = {
        "FUNCTIONS": " ".join(re.findall(r"^(_rocenv_[a-z]+(?:_[a-z]+)*)\(\)", text, re.MULTILINE)),
        "IDENT": env.ident,
        "OTHERS": " ".join(_but_path(env.changed)),
        "WATCHED": " ".join(env.watched),
        "CLEAN": "\n".join(_clean(env, name) for name in env.lists if _is_taken_apart(name, separator)),
        "RESTORE": "\n".join(_restore(env, name) for name in env.changed),
    }
    return fill_text(text, words)


def _script(env: Env, separator: str) -> str:
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
            "ANY_SET": "".join(f"${{{name}+x}}" for name in (*_but_path(env.changed), *env.watched)),
            "LISTS": quote(" ".join(env.lists)),
            "PATH_WITH_OURS": " | ".join(dict.fromkeys(_with_ours(env))) or "''",
            "CHANGES": _changes(env, separator),
            "REMEMBER": "\n".join(f'_ROCENV_NEW_{env.ident}_{name}="x${{{name}-}}"' for name in env.lists),
        },
    )


def _but_path(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name != "PATH")


def _with_ours(env: Env) -> Iterator[str]:
    """Patterns for a PATH that has an entry of the env already; short ones, since bash reads slowly."""
    for entry in env.lists.get("PATH", ()):
        is_below = entry.startswith(f"{env.prefix}/")
        yield f"*:{quote(env.prefix + '/')}*" if is_below else f"*:{quote(entry)}:*"


def _changes(env: Env, separator: str) -> str:
    """Set and export in one command, which is faster than one for each."""
    before = []
    unset = [change.name for change in env.changes if change.action == "unset"]
    if unset:
        before.append(f'"$_ROCENV_DO" unset -v {" ".join(unset)} || _ROCENV_HOW=refused')
    words = [f"{each.name}={quote(each.value)}" for each in env.changes if each.action == "set"]
    for name, entries in env.lists.items():
        if _is_taken_apart(name, separator):
            first = ":".join(dict.fromkeys(reversed(entries)))
            words.append(f'{name}={quote(first)}"${{{name}:+:${name}}}"')
        else:
            before += [_put_first_on_windows(name, quote(entry)) for entry in entries]
            words.append(name)
    # Without names `export` would list what is exported. It fails at a read-only variable, which some shells
    # do not tell before.
    export = " \\\n".join(['"$_ROCENV_DO" export', *words, "|| _ROCENV_HOW=refused"]) if words else ""
    return "\n".join([*before, export])


def _put_first_on_windows(name: str, entry: str) -> str:
    return (
        f"""case ";${{{name}-}};" in *";"{entry}";"*) ;; *) {name}={entry}${{{name}:+";${name}"}} ;; esac"""
    )


def _clean(env: Env, name: str) -> str:
    return " ".join(["_rocenv_without", name, *map(quote, env.lists[name])])


def _is_taken_apart(name: str, separator: str) -> bool:
    """A list of Windows' own is not."""
    return separator == ":" or name == "PATH"


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
    # It is within single quotes, wherever it is.
    found = {
        path: text.replace(_ROOT, "'\"$_ROCENV_ROOT\"'")
        for path, text in _files(spelled, separator=";").items()
    }
    ask = fill("msys.sh", {kind: quote(root) for kind, root in ROOTS.items()})
    return {**found, "activate": ask + found["activate"]}


def _windows_change(change: EnvChange) -> EnvChange:
    from msgspec import structs  # late: the hook needs no values

    if change.name.upper() == "PATH":
        return structs.replace(change, value=_spelled(change.value))
    if change.action == "set" and not change.value:  # a variable cannot be empty on Windows
        return structs.replace(change, action="unset")
    return change


def _spelled(path: str) -> str:
    drive, rest = path[:2], path[2:].replace("\\", "/")
    return f"//{rest}" if drive == "\\\\" else f"{_ROOT}/{drive[0].lower()}{rest}"


# ---------------------------------------------------------------- the hook


# What bash and zsh have and others have not.
_OWN_WORDS = {"DO": r"\builtin", "LOCAL": r"\local", "HAS_FILE": "[[ -f $_rocenv_d/.rocenv ]]"}


def bash_hook(place: Place) -> str:
    """Render the hook of bash."""
    return _hook(place, "bash-hook.sh", {**_OWN_WORDS, "OPTIONS": ""})


def zsh_hook(place: Place) -> str:
    """Render the hook of zsh."""
    options = r"\builtin emulate -L zsh; \builtin setopt no_warn_create_global no_warn_nested_var"
    return _hook(place, "zsh-hook.zsh", {**_OWN_WORDS, "OPTIONS": options})


def plain_hook(place: Place) -> str:
    """Render the hook of a POSIX shell that is neither: nothing runs at its prompt, so `cd` looks."""
    words = {
        "DO": r"\command",
        "LOCAL": ":",
        "OPTIONS": "",
        "HAS_FILE": '\\command test -f "$_rocenv_d/.rocenv"',
    }
    return _hook(place, "plain-hook.sh", words)


def _hook(place: Place, own: str, words: Mapping[str, str]) -> str:
    words = {"PROGRAM": quote(place.program), "ENVS": quote(place.envs), **words}
    return fill("posix-hook.sh", words) + fill(own, words)

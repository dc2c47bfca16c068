"""POSIX sh, bash, zsh, ksh, and dash: one script for all of them, which does not start any process.

bash reads code slowly, so the script is short and optimized for the usual case, in which none of the env's
variables are already set. Other code is in a second file, which bash and zsh keep in a variable until
they need it, so you can deactivate an env even after it is removed.

bash on Windows (Git, MSYS2, Cygwin) uses the same script. There, `PATH` is a list of paths such as `/c/Users`
(MSYS2, Git) or `/cygdrive/c/Users` (Cygwin), which the runtime converts for Windows programs; all other
values use Windows' own format. The script uses the shell's variables to determine which form `PATH` has,
because `cygpath` would start a process.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from rocenv.activate.env import EXECUTED_STATUS, fill, resource_text
from rocenv.core.template import fill_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rocenv.activate.env import Env, Place
    from rocenv.core.model import EnvChange

_LIBRARY = ".rocenv/activate.sh"
# The drive mount point. Source: MSYS2 and Cygwin documentation, "The Cygwin Mount Table"
ROOTS = {"CYGWIN": "/cygdrive", "MSYS": ""}
# Stands for the drive mount point; never occurs in Windows paths or values.
_ROOT = "\1root\1"


def quote(value: str) -> str:
    """Put `value` in single quotes, within which no character is special in any of these shells."""
    return "'" + value.replace("'", "'\\''") + "'"


def source(script: str) -> str:
    """Return the command that sources the script."""
    return f". {quote(script)}"


def files(env: Env) -> dict[str, str]:
    """Render the script and its library."""
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
    return fill_script(text, words)


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
            "EXECUTED": quote(f"rocenv: source this file instead of running it:  {source(script)}"),
            "STATUS": str(EXECUTED_STATUS),
            "GONE": quote(f"rocenv: {env.gone}"),
            "COPIED": quote(f"rocenv: {env.copied}"),
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
    """Yield patterns that match a PATH containing one of the env's entries.

    They are short because bash parses slowly.
    """
    for entry in env.lists.get("PATH", ()):
        is_below = entry.startswith(f"{env.prefix}/")
        yield f"*:{quote(env.prefix + '/')}*" if is_below else f"*:{quote(entry)}:*"


def _changes(env: Env, separator: str) -> str:
    """Render the changes as a single command that sets and exports, which is faster than several."""
    before = []
    unset = [change.name for change in env.changes if change.action == "unset"]
    if unset:
        before.append(f'"$_ROCENV_DO" unset -v {" ".join(unset)} || _ROCENV_HOW=refused')
    if env.caches:
        words_of_cache = {"PREFIX": quote(env.prefix), "IDENT": env.ident}
        before.append(fill("posix-cache.sh", words_of_cache).rstrip())
    words = [
        f"{each.name}={_in_cache(env, each.name, quote(each.value))}"
        for each in env.changes
        if each.action == "set"
    ]
    for name, entries in env.lists.items():
        if _is_taken_apart(name, separator):
            first = ":".join(dict.fromkeys(reversed(entries)))
            words.append(f'{name}={quote(first)}"${{{name}:+:${name}}}"')
        else:
            before += [_put_first_on_windows(name, quote(entry)) for entry in entries]
            words.append(name)
    # Without names, `export` would list all variables. It fails for read-only variables, which not every
    # shell can detect in advance.
    export = " \\\n".join(['"$_ROCENV_DO" export', *words, "|| _ROCENV_HOW=refused"]) if words else ""
    return "\n".join([*before, export])


def _put_first_on_windows(name: str, entry: str) -> str:
    return (
        f"""case ";${{{name}-}};" in *";"{entry}";"*) ;; *) {name}={entry}${{{name}:+";${name}"}} ;; esac"""
    )


def _clean(env: Env, name: str) -> str:
    return " ".join(["_rocenv_without", name, *map(quote, env.lists[name])])


def _is_taken_apart(name: str, separator: str) -> bool:
    """Whether the script splits a list into entries; it does not split lists in Windows' own format."""
    return separator == ":" or name == "PATH"


def _restore(env: Env, name: str) -> str:
    if entries := env.lists.get(name):
        return " ".join(["_rocenv_restore", name, f'"$_ROCENV_NEW_{env.ident}_{name}"', *map(quote, entries)])
    after = env.after.get(name)
    state = quote("" if after is None else "x" + after)
    return f"_rocenv_restore {name} {_in_cache(env, name, state, 'x')}"


def _in_cache(env: Env, name: str, word: str, first: str = "") -> str:
    """Return the shell word for a value; a cache folder's word contains the variable with its location."""
    rest = env.caches.get(name)
    return word if rest is None else f'"{first}$_ROCENV_CACHE_{env.ident}"{quote(rest)}'


# ---------------------------------------------------------------- bash on Windows


def windows_source(script: str) -> str:
    """Return the command that sources the script; all of these shells accept drive letters."""
    return source(PureWindowsPath(script).as_posix())


def windows_files(env: Env) -> dict[str, str]:
    """Render the files for bash on Windows."""
    spelled = replace(
        env, prefix=_spelled(env.prefix), platform="linux", changes=tuple(map(_windows_change, env.changes))
    )
    found = {
        path: text.replace(_ROOT, "'\"$_ROCENV_ROOT\"'")
        for path, text in _files(spelled, separator=";").items()
    }
    ask = fill("msys.sh", {kind: quote(root) for kind, root in ROOTS.items()})
    return {**found, "activate": ask + found["activate"]}


def _windows_change(change: EnvChange) -> EnvChange:
    from msgspec import structs  # imported late, because the hook does not use values

    if change.name.upper() == "PATH":
        return structs.replace(change, value=_spelled(change.value))
    if change.action == "set" and not change.value:  # Windows has no empty variables
        return structs.replace(change, action="unset")
    return change


def _spelled(path: str) -> str:
    drive, rest = path[:2], path[2:].replace("\\", "/")
    return f"//{rest}" if drive == "\\\\" else f"{_ROOT}/{drive[0].lower()}{rest}"


# ---------------------------------------------------------------- the hook


# Features that only bash and zsh have.
_OWN_WORDS = {"DO": r"\builtin", "LOCAL": r"\local", "HAS_FILE": "[[ -f $_rocenv_d/.rocenv ]]"}


def bash_hook(place: Place) -> str:
    """Render the hook for bash."""
    return _hook(place, "bash-hook.sh", {**_OWN_WORDS, "OPTIONS": ""})


def zsh_hook(place: Place) -> str:
    """Render the hook for zsh."""
    options = r"\builtin emulate -L zsh; \builtin setopt no_warn_create_global no_warn_nested_var"
    return _hook(place, "zsh-hook.zsh", {**_OWN_WORDS, "OPTIONS": options})


def plain_hook(place: Place) -> str:
    """Render the hook for other POSIX shells, where `cd`, not a prompt hook, looks for a `.rocenv`."""
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

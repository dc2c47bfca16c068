"""POSIX sh, bash, zsh and ksh: one script for all of them, which starts no process.

A sourced script runs in the middle of somebody's shell, so nothing in it depends on what that shell is set
to: words are quoted, commands are called past aliases and functions, and what splits words is done in
functions under `_rocenv_neutral`. bash reads code slowly, so the script is short, and made for the usual
case, in which the machine has set none of the names. What is needed for everything else is a second file
(`posix_runtime`), which bash and zsh only keep as text until something of it is called for: an env can be
left after it was removed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix_runtime import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate"
platforms = ("linux",)
EXECUTED_STATUS = 33
_LIBRARY_FILE = ".rocenv/activate.sh"


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f". {quote(script)}"


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` in single quotes, within which nothing is special to any of these shells."""
    return "'" + value.replace("'", "'\\''") + "'"


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set, and whether they are exported."""
    others = f"case $_ROCENV_HAD in ?*) _rocenv_lib _rocenv_save {ident} ;; esac"
    if "PATH" not in names:
        return others
    old = f"_ROCENV_OLD_{ident}_PATH"
    return f"""\
case ${{PATH+x}}/$_ROCENV_HOW in
x/x) {old}="x$PATH" ;;
x/*) _rocenv_lib _rocenv_save_one {ident} PATH ;;
esac
{others}"""


def set(name: str, value: str) -> str:
    """Set."""
    return f"{name}={quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    entry = quote(value)
    return f"""\
case :${{{name}-}}: in *:{entry}:*) _rocenv_lib _rocenv_without {name} {entry} ;; esac
{name}={entry}${{{name}:+":${name}"}}"""


def unset(name: str) -> str:
    """Make the variable absent."""
    return f'"$_ROCENV_DO" unset -v {name}'


def restore(ident: str, name: str, after: str | None, entries: Sequence[str]) -> str:
    """Put back what `save` remembered; after a change by the user take only `entries` out."""
    if entries:
        return " ".join(["_rocenv_restore", name, f'"$_ROCENV_NEW_{ident}_{name}"', *map(quote, entries)])
    return f"_rocenv_restore {name} {quote('' if after is None else 'x' + after)}"


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    return "\n".join([_opening(parts), *_on(parts), _CLOSING])


def companions(parts: Parts) -> dict[str, str]:
    """Return the functions that take the changes back."""
    functions = " ".join(re.findall(r"^(_rocenv_\w+)\(\)", LIBRARY, re.MULTILINE))
    library = re.sub(r"^ +", "", LIBRARY.strip(), flags=re.MULTILINE).replace("FUNCTIONS", functions)
    return {
        _LIBRARY_FILE: "\n".join(
            [
                library,
                f"_rocenv_names_{parts.ident}() {{",
                f"_ROCENV_HAD={_those_set(_but_path(parts.changed))}",
                f"_ROCENV_LEFT={_those_set(parts.leftovers)}",
                "}",
                f"_rocenv_off_{parts.ident}() {{",
                "_rocenv_kept=",
                *parts.restore,
                "}",
                "",
            ]
        )
    }


def encode(script: str) -> bytes:
    """Return the script's bytes; paths may be no valid UTF-8, and go through as they are."""
    return os.fsencode(script)


def _opening(parts: Parts) -> str:
    ident = parts.ident
    script, library = quote(parts.script), quote(f"{parts.prefix}/{_LIBRARY_FILE}")
    executed = quote(f"rocenv: this file is to be sourced, not run. Type:  {source(parts.script)}")
    gone = quote(
        f"rocenv: there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    )
    return f"""\
# To be sourced: activates the env `{parts.label}`, and defines `deactivate`, which takes that back.
case $- in *a*) \\set +a; _ROCENV_ALL=a ;; *) _ROCENV_ALL= ;; esac
case ${{BASH_VERSION-}}${{ZSH_VERSION-}} in ?*) _ROCENV_DO=builtin ;; *) _ROCENV_DO=command ;; esac
case $0 in *{file_name}) if "$_ROCENV_DO" test "$0" -ef {script}; then
case ${{ZSH_EVAL_CONTEXT-}}/${{FUNCNAME-}} in *file* | */source) ;;
*) "$_ROCENV_DO" printf '%s\\n' {executed} >&2; "$_ROCENV_DO" exit {EXECUTED_STATUS} ;; esac
fi ;; esac
"$_ROCENV_DO" test -f {quote(parts.marker)} && "$_ROCENV_DO" test -r {library} || {{
"$_ROCENV_DO" printf '%s\\n' {gone} >&2
{_REFUSED}
}}
# Active already: leave it, with those on top of it, and start afresh.
case " ${{_ROCENV_STACK-}}" in *' {ident} '*) _rocenv_lib _rocenv_leave {ident} ;; esac
case ${{ZSH_VERSION-}}/${{BASH_VERSION-}} in
?*/) _ROCENV_LIB_{ident}="$(<{library})"
case ${{PATH+${{(t)PATH}}}} in scalar*-export-special) _ROCENV_HOW=x ;; *) _ROCENV_HOW=s ;; esac ;;
/4.[4-9]* | /[5-9].* | /[1-9][0-9]*)
"$_ROCENV_DO" mapfile -d '' _ROCENV_LIB_{ident} <{library}; _ROCENV_HOW=${{PATH+${{PATH@a}}}} ;;
*) _ROCENV_LIB_{ident}=; \\. {library}; _ROCENV_HOW=x ;; esac
"$_ROCENV_DO" eval '_rocenv_lib() {{ "$_ROCENV_DO" eval "$_ROCENV_LIB_{ident}"; _rocenv_neutral "$@"; }}'"""


def _on(parts: Parts) -> list[str]:
    ident, prompt, lists = parts.ident, quote(f"({parts.label}) "), " ".join(parts.lists)
    return [
        # Is a `deactivate` there that is not ours: that of a venv below, or of one that was put on top since?
        f"_ROCENV_NOW={_VENV}",
        "case ${_ROCENV_OURS+x}$_ROCENV_NOW in",
        'x | "x${_ROCENV_OURS-}") "$_ROCENV_DO" false ;;',
        "*) case $_ROCENV_DO in",
        'builtin) "$_ROCENV_DO" alias deactivate || "$_ROCENV_DO" typeset -f deactivate ;;',
        # (Not in zsh, which would export a PATH that is not set.)
        '*) "$_ROCENV_DO" alias deactivate || PATH=/dev/null "$_ROCENV_DO" command -v deactivate ;;',
        f"esac ;; esac >/dev/null 2>&1 && _rocenv_lib _rocenv_keep_foreign {ident}",
        "_ROCENV_OURS=$_ROCENV_NOW",
        """"$_ROCENV_DO" eval 'deactivate() { _rocenv_lib _rocenv_end; }'""",
        "_ROCENV_LEFT=",
        f"_ROCENV_HAD={_any_set(_but_path((*parts.changed, *parts.leftovers)))}",
        "_ROCENV_FIXED=",
        parts.save,
        f"case $_ROCENV_FIXED in ?*) _rocenv_lib _rocenv_refuse {ident}",
        _REFUSED + " ;; esac",
        # From here on it can be left, whatever happens.
        "_ROCENV_FIRST=${_ROCENV_STACK:+-}",
        f'_ROCENV_STACK="{ident} ${{_ROCENV_STACK-}}"',
        *parts.change,
        # Without names it would list what is exported.
        *([f'"$_ROCENV_DO" export {" ".join(parts.exported)}'] if parts.exported else []),
        *(f'_ROCENV_NEW_{ident}_{name}="x${name}"' for name in parts.lists),
        "case $_ROCENV_FIRST$_ROCENV_HAD$_ROCENV_LEFT in",
        f"[!-]*) _rocenv_lib _rocenv_report {ident} '{lists}' ;; esac",
        "case ${ROCENV_DISABLE_PROMPT-}:${PS1:+x} in :x)",
        f'_ROCENV_PS1_{ident}={prompt}; PS1={prompt}"$PS1" ;; esac',
    ]


def _but_path(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name != "PATH")


def _any_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+x}}" for name in names)


def _those_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+ {name}}}" for name in names)


# A venv keeps the PATH that it found, and removes the variable when it is left.
_VENV = '${_OLD_VIRTUAL_PATH+"x$_OLD_VIRTUAL_PATH"}'
# What only the script needs.
_OWN = "_ROCENV_ALL _ROCENV_FIRST _ROCENV_FIXED _ROCENV_HAD _ROCENV_HOW _ROCENV_LEFT _ROCENV_NOW"
_CLOSING = f"""\
case $_ROCENV_ALL in a) \\set -a ;; esac
"$_ROCENV_DO" unset -v {_OWN}
"""
_REFUSED = f"""\
case $_ROCENV_ALL in a) \\set -a ;; esac
\\unset -v {_OWN}
case ${{_ROCENV_STACK-}} in '') \\unset -v _ROCENV_DO ;; esac
\\return 1"""

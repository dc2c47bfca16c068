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
    return f"case ${{PATH+x}}/$_ROCENV_HOW in x/*x*) {old}=x$PATH ;; x/*) {old}=s$PATH ;; esac\n{others}"


def set(name: str, value: str) -> str:
    """Set."""
    return f"{name}={quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    entry = quote(value)
    return f"""\
case :${{{name}-}}: in *:{entry}:*)
"$_ROCENV_DO" set +a; _rocenv_lib _rocenv_without {name} {entry}; "$_ROCENV_DO" set -a ;; esac
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
"$_ROCENV_DO" test -f {quote(parts.marker)} || {{
"$_ROCENV_DO" printf '%s\\n' {gone} >&2
case $_ROCENV_ALL in a) \\set -a ;; esac
"$_ROCENV_DO" unset -v _ROCENV_ALL
case ${{_ROCENV_STACK-}} in '') "$_ROCENV_DO" unset -v _ROCENV_DO ;; esac
\\return 1
}}
# Active already: leave it, with those on top of it, and start afresh.
case " ${{_ROCENV_STACK-}}" in *' {ident} '*) _rocenv_lib _rocenv_leave {ident} ;; esac
case ${{ZSH_VERSION-}}/${{BASH_VERSION-}} in
?*/) _ROCENV_LIB_{ident}=$(<{library}); _ROCENV_HOW=${{PATH+${{(t)PATH}}}} ;;
/4.[4-9]* | /[5-9].* | /[1-9][0-9]*)
"$_ROCENV_DO" mapfile -d '' _ROCENV_LIB_{ident} <{library}; _ROCENV_HOW=${{PATH+${{PATH@a}}}} ;;
*) _ROCENV_LIB_{ident}=; \\. {library}; _ROCENV_HOW=x ;; esac
"$_ROCENV_DO" eval '_rocenv_lib() {{ "$_ROCENV_DO" eval "$_ROCENV_LIB_{ident}"; _rocenv_neutral "$@"; }}'"""


def _on(parts: Parts) -> list[str]:
    ident, prompt, lists = parts.ident, quote(f"({parts.label}) "), " ".join(parts.lists)
    return [
        # A program of that name, such as conda's, is no reason to do anything. (zsh would export a PATH that
        # is not set.)
        "case ${_ROCENV_STACK+x}$_ROCENV_DO in",
        'builtin) "$_ROCENV_DO" alias deactivate || "$_ROCENV_DO" typeset -f deactivate ;;',
        'command) "$_ROCENV_DO" alias deactivate || PATH=/dev/null "$_ROCENV_DO" command -v deactivate ;;',
        '*) "$_ROCENV_DO" false ;; esac >/dev/null 2>&1 && _rocenv_lib _rocenv_keep_foreign',
        # Each venv's script begins by calling `deactivate nondestructive`, to leave what it was itself.
        """"$_ROCENV_DO" eval 'deactivate() {""",
        """case ${1-} in nondestructive) ;; *) _rocenv_lib _rocenv_end ;; esac; }'""",
        "_ROCENV_LEFT=",
        f"_ROCENV_HAD={_any_set(_but_path((*parts.changed, *parts.leftovers)))}",
        parts.save,
        '"$_ROCENV_DO" set -a',
        *parts.change,
        '"$_ROCENV_DO" set +a',
        *(f"_ROCENV_NEW_{ident}_{name}=x${name}" for name in parts.lists),
        "case ${_ROCENV_STACK:+-}$_ROCENV_HAD$_ROCENV_LEFT in",
        f"[!-]*) _rocenv_lib _rocenv_report {ident} '{lists}' ;; esac",
        "case ${ROCENV_DISABLE_PROMPT-}:${PS1:+x} in :x)",
        f"_ROCENV_PS1_{ident}={prompt}; PS1={prompt}$PS1 ;; esac",
        f'_ROCENV_STACK="{ident} ${{_ROCENV_STACK-}}"',
    ]


def _but_path(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name != "PATH")


def _any_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+x}}" for name in names)


def _those_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+ {name}}}" for name in names)


_CLOSING = """\
case $_ROCENV_ALL in a) \\set -a ;; esac
"$_ROCENV_DO" unset -v _ROCENV_ALL _ROCENV_HAD _ROCENV_HOW _ROCENV_LEFT
"""

"""POSIX sh, bash and zsh: one script for all three, which starts no process.

A sourced script runs in the middle of somebody's shell, so nothing in it depends on what that shell is set
to: words are quoted, commands are called past aliases and functions, and functions run under
`_rocenv_neutral`. What it consists of beside the data of the env stands in `posix_runtime`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix_runtime import CORE, LIBRARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate"
platform = "linux"
EXECUTED_STATUS = 33


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` in single quotes, within which nothing is special to any of these shells."""
    return "'" + value.replace("'", "'\\''") + "'"


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set, and whether they are exported."""
    return f"_rocenv_had={_those_set(names)}\n_rocenv_save {ident}"


def set(name: str, value: str) -> str:
    """Set."""
    return f"{name}={quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once."""
    return f"_rocenv_prepend {name} {quote(value)}"


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
    return "\n".join([_opening(parts), _unindented(CORE), _function("_rocenv_on", _on(parts)), _CLOSING])


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is a function."""
    return {}


def encode(script: str) -> bytes:
    """Return the script's bytes; paths may be no valid UTF-8, and go through as they are."""
    return os.fsencode(script)


def _opening(parts: Parts) -> str:
    script = quote(parts.script)
    executed = quote(f"rocenv: this file is to be sourced, not run. Type:  . {script}")
    gone = quote(
        f"rocenv: there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    )
    return f"""\
# To be sourced: activates the env `{parts.label}`, and defines `deactivate`, which takes that back.
case $- in *a*) \\set +a; _ROCENV_ALL=a ;; *) _ROCENV_ALL= ;; esac
case ${{BASH_VERSION-}}${{ZSH_VERSION-}} in ?*) _ROCENV_DO=builtin ;; *) _ROCENV_DO=command ;; esac
if "$_ROCENV_DO" test "$0" -ef {script}; then
case ${{ZSH_EVAL_CONTEXT-}}/${{FUNCNAME-}} in *file* | */source) ;;
*) "$_ROCENV_DO" printf '%s\\n' {executed} >&2; "$_ROCENV_DO" exit {EXECUTED_STATUS} ;; esac
fi
"$_ROCENV_DO" test -f {quote(parts.marker)} || {{
"$_ROCENV_DO" printf '%s\\n' {gone} >&2
case $_ROCENV_ALL in a) \\set -a ;; esac
"$_ROCENV_DO" unset -v _ROCENV_ALL
case ${{_ROCENV_STACK-}} in '') "$_ROCENV_DO" unset -v _ROCENV_DO ;; esac
\\return 1
}}
# Active already: leave it, with those on top of it, and start afresh.
case " ${{_ROCENV_STACK-}}" in
*' {parts.ident} '*) _rocenv_neutral _rocenv_lib _rocenv_leave {parts.ident} ;; esac"""


def _on(parts: Parts) -> list[str]:
    ident, prompt = parts.ident, quote(f"({parts.label}) ")
    functions = re.findall(r"^(_rocenv_\w+)\(\)", CORE + LIBRARY, re.MULTILINE)
    library = _unindented(LIBRARY).replace("FUNCTIONS", " ".join(functions))
    return [
        f"_ROCENV_LIB={quote(library)}",
        "case ${_ROCENV_STACK+x} in '')",
        'if "$_ROCENV_DO" command -v deactivate >/dev/null; then',
        "_rocenv_lib _rocenv_keep_foreign; fi ;; esac",
        """"$_ROCENV_DO" eval 'deactivate() { _rocenv_neutral _rocenv_lib _rocenv_end; }'""",
        parts.save,
        *parts.change,
        # Without names it would list what is exported.
        *([f'"$_ROCENV_DO" export {" ".join(parts.exported)}'] if parts.exported else []),
        *(f"_ROCENV_NEW_{ident}_{name}=x${name}" for name in parts.lists),
        f"_ROCENV_OFF_{ident}={quote(chr(10).join(parts.restore))}",
        f"_rocenv_left={_those_set(parts.leftovers)}",
        "case ${_ROCENV_STACK:+-}$_rocenv_had$_rocenv_left in '' | ' PATH' | -*) ;;",
        f"*) _rocenv_lib _rocenv_report {ident} '{' '.join(parts.lists)}' ;; esac",
        "case ${ROCENV_DISABLE_PROMPT-}:${PS1:+x} in :x)",
        f"_ROCENV_PS1_{ident}={prompt}; PS1={prompt}$PS1 ;; esac",
        f'_ROCENV_STACK="{ident} ${{_ROCENV_STACK-}}"',
    ]


def _those_set(names: Sequence[str]) -> str:
    return "".join(f"${{{name}+ {name}}}" for name in names)


def _function(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{name}() {{", *lines, "}"])


def _unindented(code: str) -> str:
    return re.sub(r"^ +", "", code.strip(), flags=re.MULTILINE)


_CLOSING = """\
_rocenv_neutral _rocenv_on
"$_ROCENV_DO" unset -f _rocenv_on
case $_ROCENV_ALL in a) \\set -a ;; esac
"$_ROCENV_DO" unset -v _ROCENV_ALL
"""

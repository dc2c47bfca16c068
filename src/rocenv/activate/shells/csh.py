"""tcsh (the `csh` of most systems): a script that starts no process.

What it consists of beside the data of the env, and the rules that its code keeps to, stand in `csh_runtime`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.shells.csh_runtime import (
    COMPLAIN,
    KEEP,
    OPENING,
    REPORT,
    REPORT_CHANGED,
    REPORT_LEFT,
    TEXTS,
    UNTIL,
)
from rocenv.activate.shells.csh_runtime import quote as quote
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate.csh"
platforms = ("linux",)
EXECUTED_STATUS = 33

# A shell variable of tcsh's own: it would hide the environment's, and cannot be put aside for a moment.
# Source: tcsh(1), "Special shell variables"
_OWN = frozenset(
    {"argv", "cwd", "dirstack", "euid", "euser", "gid", "group", "histchars", "home", "noglob", "owd", "path"}
    | {"prompt", "prompt2", "prompt3", "shell", "shlvl", "status", "tcsh", "term", "tty", "uid", "user"}
    | {"verbose", "version"}
)
# What `SAVE` does, sooner, since there is always a `PATH` and hardly ever a shell variable of that name.
_SAVE_PATH = [
    "if ($?PATH) then",
    'if ("$#PATH:q" == "$PATH:q" && "$PATH:q" !~ 1{,:q}) then',
    "set _ROCENV_OLD_IDENT_PATH=x$PATH:q",
    "else",
    "set _rocenv_list=PATH",
    "''eval $_ROCENV_SAVE:q",
    "endif",
    "endif",
]
# The last of all, since it ends everything if the user has made the prompt read-only.
_SHOW = """\
if ($?_ROCENV_SHOWN) then
set prompt=$_ROCENV_SHOWN:q
''unset _ROCENV_SHOWN
endif
"""
_GLOBS = str.maketrans(dict.fromkeys("*?[]{}^\\~", "?"))


def source(script: str) -> str:
    """Return what a person types to source the script."""
    return f"source {typed(script)}"


def typed(word: str) -> str:
    """Return one literal word for where history is substituted: at a prompt, even within quotes."""
    return quote(word).replace("!", "\\!")


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set."""
    others = [name for name in names if name != "PATH"]
    lines = [f"set _rocenv_id={ident} _rocenv_had=()"]
    # One test for all of them, since mostly none is set.
    lines += [f'if ("{_whether(others)}" =~ *1*) then']
    lines += [f"if ($?{name}) set _rocenv_had=($_rocenv_had {name})" for name in others]
    lines += ["set _rocenv_list=($_rocenv_had)", _repeat("list", "_ROCENV_SAVE"), "endif"]
    if "PATH" in names:
        lines += [line.replace("IDENT", ident) for line in _SAVE_PATH]
    return "\n".join(lines)


def set(name: str, value: str) -> str:
    """Set.

    Raises:
        DataError: tcsh keeps a shell variable of that name.
    """
    _require_free(name)
    return f"''setenv {name} {quote(value)}"


def prepend(name: str, value: str) -> str:
    """Put an entry first, once.

    Raises:
        DataError: tcsh keeps a shell variable of that name.
    """
    _require_free(name)
    return _prepends(name, (value,))


def _prepends(name: str, entries: Sequence[str]) -> str:
    """Put entries first, and set the variable once: each time it is PATH, tcsh reads all its folders anew."""
    newest = list(dict.fromkeys(reversed(entries)))
    # Quotes do not make a pattern literal, so this may take another entry for one of these; the code that is
    # called for then does not.
    there = " || ".join(f"${{_rocenv_l:q}}: =~ *:{quote(entry.translate(_GLOBS))}:*" for entry in newest)
    cuts = "\n".join(f"set _rocenv_e={quote(entry)}\n''eval $_ROCENV_CUT:q" for entry in newest)
    return f"""\
set _rocenv_l=
if ($?{name}) then
if ($%{name}) set _rocenv_l=:${name}:q
if ({there}) then
{cuts}
endif
endif
set _rocenv_l=:{":".join(map(quote, newest))}$_rocenv_l:q
''setenv {name} $_rocenv_l:s/://:q"""


def unset(name: str) -> str:
    """Make the variable absent.

    Raises:
        DataError: tcsh keeps a shell variable of that name.
    """
    _require_free(name)
    return f"''unsetenv {name}"


def restore(ident: str, name: str, after: str | None, entries: Sequence[str]) -> str:
    """Return what tells `POP`, as part of a `set`, that the variable is a list."""
    return f"_ROCENV_CUT_{ident}_{name}=({' '.join(map(quote, entries))})" if entries else ""


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    return "\n".join([_opening(parts), *_on(parts), "''eval $_ROCENV_DONE:q", _SHOW])


def companions(_parts: Parts) -> dict[str, str]:
    """Return none: what takes the changes back is kept in the shell."""
    return {}


def encode(script: str) -> bytes:
    """Return the script's bytes; paths may be no valid UTF-8, and go through as they are."""
    return os.fsencode(script)


def _require_free(name: str) -> None:
    if name in _OWN:
        raise DataError(f"`{name}` is a variable that tcsh keeps for itself")


def _opening(parts: Parts) -> str:
    executed = f"this file is to be sourced, not run. Type:  {source(parts.script)}"
    gone = f"there is no env at {parts.prefix} any more; `rocenv list` shows those that there are"
    texts = " ".join(f"_ROCENV_{name}={quote(text)}" for name, text in TEXTS.items())
    return f"""\
# To be sourced: activates the env `{parts.label}`, and defines `deactivate`, which takes that back.
if ($?tcsh == 0) then
{COMPLAIN} 'this script is for tcsh, and this shell is another csh'
exit 1
endif
{OPENING}
set {texts}
if ($?_ROCENV_STACK == 0) set _ROCENV_STACK=()
if ($?0) then
if (-F $0:q == -F {quote(parts.script)} && -e $0:q) then
{COMPLAIN} {quote(executed)}
''exit {EXECUTED_STATUS}
endif
endif
if (-f {quote(parts.marker)} == 0) then
{COMPLAIN} {quote(gone)}
''eval $_ROCENV_DONE:q
if ($#_ROCENV_STACK == 0) ''unset '_ROCENV_*'
''exit 1
endif"""


def _on(parts: Parts) -> list[str]:
    ident, prompt = parts.ident, f"({parts.label}) "
    made = [f"x${name}:q" if name in parts.exported else "u" for name in parts.changed]
    return [
        # Active already: leave it, with those on top of it, and start afresh.
        "if ($#_ROCENV_STACK) then",
        f"set _rocenv_until={ident} _rocenv_each={quote(UNTIL)}",
        "set _rocenv_list=($_ROCENV_STACK)",
        _repeat("list", "_rocenv_each"),
        "endif",
        parts.save,
        KEEP.replace("IDENT", ident),
        """''alias deactivate '""eval $_ROCENV_LEAVE:q; : '""",
        *_changes(parts),
        f"set _ROCENV_NAMES_{ident}=({' '.join(parts.changed)}) _ROCENV_NEW_{ident}=({' '.join(made)})"
        + "".join(f" {text}" for text in parts.restore if text),
        *_report(parts),
        f"set _ROCENV_STACK=({ident} $_ROCENV_STACK)",
        "if ($?prompt) then",
        'if ("$?ROCENV_DISABLE_PROMPT" == 1) then',
        "if ($%ROCENV_DISABLE_PROMPT) set _rocenv_plain",
        "endif",
        "if ($?_rocenv_plain == 0 && $#prompt == 1) then",
        f"set _ROCENV_SHOWN={quote(prompt)}$prompt:q _ROCENV_PROMPT_{ident}={quote(_unmark(prompt))}",
        "endif",
        "endif",
    ]


def _changes(parts: Parts) -> list[str]:
    """Return the code of all changes, those of each list in one."""
    apart = [prepend(name, entry) for name, entries in parts.lists.items() for entry in entries]
    others = [change for change in parts.change if change not in apart]
    return [*others, *(_prepends(name, entries) for name, entries in parts.lists.items())]


def _unmark(prompt: str) -> str:
    # A venv that was activated on top has put its own label in front, and kept the old prompt.
    return f"""\
if ($?_OLD_VIRTUAL_PROMPT) then
set _OLD_VIRTUAL_PROMPT=$_OLD_VIRTUAL_PROMPT:s/{prompt}//:q
endif
if ("$prompt:q" =~ *{quote(prompt)}*) set prompt=$prompt:s/{prompt}//:q"""


def _report(parts: Parts) -> list[str]:
    """Return the code that says, when the first env is activated, what the machine had set."""
    return [
        f'if ($#_ROCENV_STACK == 0 && ("$_rocenv_had" != "" || "{_whether(parts.leftovers)}" =~ *1*)) then',
        "set _rocenv_acts= _rocenv_gone= _rocenv_list=($_rocenv_had)",
        f"set _rocenv_lists=({' '.join(parts.lists)}) _rocenv_each={quote(REPORT_CHANGED)}",
        _repeat("list", "_rocenv_each"),
        f"set _rocenv_list=({' '.join(parts.leftovers)}) _rocenv_each={quote(REPORT_LEFT)}",
        _repeat("list", "_rocenv_each"),
        REPORT,
        "endif",
    ]


def _whether(names: Sequence[str]) -> str:
    return "".join(f"$?{name}" for name in names)


def _repeat(times: str, text: str) -> str:
    return f"""''repeat $#_rocenv_{times} ''eval '""eval ${text}:q'"""

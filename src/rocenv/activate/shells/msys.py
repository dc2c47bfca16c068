"""bash and other POSIX shells on Windows, of Git for Windows, MSYS2 and Cygwin: `activate`, for their PATH.

There `PATH` is a list as on Linux, of paths such as `/c/Users/me` (MSYS2, Git) or `/cygdrive/c/Users/me`
(Cygwin), and the runtime hands it to a program of Windows as Windows spells it. So the script is the one of
`posix`, in which only what stands in `PATH`, and the paths of its own files, are spelled like that; all other
values stay as Windows spells them. Which of the two it is, the script asks the shell; `cygpath`, which knows
it too, would be a process.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from rocenv.activate.shells import posix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.activate.shells import Parts

file_name = "activate"
platforms = ("windows",)
# Where the drives are. Source: MSYS2's and Cygwin's own documentation, "The Cygwin Mount Table"
ROOTS = {"cygwin": "/cygdrive", "msys": ""}
# Stands for it until the text is whole; no path or value of Windows holds it.
_ROOT = "\1root\1"
# bash and zsh know what they were made for; a dash knows only what MSYS2 tells every program.
_ASK = """\
case ${{OSTYPE-}}/${{MSYSTEM-}} in cygwin*/* | /) {name}={cygwin} ;; *) {name}={msys} ;; esac"""
# One for the script and one for what it calls, as each removes its own.
_SCRIPT, _FUNCTION = "_ROCENV_ROOT", "_rocenv_root"


def source(script: str) -> str:
    """Return what a person types to source the script; all of these shells take a path with a drive."""
    return posix.source(PureWindowsPath(script).as_posix())


def prefix_word(prefix: str) -> str:
    """Return the prefix itself."""
    return prefix


def quote(value: str) -> str:
    """Return `value` in single quotes."""
    return posix.quote(value)


def save(ident: str, names: Sequence[str]) -> str:
    """Remember the values of those that are set, and whether they are exported."""
    return posix.save(ident, names)


def set(name: str, value: str) -> str:
    """Set; a variable cannot be empty on Windows."""
    return posix.set(name, value) if value else posix.unset(name)


def prepend(name: str, value: str) -> str:
    """Put an entry first, once.

    A list other than `PATH` is one of Windows' own. No set has one so far, so it is not taken apart: an entry
    that it holds stays where it is, and after a change by the user the env's own stays too.
    """
    if name == "PATH":
        return posix.prepend(name, _path(value))
    entry = quote(value)
    return f'case ";${{{name}-}};" in *";"{entry}";"*) ;; *) {name}={entry}${{{name}:+";${name}"}} ;; esac'


def unset(name: str) -> str:
    """Make the variable absent."""
    return posix.unset(name)


def restore(ident: str, name: str, after: str | None, entries: Sequence[str]) -> str:
    """Put back what `save` remembered; after a change by the user take only `entries` out."""
    own = [_path(entry) for entry in entries] if name == "PATH" else entries
    return posix.restore(ident, name, after, own)


def assemble(parts: Parts) -> str:
    """Return the whole script."""
    script = posix.assemble(_spelled(parts))
    # Wherever the script ends, it removes what only it needs. (No value of Windows has the lines of an end.)
    for end in (posix._REFUSED, posix._CLOSING):
        script = script.replace(end, end.replace("-v _ROCENV_ALL", f"-v {_SCRIPT} _ROCENV_ALL"))
    return "\n".join([_ask(_SCRIPT), _finished(script, _SCRIPT)])


def companions(parts: Parts) -> dict[str, str]:
    """Return the functions that take the changes back."""
    forget = f'"$_ROCENV_DO" unset -v {_FUNCTION}'
    spelled = replace(_spelled(parts), restore=(_ask(_FUNCTION), *parts.restore, forget))
    return {name: _finished(text, _FUNCTION) for name, text in posix.companions(spelled).items()}


def encode(script: str) -> bytes:
    """Return the script's bytes."""
    return posix.encode(script)


def _ask(name: str) -> str:
    return _ASK.format(name=name, **{kind: quote(root) for kind, root in ROOTS.items()})


def _spelled(parts: Parts) -> Parts:
    return replace(parts, prefix=_path(parts.prefix), script=_path(parts.script), marker=_path(parts.marker))


def _path(path: str) -> str:
    """Return a path of Windows as these shells spell it."""
    drive, rest = path[:2], path[2:].replace("\\", "/")
    if drive == "\\\\":
        return f"//{rest}"
    return f"{_ROOT}/{drive[0].lower()}{rest}"


def _finished(code: str, name: str) -> str:
    """Return the code with the variable for the root, which is always within single quotes so far."""
    return code.replace(_ROOT, f"'\"${name}\"'")

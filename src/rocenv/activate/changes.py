"""Changes to the environment as data: what they make of an environment, without touching one.

`apply` says what the environment is afterwards. `rocenv run` uses it as it is; what a shell has after
sourcing a script must equal it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.model import EnvChange

SEPARATOR = ":"
_PREFIX = "{prefix}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Variables that shells keep for themselves: setting one as data would break the shell that sources it.
_SHELL_OWN = frozenset(
    {"IFS", "PS1", "PS2", "PS4", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID"}
)


def expand(changes: Sequence[EnvChange], prefix: str) -> tuple[EnvChange, ...]:
    """Return the changes with `{prefix}` in their values replaced; nothing else in a value is special."""
    return tuple(replace(change, value=change.value.replace(_PREFIX, prefix)) for change in changes)


def apply(changes: Sequence[EnvChange], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what `environ` is after the changes, made one after another.

    A prepended entry stands first and once: one that was there already is moved. No empty entry, which
    would mean the current folder, comes in.
    """
    after = dict(environ)
    for change in changes:
        if change.action == "set":
            after[change.name] = change.value
        elif change.action == "unset":
            after.pop(change.name, None)
        else:
            rest = _without(after.get(change.name, ""), change.value)
            after[change.name] = SEPARATOR.join([change.value, *rest])
    return after


def _without(value: str, entry: str) -> list[str]:
    return [other for other in value.split(SEPARATOR) if other != entry] if value else []


def names(changes: Sequence[EnvChange]) -> tuple[str, ...]:
    """Return the names that the changes touch, each once, in order."""
    return tuple(dict.fromkeys(change.name for change in changes))


def entries(changes: Sequence[EnvChange], name: str) -> tuple[str, ...]:
    """Return what is prepended to `name`, in order; empty if anything else is done to it as well.

    Such a list can be undone entry by entry, so that what the user added meanwhile stays.
    """
    own = [change for change in changes if change.name == name]
    return tuple(c.value for c in own) if all(c.action == "prepend" for c in own) else ()


def conflicts(
    changes: Sequence[EnvChange], watched: Sequence[str], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names that `environ` already holds and that an env changes or that would act on it.

    `watched` are variables that act on every set, whoever has set them.

    `PATH` is none: every machine has one. Neither is a changed variable that was empty or stays as it is.
    """
    after = apply(changes, environ)
    changed = (name for name in names(changes) if environ.get(name, "") not in ("", after.get(name)))
    left = (name for name in leftovers(changes, watched) if name in environ)
    return tuple(name for name in (*changed, *left) if name != "PATH")


def leftovers(changes: Sequence[EnvChange], watched: Sequence[str]) -> tuple[str, ...]:
    """Return the watched names that the changes do not touch."""
    return tuple(name for name in watched if name not in names(changes))


def require_valid(changes: Sequence[EnvChange]) -> None:
    """Raise DataError for a change that a shell cannot carry out, or that would be code instead of data."""
    for change in changes:
        if not _NAME.fullmatch(change.name) or change.name in _SHELL_OWN or change.name.startswith("_ROCENV"):
            raise DataError(f"`{change.name}` is no name for a variable of an env")
        if "\0" in change.value:
            raise DataError(f"the value of `{change.name}` holds a NUL character")
        if change.action == "prepend" and (not change.value or SEPARATOR in change.value):
            raise DataError(f"what is prepended to `{change.name}` must be one entry, not `{change.value}`")

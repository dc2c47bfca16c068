"""The script of an env that a shell sources: rendered from the changes, written into the prefix.

The script locates nothing when it runs: the prefix is written into it, and it refuses when the env is not
there any more.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from rocenv.activate.changes import (
    SEPARATOR,
    apply,
    entries,
    expand,
    leftovers,
    names,
    require_valid,
)
from rocenv.activate.shells import SHELLS, Parts
from rocenv.errors import PrefixError
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.activate.shells import Shell
    from rocenv.model import EnvChange

# Written last by `create`, so it tells a whole env from a part of one.
_MARKER = ".rocenv/record.json"
_PLAIN = frozenset(" ._+-@,=")


def activation_script(
    name: str, prefix: str, changes: Sequence[EnvChange], watched: Sequence[str] = (), shell: str = "sh"
) -> str:
    """Return the script that activates the env when `shell` sources it.

    Sourcing it has the effect of `changes.apply`, and defines `deactivate`, which takes it back: to the env
    that was active before, if there was one. Sourcing it while the env is active leaves the env, and those
    activated on top of it, and activates it anew.

    Args:
        name: The env's name, shown in the prompt.
        prefix: Absolute path of the env.
        changes: Their values may hold `{prefix}`.
        watched: Variables to report if the machine has set them, beside those that are changed.
        shell: A name of `SHELLS`.

    Raises:
        PrefixError: The prefix cannot stand in a list of paths.
        DataError: A change is none that a shell can carry out.
    """
    require_listable(prefix)
    expanded = expand(changes, prefix)
    require_valid(expanded)
    return SHELLS[shell].assemble(_parts(SHELLS[shell], name, prefix, expanded, watched))


def write_activation(
    prefix: Path, name: str, changes: Sequence[EnvChange], watched: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Write the scripts of every shell into the prefix, each whole or not at all; return their paths.

    They are not executable: they are to be sourced.
    """
    written: dict[str, Path] = {}
    for shell_name, shell in SHELLS.items():
        if shell.file_name in written:
            continue
        path = prefix / shell.file_name
        # Paths may be no valid UTF-8; their bytes go through as they are.
        write_atomic(path, os.fsencode(activation_script(name, str(prefix), changes, watched, shell_name)))
        path.chmod(0o644)
        written[shell.file_name] = path
    return tuple(written.values())


def require_listable(prefix: str) -> None:
    """Raise PrefixError for a path that cannot be an entry of `PATH` or that breaks lines."""
    if SEPARATOR in prefix or any(ord(character) < 32 or ord(character) == 127 for character in prefix):
        raise PrefixError(
            f"an env cannot lie at `{prefix!r}`: `{SEPARATOR}` separates the entries of PATH, "
            "and control characters break scripts",
            hints=("set ROCENV_HOME to another folder",),
            code="prefix-unusable",
        )


def _parts(
    shell: Shell, name: str, prefix: str, changes: Sequence[EnvChange], watched: Sequence[str]
) -> Parts:
    ident = hashlib.sha256(os.fsencode(prefix)).hexdigest()[:12]
    changed = names(changes)
    after = apply(changes, {})
    return Parts(
        ident=ident,
        label=label(name),
        prefix=prefix,
        script=f"{prefix}/{shell.file_name}",
        marker=f"{prefix}/{_MARKER}",
        exported=tuple(after),
        lists=tuple(each for each in changed if entries(changes, each)),
        leftovers=leftovers(changes, watched),
        save=shell.save(ident, changed),
        change=tuple(_printed(shell, change) for change in changes),
        restore=tuple(
            shell.restore(ident, each, after.get(each), entries(changes, each)) for each in changed
        ),
    )


def _printed(shell: Shell, change: EnvChange) -> str:
    if change.action == "set":
        return shell.set(change.name, change.value)
    if change.action == "prepend":
        return shell.prepend(change.name, change.value)
    return shell.unset(change.name)


def label(name: str) -> str:
    """Return the name with `?` for every character that some shell would expand in a prompt."""
    return "".join(c if c.isalnum() or c in _PLAIN else "?" for c in name)

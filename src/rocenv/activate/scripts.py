"""The script of an env that a shell sources: rendered from the changes, written into the prefix.

The script locates nothing when it runs: the prefix is written into it, and it refuses when the env is not
there any more. (One exception, for cmd: see `shells/batch.py`.)
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from rocenv.activate.changes import (
    SEPARATORS,
    against_cmd,
    apply,
    entries,
    expand,
    leftovers,
    names,
    require_valid,
)
from rocenv.activate.shells import SHELLS, Parts
from rocenv.core.errors import PrefixError
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.activate.shells import Shell
    from rocenv.core.model import EnvChange

# Written last by `create`, so it tells a whole env from a part of one.
_MARKER = (".rocenv", "record.json")
_PLAIN = frozenset(" ._+-@,=")


def activation_script(
    name: str,
    prefix: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str] = (),
    shell: str = "sh",
    platform: str = "linux",
) -> str:
    """Return the script that activates the env when `shell` sources it.

    Sourcing it has the effect of `changes.apply`, and provides `deactivate`, which takes it back: to the env
    that was active before, if there was one. Sourcing it while the env is active leaves the env, and those
    activated on top of it, and activates it anew.

    Args:
        name: The env's name, shown in the prompt.
        prefix: Absolute path of the env.
        changes: Their values may hold `{prefix}`.
        watched: Variables to report if the machine has set them, beside those that are changed.
        shell: A name of `SHELLS`.
        platform: One that the shell serves.

    Raises:
        PrefixError: The prefix cannot stand in a list of paths, or in a script.
        DataError: A change is none that a shell can carry out.
    """
    return SHELLS[shell].assemble(_checked_parts(SHELLS[shell], name, prefix, changes, watched, platform))


def write_activation(
    prefix: Path,
    name: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str] = (),
    platform: str = "linux",
) -> tuple[Path, ...]:
    """Write the scripts of the platform's shells into the prefix; return their paths.

    Each is there whole or not at all. They are not executable: they are to be sourced.
    """
    written: dict[str, Path] = {}
    for shell in SHELLS.values():
        if platform not in shell.platforms or shell.file_name in written:
            continue
        parts = _checked_parts(shell, name, str(prefix), changes, watched, platform)
        texts = {shell.file_name: shell.assemble(parts), **shell.companions(parts)}
        for file_name, text in texts.items():
            path = prefix.joinpath(*file_name.split("/"))
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, shell.encode(text))
            path.chmod(0o644)
            written[file_name] = path
    return tuple(written.values())


def require_listable(prefix: str, platform: str = "linux") -> None:
    """Raise PrefixError for a path that cannot be an entry of `PATH`, or that scripts cannot carry."""
    separator = SEPARATORS[platform]
    reason = ""
    if separator in prefix or any(ord(character) < 32 or ord(character) == 127 for character in prefix):
        reason = f"`{separator}` separates the entries of PATH, and control characters break scripts"
    elif platform == "windows" and (found := against_cmd(prefix)):
        reason = f"{found} in a path is more than batch files can carry"
    if reason:
        raise PrefixError(
            f"an env cannot lie at `{prefix!r}`: {reason}",
            hints=("choose another name for the env, or set ROCENV_HOME to another folder",),
            code="prefix-unusable",
        )


def _checked_parts(
    shell: Shell,
    name: str,
    prefix: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str],
    platform: str,
) -> Parts:
    require_listable(prefix, platform)
    require_valid(expand(changes, prefix), platform)
    # From here on the prefix in a value is the word that stands for it in this shell's code.
    changes = expand(changes, shell.prefix_word(prefix))
    slash = "\\" if platform == "windows" else "/"
    ident = hashlib.sha256(os.fsencode(prefix)).hexdigest()[:12]
    changed = names(changes, platform)
    after = apply(changes, {}, platform)
    return Parts(
        ident=ident,
        label=label(name),
        name=name,
        prefix=prefix,
        platform=platform,
        script=slash.join((prefix, shell.file_name)),
        marker=slash.join((prefix, *_MARKER)),
        exported=tuple(after),
        changed=changed,
        lists={each: own for each in changed if (own := entries(changes, each, platform))},
        leftovers=leftovers(changes, watched, platform),
        save=shell.save(ident, changed),
        change=tuple(_printed(shell, change) for change in changes),
        restore=tuple(
            shell.restore(ident, each, after.get(each), entries(changes, each, platform)) for each in changed
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

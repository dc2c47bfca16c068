"""Render and write the activation scripts for a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.changes import SEPARATORS, against_cmd, expand, leftovers, reduced, require_valid
from rocenv.activate.env import Env
from rocenv.activate.shells import SHELLS
from rocenv.core.errors import PrefixError
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.core.model import EnvChange


def activation_script(
    name: str,
    prefix: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str] = (),
    shell: str = "sh",
    platform: str = "linux",
    cache: str = "",
) -> str:
    """Render the script that activates the env when `shell` sources it.

    Sourcing it has the same effect as `changes.apply`, and deactivating the env restores the previous
    environment. If the env is already active, the script first deactivates it and any env activated on top
    of it.

    Args:
        name: The env's name, shown in the prompt.
        prefix: Absolute path of the env, which need not exist on this machine.
        changes: The changes; their values may contain `{prefix}`.
        watched: Other variables to report if they are set on the machine.
        shell: A name in `SHELLS`.
        platform: A platform that the shell supports.
        cache: A cache folder to use instead of the env's own; if empty, some scripts find a writable one.

    Raises:
        PrefixError: The prefix cannot be used in a list of paths or in a script.
        DataError: A shell cannot apply a change.
    """
    return SHELLS[shell].files(env_at(name, prefix, changes, watched, platform, cache))[
        SHELLS[shell].file_name
    ]


def activation_files(
    name: str, prefix: str, changes: Sequence[EnvChange], watched: Sequence[str], platform: str
) -> dict[str, bytes]:
    """Render the scripts for all shells of a platform, and the files that they need.

    Keys are paths relative to the prefix. Raises the same errors as `activation_script`.
    """
    env = env_at(name, prefix, changes, watched, platform)
    found: dict[str, bytes] = {}
    for shell in SHELLS.values():
        if platform in shell.platforms and shell.file_name not in found:
            found |= {path: shell.encode(text) for path, text in shell.files(env).items()}
    return found


def write_activation(
    prefix: Path,
    name: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str] = (),
    platform: str = "linux",
) -> tuple[Path, ...]:
    """Write the scripts for all shells of a platform, each atomically, and return their paths.

    The scripts are not executable, because they must be sourced.
    """
    written = []
    for file_name, content in activation_files(name, str(prefix), changes, watched, platform).items():
        path = prefix.joinpath(*file_name.split("/"))
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, content)
        path.chmod(0o644)
        written.append(path)
    return tuple(written)


def env_at(
    name: str,
    prefix: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str],
    platform: str,
    cache: str = "",
) -> Env:
    """Return the input for rendering an env; arguments and errors are those of `activation_script`."""
    require_listable(prefix, platform)
    expanded = expand(changes, prefix, cache)
    require_valid(expanded, platform)
    others = leftovers(expanded, watched, platform)
    return Env(
        name=name, prefix=prefix, platform=platform, changes=reduced(expanded, platform), watched=others
    )


def require_listable(prefix: str, platform: str = "linux") -> None:
    """Raise PrefixError for a path that cannot be a `PATH` entry or part of a script."""
    separator = SEPARATORS[platform]
    if separator in prefix:
        raise unusable(prefix, f"`{separator}` separates the entries of PATH")
    if any(ord(character) < 32 or ord(character) == 127 for character in prefix):
        raise unusable(prefix, "control characters break scripts")
    if platform == "windows" and (found := against_cmd(prefix)):
        raise unusable(prefix, f"batch files cannot contain {found} in a path")


def unusable(prefix: str, reason: str) -> PrefixError:
    """Return the error for a path at which an env would not work."""
    return PrefixError(
        f"an env at `{repr(prefix)[1:-1]}` would not work: {reason}",
        hints=(
            "set ROCENV_HOME to a different folder",
            "or choose a different name for the env, if the name is the problem",
        ),
        code="prefix-unusable",
    )

"""Write the scripts that activate an env into its prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.scripts import activation_files
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.core.model import EnvChange


def write_activation(
    prefix: Path,
    name: str,
    changes: Sequence[EnvChange],
    watched: Sequence[str] = (),
    platform: str = "linux",
) -> tuple[Path, ...]:
    """Write the scripts of the platform's shells, each complete or not at all; return their paths.

    They are not executable, since they are to be sourced.
    """
    written = []
    for file_name, content in activation_files(name, str(prefix), changes, watched, platform).items():
        path = prefix.joinpath(*file_name.split("/"))
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, content)
        path.chmod(0o644)
        written.append(path)
    return tuple(written)

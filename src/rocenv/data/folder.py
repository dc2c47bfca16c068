"""Where the data files lie, and which they are."""

from __future__ import annotations

import os
from pathlib import Path

from rocenv.core.errors import DataError


def profiles_folder() -> Path:
    """Return the folder of the data: beside the installed package, or in the checkout it is run from.

    `ROCENV_PROFILES` names a folder to read instead: for tests, and for who keeps a matrix of their own.
    """
    chosen = os.environ.get("ROCENV_PROFILES")
    if chosen:
        return Path(chosen)
    installed = Path(__file__).parents[1] / "profiles"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "profiles"


def data_files(folder: Path) -> list[Path]:
    """Return the data files below a folder, which need not exist, in a fixed order.

    Links to folders are not followed, so that none leads round in a circle.

    Raises:
        DataError: It, or a folder in it, cannot be listed.
    """
    found = []
    for here, _, names in os.walk(folder, onerror=_refuse):
        found += [os.path.join(here, name) for name in names if name.endswith(".toml")]
    return [Path(path) for path in sorted(found)]


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise DataError(
            f"cannot list the data files in `{error.filename}`: {error.strerror}",
            hints=("make it a folder that can be read, or move it away",),
        ) from error

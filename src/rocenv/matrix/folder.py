"""Where the data files lie."""

from __future__ import annotations

import os
from pathlib import Path


def profiles_folder() -> Path:
    """Return the folder of the data: beside the installed package, or in the checkout it is run from.

    `ROCENV_PROFILES` names a folder to read instead: for tests, and for who keeps a matrix of their own.
    """
    chosen = os.environ.get("ROCENV_PROFILES")
    if chosen:
        return Path(chosen)
    installed = Path(__file__).parents[1] / "profiles"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "profiles"

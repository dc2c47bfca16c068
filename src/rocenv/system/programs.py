"""Find programs that rocenv needs, without searching the current folder.

Programs that the user runs are found the way the user's shell finds them.
"""

from __future__ import annotations

import os
import shutil

from rocenv.system import WINDOWS

# Only administrators can write to these; NixOS uses the last one.
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


def system_program(name: str) -> str | None:
    """Find a program that must be trusted; searches only system folders, not PATH."""
    return _first_in(SYSTEM_FOLDERS, name)


def program_on_path(name: str) -> str | None:
    """Find a helper program that need not be trusted, in the absolute folders on PATH.

    Empty and relative entries are skipped, because they could run a program planted in the current folder.
    """
    return _first_in(os.environ.get("PATH", os.defpath).split(os.pathsep), name)


def _first_in(folders: tuple[str, ...] | list[str], name: str) -> str | None:
    suffixes = ("", ".exe") if WINDOWS else ("",)
    paths = (
        os.path.join(folder, name + end) for folder in folders if os.path.isabs(folder) for end in suffixes
    )
    # Pass the folder too, because `which` on Windows first searches the current folder for a bare name.
    return next(filter(None, map(shutil.which, paths)), None)

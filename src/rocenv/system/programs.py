"""Find programs that rocenv itself needs, never through the folder that a command happens to run in.

What the user starts is found as the user's shell finds it, and not here.
"""

from __future__ import annotations

import os
import shutil

from rocenv.system import WINDOWS

# Who can write here is the machine's administrator; the last one is NixOS's.
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


def system_program(name: str) -> str | None:
    """Find a program that decides what is trusted: in the system's own folders, whatever PATH says."""
    return _first_in(SYSTEM_FOLDERS, name)


def program_on_path(name: str) -> str | None:
    """Find any other helper in the absolute folders of PATH.

    Empty and relative entries would lead to a program of whoever filled the current folder.
    """
    return _first_in(os.environ.get("PATH", os.defpath).split(os.pathsep), name)


def _first_in(folders: tuple[str, ...] | list[str], name: str) -> str | None:
    suffixes = ("", ".exe") if WINDOWS else ("",)
    paths = (
        os.path.join(folder, name + end) for folder in folders if os.path.isabs(folder) for end in suffixes
    )
    # With its folder: of a bare name, `which` on Windows looks into the current folder first.
    return next(filter(None, map(shutil.which, paths)), None)

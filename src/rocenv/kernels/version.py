"""The version of an app: what its program says, else the name of a folder; never a guess."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from rocenv.activate.loader import find_program, loader_argv
from rocenv.errors import DataError, RocenvError
from rocenv.install.prefix import library_folders
from rocenv.system.processes import group_options, kill_group

if TYPE_CHECKING:
    from rocenv.kernels.installation import Installation

_ANSWERS_IN_S = 30.0


def version_of(installation: Installation) -> str:
    """Return the version of an app; raise RocenvError where nothing tells it."""
    said = _said(installation)
    found = re.search(installation.row.version_pattern, said, re.M) if said else None
    if found:
        return str(found["version"])
    if installation.row.version_folder:
        for folder in (installation.resources, *installation.folder.parents):
            if named := re.search(installation.row.version_folder, folder.name):
                return str(named["version"])
    raise RocenvError(
        f"the version of `{installation.program or installation.root}` is not known: "
        + (f"it said `{_last_line(said)}`" if said.strip() else "it could not be asked"),
        hints=("name it: `--app-version VERSION`",),
        code="kernels-no-version",
    )


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1][:200]


def _said(installation: Installation) -> str:
    """Return what the program prints when it is asked for its version; "" where it cannot be started."""
    if installation.program is None:
        return ""
    try:
        argv = [*start_words(installation), *installation.row.version_arguments]
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **group_options(),
        )
    except (OSError, RocenvError):
        return ""
    try:
        answer: bytes = child.communicate(timeout=_ANSWERS_IN_S)[0]
        return answer.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return ""
    finally:
        kill_group(child)


def start_words(installation: Installation) -> list[str]:
    """Return what starts the program: by the env's own loader, where it lies in an env that has one.

    Raises:
        RocenvError: There is no program, or it cannot be started.
    """
    prefix, program = installation.prefix, installation.program
    if program is None:
        raise RocenvError(f"there is no program in `{installation.root}`", code="kernels-no-app")
    if prefix is not None:
        try:
            record = prefix.record()
        except (RocenvError, DataError):
            return [str(program)]
        if record.loader:
            folders = library_folders(prefix, record.lock)
            loader = prefix.path / record.loader
            return loader_argv([str(program)], os.environ, loader=loader, library_dirs=folders)
    return [find_program(str(program), os.environ)]

"""The version of an app: what its program says, else the name of its version folder; never a guess."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.activate.loader import find_program, loader_argv
from rocenv.core.errors import DataError, RocenvError
from rocenv.prefix import library_folders
from rocenv.system import process

if TYPE_CHECKING:
    from rocenv.kernels.installation import Installation

_ANSWERS_IN_S = 30.0


def version_of(installation: Installation) -> str:
    """Return the version of an app; raise RocenvError where nothing tells it."""
    answer = _asked(installation)
    found = re.search(installation.row.version_pattern, answer.text, re.M) if answer.ok else None
    if found:
        return str(found["version"])
    if folder := installation.version_of_folder:
        return folder
    raise RocenvError(
        f"the version of `{installation.program or installation.root}` is not known: {_why(answer)}",
        hints=("name it: `--app-version VERSION`",),
        code="kernels-no-version",
    )


def _why(answer: process.Completed) -> str:
    said = f", and said `{answer.lines[-1].strip()[:200]}`" if answer.lines else ""
    return ("it was asked" if answer.ok else answer.end) + said


def _asked(installation: Installation) -> process.Completed:
    """Return what the program prints when it is asked for its version."""
    try:
        argv = [*start_words(installation), *installation.row.version_arguments]
    except RocenvError as error:
        return process.Completed(problem=error.message)
    return process.run(argv, stderr=process.MERGE, timeout_s=_ANSWERS_IN_S, plain_scripts=True)


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

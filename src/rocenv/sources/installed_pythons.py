"""The Pythons of this machine, found without uv: by Windows' launcher `py`, and on PATH."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.sources.interpreter import (
    FROM_STORE,
    HINTS,
    allows,
    examine,
    from_python_org,
    is_from_store,
    is_version,
    unfit,
)
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = re.compile(r"python(3(\.\d+)?)?\.exe" if WINDOWS else r"python(3(\.\d+)?)?")


def pick(spec: str, environ: Mapping[str, str]) -> Path:
    """Return the first Python that `spec` (a version, a specifier, a path or a name) allows.

    Raises:
        RocenvError: There is none; says what to install.
    """
    if not is_version(spec):
        found = which(spec, path=environ.get("PATH"))
        if found is None:
            raise RocenvError(f"no Python `{spec}`: no such program", hints=HINTS, code="python-missing")
        return Path(found)
    from_store, there = False, platform.python_version_tuple()[:2]
    for path in _all(environ):
        if is_from_store(path):
            from_store = True  # or what opens the Store; neither is started
            continue
        try:
            found_there = examine(path)
        except RocenvError:
            continue  # pyenv and its like put programs on PATH that only say which Python is missing
        if allows(spec, found_there.version):
            if not unfit(found_there):
                return path
            from_store = from_store or (found_there.base is not None and is_from_store(found_there.base))
    raise RocenvError(
        f"no Python `{spec}`: {FROM_STORE if from_store else 'none on this machine'}, "
        "and without uv none can be fetched",
        hints=(
            from_python_org(spec) if WINDOWS else f"install Python {spec} with the packages of the system",
            "or make uv run, which fetches one: `uv --version`",
            f"or ask for one that is there: `--python {'.'.join(there)}`",
        ),
        code="python-missing",
    )


def _all(environ: Mapping[str, str]) -> Iterator[Path]:
    if WINDOWS and (launcher := which("py", path=environ.get("PATH"))):
        yield from _known_to(launcher)
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            names = sorted(
                (name for name in os.listdir(folder) if _NAMES.fullmatch(name.lower())), reverse=True
            )
        except OSError:
            continue
        yield from (Path(folder, name) for name in names)


def _known_to(launcher: str) -> Iterator[Path]:
    """Yield what `py` lists: the newest first, as a rule."""
    try:
        answer = subprocess.run(
            [launcher, "--list-paths"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return
    #  -V:3.11 *        C:\Users\me\AppData\Local\Programs\Python\Python311\python.exe
    for line in answer.stdout.splitlines():
        if found := re.search(r"[A-Za-z]:\\.*\.exe(?=\s*$)", line):
            yield Path(found[0])

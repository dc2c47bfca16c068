"""Which release of an app a program is, asked of that very program.

The answer of the app's own executable is kept until that file changes. Whatever only starts it, such as a
script, says nothing of what is behind it, and is asked each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.activate.loader import find_program
from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import load_json
from rocenv.launch.ask import ask, is_executable, program_words
from rocenv.launch.recognition import is_program
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from rocenv.data.apps import AppProgram
    from rocenv.launch.start import Start

_FILE = "app-versions.json"
_KEPT = 32  # programs
_TIMEOUT_S = 60.0
_LONGEST = 4000  # characters of a line


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVersion:
    """The release that a program says it is."""

    program: Path | None  # the file that was asked; None = it is nowhere
    version: str = ""  # "" = not known
    problem: str = ""  # why it is not; "" = it is


def version_of(start: Start, row: AppProgram, program: Path | None) -> AppVersion:
    """Return which release an app's program is.

    Args:
        start: The app as it is about to be started.
        row: How it is asked.
        program: The file that is started; None = it is nowhere.
    """
    if program is None:
        return AppVersion(program=None, problem="there is no such program")
    try:
        key = _key(start, program_behind(start) or program)
    except OSError as error:
        return AppVersion(program=program, problem=f"it cannot be read: {error.strerror}")
    if not key:
        return _asked(start, row, program)
    kept = _kept(start)
    if isinstance(known := kept.get(key), str) and known:
        return AppVersion(program=program, version=known)
    found = _asked(start, row, program)
    if found.version:
        _keep(start, {**dict(list(kept.items())[1 - _KEPT :]), key: found.version})
    return found


def _key(start: Start, program: Path) -> str:
    """Return what an answer is kept under; "" for what only starts the app, and is not changed along with it.

    Raises:
        OSError: It cannot be read.
    """
    state = program.stat()
    # `/snap/bin/blender` leads to `snap`, which starts whatever it was called by.
    if not is_executable(program) or not is_program(start.launcher, program.name):
        return ""
    return json.dumps([str(program), state.st_size, state.st_mtime_ns])


def program_path(start: Start) -> Path | None:
    """Return the file that a start is about, links followed; None where there is none."""
    words = program_words(start) or start.words[:1]
    try:
        return Path(os.path.realpath(find_program(words[-1], start.environ)))
    except RocenvError:
        return None


def program_behind(start: Start) -> Path | None:
    """Return the same, but of a starter of the env the program that it starts."""
    path = program_path(start)
    if path is None or path.parent != Path(os.path.realpath(start.prefix.bin)):
        return path
    for part in start.record.lock.components:
        for program in part.layout.programs if part.layout else ():
            behind = start.prefix.path / program.path
            if path.name in (program.names or (behind.name,)) and behind.is_file():
                return behind
    return path


def _asked(start: Start, row: AppProgram, program: Path) -> AppVersion:
    if not program_words(start):
        return AppVersion(program=program, problem="it is a script, which is not asked")
    try:
        answer = ask(start, row.arguments, _TIMEOUT_S)
    except RocenvError as error:
        return AppVersion(program=program, problem=error.message)
    pattern = re.compile(row.pattern)
    for line in answer.lines:
        if found := pattern.search(line[:_LONGEST]):
            return AppVersion(program=program, version=found["version"])
    asked = " ".join(row.arguments)
    why = "it names no version" if answer.ok else answer.end
    return AppVersion(program=program, problem=f"asked with `{asked}`, {why}")


def _kept(start: Start) -> dict[str, Any]:
    try:
        plain = load_json(start.prefix.path / "cache" / _FILE)
    except (OSError, DataError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _keep(start: Start, known: dict[str, Any]) -> None:
    folder = start.prefix.path / "cache"
    with contextlib.suppress(OSError):  # it is asked again
        folder.mkdir(exist_ok=True)
        write_atomic(folder / _FILE, json.dumps(known).encode())

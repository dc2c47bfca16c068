"""What kernels were put where: a file each below `ROCENV_HOME`, for `launch`, and to undo it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.codec import from_plain, to_plain
from rocenv.errors import DataError, RocenvError
from rocenv.kernels.source import content_hash
from rocenv.model import EnvChange
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.home import Home

_FORM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A kernel that was put where an app finds it."""

    app: str
    kind: str
    version: str
    target: str
    place: str  # "cache", "overlay", "in-place"
    file: str
    sha256: str
    source: str  # folder of the source
    source_hash: str  # of what it was made from
    program: str = ""  # the app's
    start: str = ""  # what is started instead; "" = the program
    resources: str = ""  # what its variable has to name; "" = nothing
    variable: str = ""
    on_path: str = ""  # folder with programs that it looks for
    cache_home: str = ""  # what XDG_CACHE_HOME has to be; "" = the app's own place
    env: str = ""  # the cache is this env's
    original: str = ""  # copy of the file that was there; "" = there was none
    original_sha256: str = ""
    made_folder: bool = False  # the file's folder was not there

    @property
    def key(self) -> str:
        """What it is kept under: one thing is placed once."""
        return hashlib.sha256(f"{self.place}\0{self.file}".encode("utf-8", "surrogateescape")).hexdigest()[
            :16
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """What an app has to be started with, so that it finds the kernels that were made for it."""

    program: Path | None = None  # in place of its own; None = its own
    changes: tuple[EnvChange, ...] = ()
    kernels: tuple[Placed, ...] = ()
    outdated: tuple[Placed, ...] = ()  # made from another source than the app has by now: not used


def folder_of(home: Home, app: str) -> Path:
    """Return where all of an app's things lie."""
    return home.path / "kernels" / app


def write(home: Home, placed: Placed) -> None:
    """Keep what was placed."""
    folder = folder_of(home, placed.app) / "placed"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"form": _FORM, **to_plain(placed)}, indent=1)
    write_atomic(folder / f"{placed.key}.json", text.encode("utf-8", "surrogateescape"))


def forget(home: Home, placed: Placed) -> None:
    """Forget what was placed, which is not there any more."""
    with contextlib.suppress(FileNotFoundError):
        (folder_of(home, placed.app) / "placed" / f"{placed.key}.json").unlink()


def all_placed(home: Home, app: str) -> tuple[Placed, ...]:
    """Return what was placed for an app; a damaged note of it is left out."""
    try:
        paths = sorted((folder_of(home, app) / "placed").glob("*.json"))
    except OSError:
        return ()
    return tuple(found for path in paths if (found := _read(path)) is not None)


def _read(path: Path) -> Placed | None:
    try:
        plain = json.loads(path.read_bytes())
        if not isinstance(plain, dict) or plain.pop("form", None) != _FORM:
            return None
        return from_plain(Placed, plain, str(path))
    except (OSError, ValueError, RecursionError, DataError):
        return None


def of_program(home: Home, app: str, program: Path) -> tuple[Placed, ...]:
    """Return what was placed for an app that a path leads to: its program, what starts it, or a folder."""
    wanted = {os.path.abspath(program), os.path.realpath(program)}

    def is_same(placed: Placed) -> bool:
        own = {placed.program, placed.start, os.path.realpath(placed.program)} if placed.program else set()
        folders = (placed.source, os.path.realpath(placed.source))
        return bool(wanted & own) or any(
            folder == each or folder.startswith(each + os.sep) for each in wanted for folder in folders
        )

    return tuple(each for each in all_placed(home, app) if is_same(each))


def starting(home: Home, app: str, program: Path, targets: Sequence[str] = ()) -> Starting:
    """Return what an app has to be started with, so that it finds the kernels that were made for it.

    Args:
        home: Where that is known.
        app: Key of its profile.
        program: What would be started.
        targets: Of the GPUs that count; () = all.
    """
    found = [
        each
        for each in of_program(home, app, program)
        if (not targets or each.target in targets) and os.path.exists(each.file)
    ]
    outdated = [each for each in found if not _fits(each)]
    found = [each for each in found if each not in outdated]
    changes: list[EnvChange] = []
    for each in _last_of_each_place(found):
        if each.on_path:
            changes.append(EnvChange(action="prepend", name="PATH", value=each.on_path))
        if each.resources:
            changes.append(EnvChange(action="set", name=each.variable, value=each.resources))
        if each.cache_home:
            changes.append(EnvChange(action="set", name="XDG_CACHE_HOME", value=each.cache_home))
    start = next((Path(each.start) for each in found if each.start and os.path.exists(each.start)), None)
    return Starting(program=start, changes=tuple(changes), kernels=tuple(found), outdated=tuple(outdated))


def _fits(placed: Placed) -> bool:
    """Tell whether a kernel was made from the source that the app has now: it was upgraded, else."""
    try:
        return content_hash(Path(placed.source)) == placed.source_hash
    except RocenvError:
        return False


def _last_of_each_place(found: Iterable[Placed]) -> Iterable[Placed]:
    return {each.place: each for each in found}.values()

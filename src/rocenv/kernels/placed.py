"""What kernels were put where: a file each below `ROCENV_HOME`, for `launch`, and to undo it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import load_json
from rocenv.core.model import EnvChange, Value
from rocenv.kernels.source import content_hash
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.home import Home

PlaceName = Literal["cache", "overlay", "in-place"]
_FORM = 1


class Placed(Value, frozen=True, kw_only=True):
    """A kernel that was put where an app finds it."""

    app: str
    kind: str
    version: str
    target: str
    place: PlaceName
    file: str
    sha256: str
    source: str  # folder of the source
    source_hash: str  # of what it was made from
    program: str = ""  # the app's
    include: str = ""  # folder of further headers that it was made with
    start: str = ""  # what is started instead; "" = the program
    resources: str = ""  # what its variable has to name; "" = nothing
    variable: str = ""
    on_path: str = ""  # folder with programs that it looks for
    cache_home: str = ""  # what XDG_CACHE_HOME has to be; "" = the app's own place
    env: str = ""  # it was made with this one's compiler; a cache is this one's
    original: str = ""  # copy of the file that was there; "" = there was none
    original_sha256: str = ""
    original_link: str = ""  # where that led to, as it was a link
    made_folder: bool = False  # the file's folder was not there

    @property
    def key(self) -> str:
        """What it is kept under: one thing is placed once."""
        return hashlib.sha256(f"{self.place}\0{self.file}".encode("utf-8", "surrogateescape")).hexdigest()[
            :16
        ]

    def build_words(self) -> tuple[str, ...]:
        """Return the command that makes it again."""
        headers = (f"--{self.kind}-include", self.include) if self.include else ()
        return (*self._words(), *headers)

    def undo_words(self) -> tuple[str, ...]:
        """Return the command that takes it away, and nothing else."""
        return (*self._words(), "--undo")

    def _words(self) -> tuple[str, ...]:
        app = os.path.abspath(self.program or self.source)
        words = ("rocenv", "kernels", "build", self.app, f"--{self.app}", app, "--target", self.target)
        # The other places belong to no env, which may be gone by now.
        env = ("--env", self.env) if self.env and self.place == "cache" else ()
        return (*words, f"--{self.kind}", "--place", self.place, *env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """What an app has to be started with, so that it finds the kernels that were made for it."""

    program: Path | None = None  # in place of its own; None = its own
    changes: tuple[EnvChange, ...] = ()
    kernels: tuple[Placed, ...] = ()
    outdated: tuple[Placed, ...] = ()  # made from another source than the app has by now
    gone: tuple[Placed, ...] = ()  # not there any more, or overwritten


def folder_of(home: Home, app: str) -> Path:
    """Return where all of an app's things lie."""
    return home.path / "kernels" / app


def overlay_of(home: Home, placed: Placed) -> Path | None:
    """Return the copy of an installation that a kernel lies in; None for other places, or what is no copy."""
    overlays = folder_of(home, placed.app) / "overlays"
    folder = Path(os.path.realpath(os.path.dirname(placed.file)))
    real = Path(os.path.realpath(overlays))
    if placed.place != "overlay" or not folder.is_relative_to(real) or folder == real:
        return None
    return overlays / folder.relative_to(real).parts[0]


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
    return tuple(found for path in note_files(home, app) if (found := read(path, app)) is not None)


def note_files(home: Home, app: str) -> tuple[Path, ...]:
    """Return the notes of what was placed for an app, damaged or not."""
    try:
        return tuple(sorted((folder_of(home, app) / "placed").glob("*.json")))
    except OSError:
        return ()


def read(path: Path, app: str) -> Placed | None:
    """Return what a note says; None where it is damaged, or not one that rocenv wrote for that app."""
    try:
        plain = load_json(path)
        if not isinstance(plain, dict) or plain.pop("form", None) != _FORM:
            return None
        placed = from_plain(Placed, plain, str(path))
    except (OSError, DataError):
        return None
    is_text = not any("\0" in value for value in plain.values() if isinstance(value, str))
    is_whole = is_text and os.path.isabs(placed.file) and os.path.isabs(placed.source)
    return placed if is_whole and placed.app == app and placed.key == path.stem else None


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


def starting(
    home: Home,
    app: str,
    program: Path,
    *,
    env: str = "",
    own_cache: str = "",
    targets: Sequence[str] = (),
) -> Starting:
    """Return what an app has to be started with, so that it finds the kernels that were made for it.

    Args:
        home: Where that is known.
        app: Key of its profile.
        program: What would be started.
        env: In which it is started; "" = none.
        own_cache: The user's folder of caches.
        targets: Of the GPUs that count; () = all.
    """
    found = [each for each in of_program(home, app, program) if not targets or each.target in targets]
    caches = ({"env": env} if env else None, {"env": "", "cache_home": own_cache})
    of_caches = [
        [each for each in found if each.place == "cache" and _has(each, wanted)]
        for wanted in caches
        if wanted
    ]
    # There is one XDG_CACHE_HOME: the env's own cache, unless only the user's has something.
    best = next((each for each in of_caches if any(_state(one) == "ready" for one in each)), None)
    counted = [each for each in found if each.place != "cache"]
    counted += best if best is not None else [each for some in of_caches for each in some]
    states = {each: _state(each) for each in counted}
    ready = [each for each, state in states.items() if state == "ready"]
    served = {(each.kind, each.target) for each in ready}
    missed = {
        each: state
        for each, state in states.items()
        if state != "ready" and (each.kind, each.target) not in served
    }
    return Starting(
        program=next((Path(each.start) for each in ready if each.start and os.path.exists(each.start)), None),
        changes=tuple(_changes(ready)),
        kernels=tuple(ready),
        outdated=tuple(each for each, state in missed.items() if state == "outdated"),
        gone=tuple(each for each, state in missed.items() if state == "gone"),
    )


def _has(placed: Placed, wanted: Mapping[str, str]) -> bool:
    return all(getattr(placed, name) == value for name, value in wanted.items())


def _changes(ready: Sequence[Placed]) -> Iterator[EnvChange]:
    for each in {one.place: one for one in ready}.values():
        if each.on_path:
            yield EnvChange(action="prepend", name="PATH", value=each.on_path)
        if each.resources:
            yield EnvChange(action="set", name=each.variable, value=each.resources)
        if each.cache_home:
            yield EnvChange(action="set", name="XDG_CACHE_HOME", value=each.cache_home)


def _state(placed: Placed) -> Literal["ready", "gone", "outdated"]:
    try:
        if hashlib.sha256(Path(placed.file).read_bytes()).hexdigest() != placed.sha256:
            return "gone"
    except OSError:
        return "gone"
    return "ready" if is_of_its_source(placed) else "outdated"


def is_of_its_source(placed: Placed) -> bool:
    """Tell whether a kernel was made from the source that the app has now: it was upgraded, else."""
    try:
        return content_hash(Path(placed.source)) == placed.source_hash
    except (RocenvError, OSError):
        return False

"""Records of placed kernels: `launch` uses them, and `--undo` removes the kernels."""

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
from rocenv.core.foreign import parse_json, read_file
from rocenv.core.model import Value
from rocenv.kernels import APP
from rocenv.system.files import sha256_of
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.home import Home

PlaceName = Literal["overlay", "in-place"]
_FORM = 1
_MAX_FILES = 20_000  # in a source folder; Cycles has about 300


class Placed(Value, frozen=True, kw_only=True):
    """A placed kernel's record."""

    app: str = APP
    kind: str
    version: str
    target: str
    place: PlaceName
    file: str
    sha256: str
    source: str  # source folder
    source_hash: str
    program: str  # Blender's own program
    include: str = ""  # folder with the additional headers
    env: str = ""  # the chosen or active env
    start: str = ""  # the overlay's script, to run instead of the program
    resources: str = ""  # the overlay's folder, to use instead of Blender's resources
    original: str = ""  # backup of the replaced file; "" if there was none
    original_sha256: str = ""

    @property
    def key(self) -> str:
        """The name of the kernel's record; there is one record per file."""
        place = f"{self.place}\0{self.file}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(place).hexdigest()[:16]

    @property
    def overlay_folder(self) -> Path | None:
        """The folder with the overlay and its script, or None for a kernel in the installation."""
        return Path(self.start).parents[1] if self.start else None

    def build_words(self) -> tuple[str, ...]:
        """Return the command that rebuilds the kernel."""
        headers = (f"--{self.kind}-include", self.include) if self.include else ()
        return (*self._words(), *headers)

    def undo_words(self) -> tuple[str, ...]:
        """Return the command that removes this kernel and nothing else."""
        return (*self._words(), "--undo")

    def _words(self) -> tuple[str, ...]:
        program = os.path.abspath(self.program)
        words = ("rocenv", "kernels", "build", "blender", "--blender", program, "--target", self.target)
        return (*words, f"--{self.kind}", "--place", self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """The program to start so that Blender loads the kernels built for it."""

    program: Path | None = None  # None for Blender's own
    kernels: tuple[Placed, ...] = ()
    outdated: tuple[Placed, ...] = ()  # built from a source other than Blender's current one
    gone: tuple[Placed, ...] = ()  # removed or overwritten


def own_folder(home: Home) -> Path:
    """The folder for records, backups and overlays."""
    return home.path / "kernels" / APP


def write(home: Home, placed: Placed) -> None:
    """Write a kernel's sealed record, so that `--undo` never uses a record from a different home."""
    folder = own_folder(home) / "placed"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"form": _FORM, **to_plain(placed)}, indent=1)
    write_sealed(folder / f"{placed.key}.json", text.encode("utf-8", "surrogateescape"), home.key)


def forget(home: Home, placed: Placed) -> None:
    """Remove a kernel's record."""
    with contextlib.suppress(FileNotFoundError):
        (own_folder(home) / "placed" / f"{placed.key}.json").unlink()


def all_placed(home: Home) -> tuple[Placed, ...]:
    """Read all records, except those that are damaged or from a different home."""
    return tuple(placed for path in records(home) if (placed := read(home, path)) is not None)


def records(home: Home) -> tuple[Path, ...]:
    """List the record files, including damaged ones."""
    return tuple(sorted((own_folder(home) / "placed").glob("*.json")))


def read(home: Home, path: Path) -> Placed | None:
    """Read a record; return None if it is damaged or from a different home."""
    try:
        plain = parse_json(read_sealed(path, home.key), str(path))
        if not isinstance(plain, dict) or plain.pop("form", None) != _FORM:
            return None
        return from_plain(Placed, plain, str(path))
    except (OSError, DataError):
        return None


def of_program(home: Home, program: Path) -> tuple[Placed, ...]:
    """Select an installation's kernels, given its program, a start script or a folder with its source."""
    wanted = {os.path.abspath(program), os.path.realpath(program)}

    def is_same(placed: Placed) -> bool:
        programs = {placed.program, placed.start, os.path.realpath(placed.program)}
        sources = (placed.source, os.path.realpath(placed.source))
        return bool(wanted & programs) or any(
            source.startswith(each + os.sep) for each in wanted for source in sources
        )

    return tuple(each for each in all_placed(home) if is_same(each))


def starting(home: Home, program: Path, *, targets: Sequence[str] = ()) -> Starting:
    """Choose the program to start so that Blender loads the kernels built for it.

    Args:
        home: The home with the records.
        program: Blender's own program.
        targets: The targets of the GPUs in use; () for any.
    """
    found = [each for each in of_program(home, program) if not targets or each.target in targets]
    states = {each: _state(each) for each in found}
    ready = [each for each, state in states.items() if state == "ready"]
    served = {(each.kind, each.target) for each in ready}
    missing = [each for each in states if (each.kind, each.target) not in served]
    return Starting(
        program=next((Path(each.start) for each in ready if os.path.exists(each.start)), None),
        kernels=tuple(ready),
        outdated=tuple(each for each in missing if states[each] == "outdated"),
        gone=tuple(each for each in missing if states[each] == "gone"),
    )


def _state(placed: Placed) -> Literal["ready", "gone", "outdated"]:
    try:
        if sha256_of(Path(placed.file)) != placed.sha256:
            return "gone"
    except OSError:
        return "gone"
    return "ready" if is_current(placed) else "outdated"


def is_current(placed: Placed) -> bool:
    """Whether the kernel was built from Blender's current source, which changes with upgrades."""
    try:
        return content_hash(Path(placed.source)) == placed.source_hash
    except (RocenvError, OSError):
        return False


def content_hash(source: Path) -> str:
    """Hash the names and contents of the files in a source folder, but not the folder's path."""
    digest = hashlib.sha256()
    for path in sorted(_files(source), key=lambda path: [*map(os.fsencode, path.parts)]):
        try:
            content = read_file(path)
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        name = path.relative_to(source).as_posix()
        digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _files(source: Path) -> list[Path]:
    found: list[Path] = []
    count = 0
    for folder, _, names in os.walk(source, followlinks=True):
        count += 1 + len(names)
        if count > _MAX_FILES:
            raise _unusable(
                source, f"it contains more than {_MAX_FILES:,} files, or links to its own folders"
            )
        found += [Path(folder, name) for name in names]
    return found


def _unusable(path: Path, why: str) -> RocenvError:
    return RocenvError(
        f"cannot read the kernel source `{path}`: {why}",
        hints=("download the source again",),
        code="kernels-bad-source",
    )

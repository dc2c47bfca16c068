"""Find Blender, its kernel sources, and its version.

Source: https://tracker.debian.org/pkg/blender (5.2.2 in sid loaded kernels from an overlay of its resources,
and its `--help` lists BLENDER_SYSTEM_RESOURCES)
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from rocenv.activate.loader import argv_in, find_program
from rocenv.active_env import env_around
from rocenv.apps.query import printed_version
from rocenv.core.errors import DataError, RocenvError
from rocenv.kernels import APP
from rocenv.kernels.placed import all_placed
from rocenv.prefix import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.data.apps import Launcher
    from rocenv.home import Home

PROGRAMS = ("blender", "bin/blender", "blender.exe")
RESOURCES = "BLENDER_SYSTEM_RESOURCES"  # selects a different resource folder
_SOURCE, _PRECOMPILED = "source", "lib"
_FOLDERS = tuple(  # folders that can contain `source` and `lib`
    f"{place}/scripts/{addons}/cycles".removeprefix("./")
    for place in ("[0-9]*.[0-9]*", "share/blender", "share/blender/[0-9]*.[0-9]*", ".")
    for addons in ("addons_core", "addons")
)
_RESOURCES_UP = 3  # number of levels from a folder in `_FOLDERS` up to the resource folder
_FOLDER_VERSION = re.compile(r"[0-9]+\.[0-9]+")
_LEVELS_ABOVE_PROGRAM = 2  # `usr/bin/app` is part of the `usr` installation
_CHUNK = 8  # bytes of text in one x86-64 instruction
_CHUNKS_WITHIN = 96  # bytes of code within which all chunks of a string occur


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An installed Blender."""

    root: Path
    folder: Path  # with the source, and the kernels that Blender ships with
    program: Path | None
    prefix: Prefix | None  # the env that contains it

    @property
    def source(self) -> Path:
        """The source folder."""
        return self.folder / _SOURCE

    @property
    def precompiled(self) -> Path:
        """The folder with the kernels that Blender ships with; it may not exist."""
        return self.folder / _PRECOMPILED

    @property
    def resources(self) -> Path:
        """The folder with Blender's resources."""
        return self.folder.parents[_RESOURCES_UP - 1]

    @property
    def folder_version(self) -> str:
        """The version in the resource folder's name, as in official builds, or "" if there is none."""
        return self.resources.name if _FOLDER_VERSION.fullmatch(self.resources.name) else ""


def find(path: str, home: Home) -> Installation:
    """Find Blender by its program or by its installation folder.

    Args:
        path: "" means the program on `PATH`; the start script of an overlay means the original program.
        home: The home with the envs.

    Raises:
        RocenvError: The path does not exist, or the installation does not include the kernel sources.
    """
    start = _without_overlay(_existing(path), home)
    prefix = _prefix_around(start, home)
    try:
        for root in _roots(start, prefix):
            if folders := _source_folders(root):
                program = start if start.is_file() else _program_in(root)
                return Installation(root=root, folder=folders[0], program=program, prefix=prefix)
    except OSError as error:
        raise RocenvError(
            f"cannot read `{error.filename or start}`: {error.strerror}",
            hints=("choose an installation that you can read",),
            code="kernels-unreadable",
        ) from error
    searched = ", ".join(f"`{each}`" for each in _FOLDERS[:3])
    raise RocenvError(
        f"`{start}` has no Cycles kernel sources: no `{_SOURCE}` folder in {searched}",
        hints=(
            "specify the program or the installation folder with `--blender`",
            "some distributions omit the sources; official builds include them",
        ),
        code="kernels-no-source",
    )


def with_source_of(installation: Installation, version: str, *, detected: bool = True) -> Installation:
    """Select the source folder for one version.

    Raises:
        RocenvError: The version is `detected`, but the only source is for another version.
    """
    folders = (installation.folder, *_source_folders(installation.root))
    for each in (replace(installation, folder=folder) for folder in folders):
        # The folder for 5.2.1 is called 5.2; a folder without a version can be for any version.
        if f"{version}.".startswith(f"{each.folder_version}." if each.folder_version else ""):
            return each
    if detected:
        raise RocenvError(
            f"`{installation.program}` is version {version}, but the source next to it is for "
            f"{installation.folder_version} (`{installation.source}`)",
            hints=("use `--blender` to specify the program that matches this source",),
            code="kernels-bad-source",
        )
    return installation


def absolute_path(path: str) -> Path:
    """Make a user's path absolute, and search `PATH` for a bare name; the path does not have to exist."""
    return Path(os.path.abspath(_located(path) or path))


def _located(path: str) -> str | None:
    name = path or APP
    is_bare = not os.path.dirname(name) and (not path or not os.path.exists(name))
    return shutil.which(name) if is_bare else name


def _existing(path: str) -> Path:
    located = _located(path)
    if not located or not os.path.lexists(located):
        raise RocenvError(
            f"`{path}` does not exist" if path else f"`{APP}` is not on PATH",
            hints=("specify the program or the installation folder with `--blender`",),
            code="kernels-no-app",
        )
    return Path(os.path.abspath(located))


def _without_overlay(path: Path, home: Home) -> Path:
    """Replace a path in an overlay with the path of the original program."""
    for each in all_placed(home):
        folder = each.overlay_folder
        if folder is not None and any(
            own.is_relative_to(folder) for own in (path, Path(os.path.realpath(path)))
        ):
            return Path(each.program)
    return path


def _prefix_around(path: Path, home: Home) -> Prefix | None:
    name = env_around(home, str(path)) or env_around(home, os.path.realpath(path))
    return Prefix(home.envs / name) if name else None


def _roots(start: Path, prefix: Prefix | None) -> Iterator[Path]:
    """Yield possible installation roots, nearest first."""
    for path in dict.fromkeys((start, Path(os.path.realpath(start)))):
        yield from (path, path / "usr") if path.is_dir() else path.parents[:_LEVELS_ABOVE_PROGRAM]
    if prefix is not None:
        folders = {part.into for part in prefix.record().lock.components if part.into}
        yield from (prefix.path / folder / name for folder in sorted(folders) for name in ("", "usr"))


def _source_folders(root: Path) -> list[Path]:
    """List the folders that contain a source, newest version first."""

    def age(folder: Path) -> tuple[Version, str]:
        try:
            return Version(folder.parents[_RESOURCES_UP - 1].name), str(folder)
        except (InvalidVersion, IndexError):
            return Version("0"), str(folder)

    for pattern in _FOLDERS:
        if found := [folder for folder in root.glob(pattern) if (folder / _SOURCE).is_dir()]:
            return sorted(found, key=age, reverse=True)
    return []


def _program_in(root: Path) -> Path | None:
    return next((root / name for name in PROGRAMS if (root / name).is_file()), None)


def version_of(installation: Installation, launchers: Iterable[Launcher]) -> str:
    """Get the version from the program, or else from its resource folder's name.

    Raises:
        RocenvError: Neither contains a version.
    """
    launcher = next(each for each in launchers if each.key == APP)
    try:
        return printed_version(start_command(installation), None, launcher)
    except RocenvError as error:
        if installation.folder_version:
            return installation.folder_version
        what = installation.program or installation.root
        raise RocenvError(
            f"could not determine the version of `{what}`: {error.message}",
            hints=("specify it with `--app-version`",),
            code="kernels-no-version",
        ) from error


def start_command(installation: Installation) -> tuple[str, ...]:
    """Build the command that starts the program, with the env's own loader if the env has one.

    Raises:
        RocenvError: There is no program, or nothing can start it.
    """
    prefix, program = installation.prefix, installation.program
    if program is None:
        raise RocenvError(f"`{installation.root}` contains no program", code="kernels-no-app")
    if prefix is not None:
        try:
            record = prefix.record()
        except (RocenvError, DataError):
            return (str(program),)
        return argv_in(prefix, record, [str(program)], os.environ)
    return (find_program(str(program), os.environ),)


class ProgramBytes:
    """A program's bytes, searched for strings that show its build options.

    Args:
        path: The program; if it is None, empty or unreadable, the bytes are unknown.
    """

    def __init__(self, path: Path | None) -> None:
        self._bytes: mmap.mmap | bytes = b""
        if path is not None:
            try:
                with path.open("rb") as file:
                    self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # ValueError: the file is empty
                pass

    @property
    def known(self) -> bool:
        """Whether the bytes could be read; otherwise, a missing string proves nothing."""
        return len(self._bytes) > 0

    def contains(self, text: str) -> bool:
        """Search for a string, even if the compiler split it into immediate operands."""
        wanted = text.encode()
        if self._bytes.find(wanted) >= 0:
            return True
        if len(wanted) < _CHUNK:
            return False
        first, last = wanted[:_CHUNK], wanted[-_CHUNK:]
        at = self._bytes.find(first)
        while at >= 0:
            if last in self._bytes[at : at + _CHUNKS_WITHIN]:
                return True
            at = self._bytes.find(first, at + 1)
        return False


def program_bytes(installation: Installation) -> ProgramBytes:
    """Read the program, or, if it is a script, the binary with the same name."""
    path = installation.program
    if path is not None and _is_script(path):
        name = path.name
        behind = (installation.root / each for each in PROGRAMS if Path(each).name == name)
        path = next((each for each in behind if each.is_file() and not _is_script(each)), None)
    return ProgramBytes(path)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False

"""Finding an app by any path of it: its program, the source of its kernels, its resources."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from rocenv.core.errors import RocenvError
from rocenv.kernels.placed import all_placed, overlay_of
from rocenv.prefix import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.recipes import KernelSource
    from rocenv.home import Home

_LEVELS_OF_A_PROGRAM = 2  # from it to the folder of its installation: `usr/bin/app`
_LEVELS_OF_A_PART = 8  # from the folder of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An app as it lies on the disk."""

    row: KernelSource
    root: Path
    folder: Path  # that holds the source, and the kernels that came with it
    program: Path | None
    prefix: Prefix | None  # the env that it lies in

    @property
    def source(self) -> Path:
        """The folder of the source."""
        return self.folder / self.row.code

    @property
    def precompiled(self) -> Path:
        """The folder of the kernels that came with it; need not be there."""
        return self.folder / self.row.precompiled

    @property
    def resources(self) -> Path:
        """The folder of all that comes with the program."""
        return self.folder.parents[self.row.resources_up - 1]

    @property
    def version_of_folder(self) -> str:
        """The version that the folder of its resources is named by, as official builds have it; "" = none."""
        named = re.search(self.row.version_folder, self.resources.name) if self.row.version_folder else None
        return str(named["version"]) if named else ""


def find(path: str, row: KernelSource, home: Home) -> Installation:
    """Return the app that a path leads to: its program, its folder, or a prefix with it.

    Raises:
        RocenvError: Nothing is there, or nothing that has the source of kernels.
    """
    start = _not_placed(_start(path, row), row, home)
    prefix = _prefix_of(start, home)
    try:
        found = [
            Installation(row=row, root=root, folder=folder, program=_program(start, root, row), prefix=prefix)
            for root in _roots(start, prefix)
            for folder in _folders_in(root, row)[:1]
            if _leads_to(start, folder)
        ]
        if not found and (start / row.code).is_dir():
            found = [Installation(row=row, root=start, folder=start, program=None, prefix=prefix)]
    except OSError as error:
        raise RocenvError(
            f"cannot look into `{error.filename or start}`: {error.strerror}",
            hints=("name an installation that you may read",),
            code="kernels-unreadable",
        ) from error
    if found:
        return next((each for each in found if each.program is not None), found[0])
    raise RocenvError(
        f"`{start}` has no source of {row.title} kernels: no `{row.code}` in any of {_named(row)}",
        hints=(
            f"name the program or the folder of an installation: `--{row.app} PATH`",
            "some packagers leave the source out; official builds have it",
        ),
        code="kernels-no-source",
    )


def fitting(installation: Installation, version: str) -> Installation | None:
    """Return an installation with the source of a version, of those that lie in it; None where none fits."""
    folders = (installation.folder, *_folders_in(installation.root, installation.row))
    found = (replace(installation, folder=folder) for folder in folders)
    return next((each for each in found if _is_of(each.version_of_folder, version)), None)


def _is_of(folder: str, version: str) -> bool:
    """Tell whether a version may be that of a folder: `5.2.1` of `5.2`, any of one without a version."""
    return not folder or version == folder or version.startswith(f"{folder}.")


def _named(row: KernelSource) -> str:
    return ", ".join(f"`{each}`" for each in row.folders[:3])


def path_of(path: str, row: KernelSource) -> Path:
    """Return what a user has named: a path, or a program on PATH; need not be there."""
    return Path(os.path.abspath(_found(path, row) or path))


def _found(path: str, row: KernelSource) -> str | None:
    named = path or row.app
    is_bare = not os.path.dirname(named) and (not path or not os.path.exists(named))
    return shutil.which(named) if is_bare else named


def _start(path: str, row: KernelSource) -> Path:
    found = _found(path, row)
    if not found or not os.path.lexists(found):
        raise RocenvError(
            f"there is no `{path}`" if path else f"no `{row.app}` on PATH",
            hints=(f"name its program or its folder: `--{row.app} PATH`",),
            code="kernels-no-app",
        )
    return Path(os.path.abspath(found))


def _not_placed(path: Path, row: KernelSource, home: Home) -> Path:
    """Return a path, but of what rocenv made to start a program that very program."""
    paths = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}
    for each in all_placed(home, row.app):
        overlay = overlay_of(home, each)
        if overlay is not None and any(own.is_relative_to(overlay) for own in paths):
            return Path(each.program)
    return path


def _prefix_of(path: Path, home: Home) -> Prefix | None:
    """Return the env that a path lies in."""
    for each in (path, Path(os.path.realpath(path))):
        for envs in (home.envs, Path(os.path.realpath(home.envs))):
            if each.is_relative_to(envs) and each != envs:
                return Prefix(home.envs / each.relative_to(envs).parts[0])
    return None


def _roots(start: Path, prefix: Prefix | None) -> Iterator[Path]:
    """Yield folders that may be the one of the installation, the nearest first."""
    for path in dict.fromkeys((start, Path(os.path.realpath(start)))):
        if path.is_dir():
            # Above it are others' installations, unless it is a part of one, which is looked at later.
            yield from (path, path / "usr", *path.parents[:_LEVELS_OF_A_PART])
        else:
            yield from path.parents[:_LEVELS_OF_A_PROGRAM]
    if prefix is not None:
        folders = {part.into for part in prefix.record().lock.components if part.into}
        yield from (prefix.path / folder / name for folder in sorted(folders) for name in ("", "usr"))


def _leads_to(start: Path, folder: Path) -> bool:
    """Tell whether a folder is in what was named, or what was named in it or beside it as its program."""
    if not start.is_dir():
        return True
    paths = {start, Path(os.path.realpath(start))}
    return any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in paths)


def _folders_in(root: Path, row: KernelSource) -> list[Path]:
    """Return the folders with a source, of several versions the newest first."""
    for pattern in row.folders:
        found = [folder for folder in root.glob(pattern) if (folder / row.code).is_dir()]
        if found:
            return sorted(found, key=lambda folder: _age(folder, row), reverse=True)
    return []


def _age(folder: Path, row: KernelSource) -> tuple[Version, str]:
    try:
        version = Version(folder.parents[row.resources_up - 1].name)
    except (InvalidVersion, IndexError):
        version = Version("0")
    return version, str(folder)


def _program(start: Path, root: Path, row: KernelSource) -> Path | None:
    """Return the program: the one that was named, else the installation's."""
    if start.is_file():
        return start
    found = (root / name for name in row.programs)
    return next((path for path in found if path.is_file()), None)

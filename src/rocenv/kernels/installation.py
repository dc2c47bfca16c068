"""Finding an app by any path of it: its program, the source of its kernels, its resources."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.install.prefix import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.home import Home
    from rocenv.matrix.recipes import KernelSource

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


def find(path: str, row: KernelSource, home: Home) -> Installation:
    """Return the app that a path leads to: its program, its folder, or a prefix with it.

    Raises:
        RocenvError: Nothing is there, or nothing that has the source of kernels.
    """
    start = _start(path, row)
    prefix = _prefix_of(start, home)
    try:
        found = [
            Installation(row=row, root=root, folder=folder, program=_program(start, root, row), prefix=prefix)
            for root in _roots(start, prefix)
            if (folder := _folder_in(root, row)) is not None and _leads_to(start, folder)
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


def _named(row: KernelSource) -> str:
    return ", ".join(f"`{each}`" for each in row.folders[:3])


def _start(path: str, row: KernelSource) -> Path:
    named = path or row.app
    found = (
        shutil.which(named)
        if not os.path.dirname(named) and (not path or not os.path.exists(named))
        else named
    )
    if not found or not os.path.lexists(found):
        what = f"there is no `{named}`" if path else f"no `{named}` on PATH"
        raise RocenvError(
            what,
            hints=(f"name its program or its folder: `--{row.app} PATH`",),
            code="kernels-no-app",
        )
    return Path(os.path.abspath(found))


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
        yield from (prefix.rocm, prefix.rocm / "usr")


def _leads_to(start: Path, folder: Path) -> bool:
    """Tell whether a folder is in what was named, or what was named in it or beside it as its program."""
    if not start.is_dir():
        return True
    paths = {start, Path(os.path.realpath(start))}
    return any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in paths)


def _folder_in(root: Path, row: KernelSource) -> Path | None:
    for pattern in row.folders:
        for folder in sorted(root.glob(pattern), reverse=True):  # of several versions the newest
            if (folder / row.code).is_dir():
                return folder
    return None


def _program(start: Path, root: Path, row: KernelSource) -> Path | None:
    """Return the program: the one that was named, else the installation's."""
    if start.is_file():
        return start
    found = (root / name for name in row.programs)
    return next((path for path in found if path.is_file()), None)

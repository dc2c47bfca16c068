"""The scripts in a prefix's `bin` that start programs by the prefix's own program loader, or by name.

Wrappers: `rocm-exec PROGRAM ARGS` runs any program by the loader; `python3` and `python` are the same script
under the names that people type, and run the next program of that name on `PATH`. A wrapper never takes
another wrapper for that program, so envs can be stacked.

Starters: a program of a set may need the loader, and variables or arguments to find its files, which are
below the prefix and not where its packager meant them to be. Its starter gives it all of that, whether the
env is active or not: a program that starts others, such as a compiler, finds them as starters too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.env import fill
from rocenv.activate.loader import MARK
from rocenv.activate.shells.posix import quote
from rocenv.core import template
from rocenv.core.errors import DataError
from rocenv.core.lock import WRAPPERS, why_no_name
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.core.model import Program

_ELF = b"\x7fELF"


def write_wrappers(folder: Path, *, loader: Path, library_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """Write the wrappers into `folder`, which exists, executable; return their paths."""
    words = {"LOADER": quote(str(loader)), "LIBRARIES": quote(":".join(map(str, library_dirs)))}
    return _write(folder, WRAPPERS, fill("rocm-exec.sh", words))


def write_starters(
    folder: Path,
    program: Program,
    path: Path,
    *,
    tree: Path,
    loader: Path | None,
    library_dirs: Sequence[Path],
) -> tuple[Path, ...]:
    """Write the starters of one program, executable; return their paths.

    Args:
        folder: Where they are written; it exists, with the wrappers in it where there is a loader.
        program: What it needs.
        path: The program.
        tree: What its packages were unpacked into.
        loader: The prefix's own program loader, where it has one.
        library_dirs: Where the set's libraries are.

    Raises:
        DataError: It has a name that no starter can have.
    """
    names = program.names or (path.name,)
    for name in names:
        if fault := why_no_name(name):
            raise DataError(fault)
    text = _starter(program, path, folder, tree=tree, loader=loader, library_dirs=library_dirs)
    return _write(folder, names, text)


def _write(folder: Path, names: Sequence[str], text: str) -> tuple[Path, ...]:
    for name in names:
        write_atomic(folder / name, os.fsencode(text))
        (folder / name).chmod(0o755)
    return tuple(folder / name for name in names)


def _starter(
    program: Program,
    path: Path,
    folder: Path,
    *,
    tree: Path,
    loader: Path | None,
    library_dirs: Sequence[Path],
) -> str:
    def filled(text: str) -> str:
        return quote(template.fill(text, {"tree": tree, "bin": folder}))

    libraries = quote(":".join(map(str, library_dirs)))
    more = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    lines = ["#!/bin/sh", f"# {MARK}: starts a program of the env, so that it finds the env's files"]
    lines += [f"export {name}={filled(value)}" for name, value in program.environment.items()]
    start = f"exec {quote(str(path))}"
    if loader is None:
        lines.append(f'export LD_LIBRARY_PATH={libraries}"{more}"')
    elif not _is_elf(path):
        # The machine's shell with the env's C library on LD_LIBRARY_PATH would not even start.
        start = f"exec {quote(str(folder / 'rocm-exec'))} {quote(str(path))}"
    else:
        # What it starts in turn by the name that it has itself comes through this script again.
        by_loader = f'{quote(str(loader))} --library-path {libraries}"{more}" --argv0 "$0"'
        start = f"exec {by_loader} {quote(str(path))}"
    if program.not_before:
        lines.append(f'case ${{1-}} in {quote(program.not_before)}*) {start} "$@" ;; esac')
    words = "".join(f"{filled(each)} " for each in program.arguments)
    lines.append(f'{start} {words}"$@"')
    return "\n".join(lines) + "\n"


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF

"""Scripts in a prefix's `bin` that start programs by name or through the prefix's own loader.

Wrappers: `rocm-exec PROGRAM ARGS` runs any program through the loader; `python3` and `python` are copies of
it that run the next program of that name on `PATH`. Wrappers skip other wrappers, so envs can be stacked.

Start scripts: a program may need the loader, or variables or arguments that point to its files, because the
files are in the prefix rather than where its packager intended. Its start script provides all of that, even
if the env is not active. Programs that start other programs, such as compilers, also find these scripts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.env import MARKER, copied, fill
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
    """Write the executable wrappers into an existing `folder`, and return their paths."""
    words = {"LOADER": quote(str(loader)), "LIBRARIES": quote(":".join(map(str, library_dirs)))}
    words["IN_PLACE"] = _in_place(folder)
    return _write(folder, WRAPPERS, fill("rocm-exec.sh", words))


def write_start_scripts(
    folder: Path,
    program: Program,
    path: Path,
    *,
    tree: Path,
    loader: Path | None,
    library_dirs: Sequence[Path],
) -> tuple[Path, ...]:
    """Write a program's executable start scripts, and return their paths.

    Args:
        folder: The destination, which exists, and contains the wrappers if there is a loader.
        program: The program's names, arguments, and variables.
        path: The program.
        tree: The folder with the program's unpacked packages.
        loader: The prefix's own dynamic loader, if it has one.
        library_dirs: The set's library folders.

    Raises:
        DataError: The program has an invalid name.
    """
    names = program.names or (path.name,)
    for name in names:
        if fault := why_no_name(name):
            raise DataError(fault)
    text = _start_script(program, path, folder, tree=tree, loader=loader, library_dirs=library_dirs)
    return _write(folder, names, text)


def _write(folder: Path, names: Sequence[str], text: str) -> tuple[Path, ...]:
    for name in names:
        write_atomic(folder / name, os.fsencode(text))
        (folder / name).chmod(0o755)
    return tuple(folder / name for name in names)


def _start_script(
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
    lines = ["#!/bin/sh", f"# {MARK}: starts one of the env's programs with access to the env's files"]
    lines.append(_in_place(folder))
    lines += [f"export {name}={filled(value)}" for name, value in program.environment.items()]
    start = f"exec {quote(str(path))}"
    if loader is None:
        lines.append(f'export LD_LIBRARY_PATH={libraries}"{more}"')
    elif not _is_elf(path):
        # With the env's C library on LD_LIBRARY_PATH, the system shell would not even start.
        start = f"exec {quote(str(folder / 'rocm-exec'))} {quote(str(path))}"
    else:
        # A program that restarts itself via argv[0] must run this script again: hence `--argv0`.
        by_loader = f'{quote(str(loader))} --library-path {libraries}"{more}" --argv0 "$0"'
        start = f"exec {by_loader} {quote(str(path))}"
    if program.not_before:
        lines.append(f'case ${{1-}} in {quote(program.not_before)}*) {start} "$@" ;; esac')
    words = "".join(f"{filled(each)} " for each in program.arguments)
    lines.append(f'{start} {words}"$@"')
    return "\n".join(lines) + "\n"


def _in_place(folder: Path) -> str:
    """Return shell code that stops a script in a copied env from using the original's files."""
    made_for = folder.parent
    message = quote(f"rocenv: {copied(made_for.name, str(made_for))}")
    marker = f'"${{0%/*}}/../{"/".join(MARKER)}"'
    return (
        f"if [ -f {marker} ] && ! [ {marker} -ef {quote(str(made_for.joinpath(*MARKER)))} ]; then\n"
        f"  printf '%s\\n' {message} >&2\n  exit 126\nfi"
    )


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF

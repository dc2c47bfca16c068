"""An installation beside the installation: links to all of it, kernels of its own, and what starts it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix import quote
from rocenv.activate.wrapper import MARK
from rocenv.errors import RocenvError
from rocenv.kernels.placed import all_placed, folder_of
from rocenv.kernels.places.mirror import mirror
from rocenv.kernels.places.order import as_precompiled, content_of, placed_by, sha256_of, write_new
from rocenv.kernels.recipe import is_at_least
from rocenv.kernels.version import start_words
from rocenv.system import WINDOWS
from rocenv.system.files import clone_file, remove_tree, storage_errors, write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from rocenv.home import Home
    from rocenv.kernels.installation import Installation
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order

_START = "start"


def put(order: Order) -> Placed:
    """Put a kernel into a copy of the installation that is made of links."""
    job, home = order.job, order.home
    installation = job.installation
    if installation.program is None:
        raise RocenvError(
            f"no program of {installation.row.app} was found in `{installation.root}`, so nothing could be "
            "started in its place",
            hints=(f"name the program: `--{installation.row.app} PROGRAM`",),
            code="kernels-no-app",
        )
    by_variable = bool(installation.row.resources_variable) and is_at_least(
        job.version, installation.row.resources_since
    )
    base = installation.resources if by_variable else installation.root
    overlay = folder_of(home, installation.row.app) / "overlays" / sha256_of(os.fsencode(base))[:12]
    copy = overlay / base.name
    file = copy / installation.precompiled.relative_to(base) / job.precompiled
    content = as_precompiled(order)
    with storage_errors(overlay), locked(home.lock("overlay", overlay.name)):
        own = {file.name, *_own(home, installation.row.app, file.parent)}
        mirror(base, copy, installation.precompiled, own)
        write_new(file, content)
        start = _write_start(installation, overlay, copy, by_variable=by_variable)
    placed = replace(placed_by(order, file, content), start=str(start))
    if by_variable:
        placed = replace(placed, variable=installation.row.resources_variable, resources=str(copy))
    return placed


def undo(placed: Placed, home: Home) -> str:
    """Take the kernel out of the copy, and with the last one the copy."""
    file, overlay = Path(placed.file), Path(placed.start).parent.parent
    with storage_errors(overlay), locked(home.lock("overlay", overlay.name)):
        content = content_of(file)
        if content is not None and sha256_of(content) == placed.sha256:
            file.unlink()
            original = Path(placed.source).parent / file.parent.name / file.name
            if original.is_file() and not WINDOWS:
                file.symlink_to(original)
            elif original.is_file():
                clone_file(original, file)
        if not _own(home, placed.app, file.parent) - {file.name}:
            remove_tree(overlay)
            return f"removed `{overlay}`"
    return f"removed `{file}`"


def _own(home: Home, app: str, folder: Path) -> set[str]:
    """Return the names of our kernels in a folder of a copy."""
    files = [Path(each.file) for each in all_placed(home, app) if each.place == "overlay"]
    return {file.name for file in files if file.parent == folder}


def _write_start(installation: Installation, overlay: Path, copy: Path, *, by_variable: bool) -> Path:
    """Write what starts the program with the copy's resources; it has the program's name."""
    program = installation.program
    assert program is not None
    folder = overlay / _START
    folder.mkdir(exist_ok=True)
    variable = installation.row.resources_variable if by_variable else ""
    if not by_variable:
        # Without a variable the program looks for its resources beside itself, through links.
        inside = copy / program.relative_to(installation.root)
        if inside.is_symlink():
            inside.unlink()
            clone_file(program.resolve(), inside)
        words = [str(inside)]
    else:
        words = start_words(installation)
    if WINDOWS:
        start = folder / f"{program.stem}.cmd"
        setting = f"@set {variable}={copy}\r\n" if variable else ""
        write_atomic(start, f'@setlocal\r\n{setting}@"{words[0]}" %*\r\n'.encode())
        return start
    start = folder / program.name
    write_atomic(start, os.fsencode(_script(installation, words, variable, copy)))
    start.chmod(0o755)
    return start


def _script(installation: Installation, words: list[str], variable: str, copy: Path) -> str:
    setting = f"export {variable}={quote(str(copy))}" if variable else ":"
    head = ["#!/bin/sh", f"# {MARK}: starts a program with kernels that rocenv made", setting]
    starter = _starter_lines(installation)
    if starter and variable:
        return (
            "\n".join([*head, *(line for line in starter if not line.startswith(f"export {variable}="))])
            + "\n"
        )
    return "\n".join([*head, f'exec {" ".join(map(quote, words))} "$@"']) + "\n"


def _starter_lines(installation: Installation) -> list[str]:
    """Return what the env's own script that starts the program does; empty where there is none."""
    prefix, program = installation.prefix, installation.program
    if prefix is None or program is None:
        return []
    try:
        text = (prefix.bin / program.name).read_text(errors="surrogateescape")
    except OSError:
        return []
    return [line for line in text.splitlines() if not line.startswith("#")] if MARK in text else []

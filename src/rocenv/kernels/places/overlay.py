"""An installation beside the installation: links to all of it, kernels of its own, and what starts it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix import quote
from rocenv.activate.wrapper import MARK
from rocenv.errors import RocenvError
from rocenv.kernels.placed import all_placed, folder_of, overlay_of
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.mirror import mirror
from rocenv.kernels.places.order import as_precompiled, content_of, placed_by, sha256_of, write_new
from rocenv.kernels.recipe import is_at_least
from rocenv.kernels.version import start_words
from rocenv.system import WINDOWS
from rocenv.system.files import clone_file, remove_path, remove_tree, storage_errors, write_atomic
from rocenv.system.locks import locked
from rocenv.system.moving import move

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
    start = overlay / _START / (f"{installation.program.stem}.cmd" if WINDOWS else installation.program.name)
    placed = replace(placed_by(order, file, as_precompiled(order)), start=str(start))
    if by_variable:
        placed = replace(placed, variable=installation.row.resources_variable, resources=str(copy))
    with storage_errors(overlay), locked(home.lock("overlay", overlay.name)):
        overlay.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=overlay.parent, prefix=".", ignore_cleanup_errors=True) as name:
            fresh = Path(name, "new")
            fresh.mkdir()
            mirror(base, fresh / base.name, installation.precompiled)
            _fill(fresh / file.parent.relative_to(overlay), order, placed)
            _write_start(installation, fresh, placed, by_variable=by_variable)
            # Made anew and not brought up to date: what is a link by now was perhaps a folder then.
            if os.path.lexists(overlay):
                move(overlay, Path(name, "old"))
            move(fresh, overlay)
        keep_note(home, placed)
    return placed


def _fill(folder: Path, order: Order, placed: Placed) -> None:
    """Put the kernel and those that were in the copy before into the folder of a new one."""
    kernels = {Path(placed.file).name: as_precompiled(order)}
    for each in _others(order.home, placed):
        content = content_of(Path(each.file))
        if content is not None and sha256_of(content) == each.sha256:
            kernels.setdefault(Path(each.file).name, content)
    for name, content in kernels.items():
        remove_path(folder / name)
        write_new(folder / name, content)


def undo(placed: Placed, home: Home) -> str:
    """Take the kernel out of the copy, and with the last one the copy."""
    file, overlay = Path(placed.file), overlay_of(home, placed)
    if overlay is None:
        return f"`{file}` is gone already"
    with storage_errors(overlay), locked(home.lock("overlay", overlay.name)):
        content = content_of(file)
        if content is not None and sha256_of(content) == placed.sha256 and not file.is_symlink():
            file.unlink()
            original = Path(placed.source).parent / file.parent.name / file.name
            if original.is_file() and not WINDOWS:
                file.symlink_to(original)
            elif original.is_file():
                clone_file(original, file)
        if not _others(home, placed):
            remove_tree(overlay)
            return f"removed `{overlay}`"
    return f"removed `{file}`"


def _others(home: Home, placed: Placed) -> list[Placed]:
    """Return what else lies beside a kernel in a copy."""
    folder = Path(placed.file).parent
    return [
        each
        for each in all_placed(home, placed.app)
        if each.place == "overlay" and each.key != placed.key and Path(each.file).parent == folder
    ]


def _write_start(installation: Installation, fresh: Path, placed: Placed, *, by_variable: bool) -> None:
    """Write what starts the program with the copy's resources; it has the program's name."""
    program = installation.program
    assert program is not None
    overlay = Path(placed.start).parent.parent
    start = fresh / Path(placed.start).relative_to(overlay)
    start.parent.mkdir()
    copy = overlay / (installation.resources if by_variable else installation.root).name
    if by_variable:
        words = start_words(installation)
    else:
        # Without a variable the program looks for its resources beside itself, through links.
        inside = Path(copy.name) / program.relative_to(installation.root)
        if (fresh / inside).is_symlink():
            (fresh / inside).unlink()
            clone_file(program.resolve(), fresh / inside)
        words = [str(overlay / inside)]
    if WINDOWS:
        setting = f"@set {placed.variable}={copy}\r\n" if placed.variable else ""
        write_atomic(start, f'@setlocal\r\n{setting}@"{words[0]}" %*\r\n'.encode())
        return
    write_atomic(start, os.fsencode(_script(installation, words, placed.variable, copy)))
    start.chmod(0o755)


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

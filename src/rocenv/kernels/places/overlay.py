"""An installation beside the installation: links to all of it, kernels of its own, and what starts it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.activate.loader import MARK
from rocenv.activate.shells.posix import quote
from rocenv.core.errors import RocenvError
from rocenv.kernels.placed import all_placed, folder_of, overlay_of
from rocenv.kernels.placed import write as keep_note
from rocenv.kernels.places.mirror import mirror
from rocenv.kernels.places.order import as_precompiled, content_of, placed_by, sha256_of, write_new
from rocenv.kernels.recipe import is_at_least
from rocenv.kernels.version import start_words
from rocenv.system.files import clone_file, move, remove_path, remove_tree, storage_errors, write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from rocenv.compilers import Toolchain
    from rocenv.home import Home
    from rocenv.kernels.installation import Installation
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order
    from rocenv.kernels.recipe import Job

_START = "rocenv-start"  # beside the copy, which has the name of what it is of


def check(order: Order) -> None:
    """Raise RocenvError where a program would not use a copy."""
    _copied(order.job)


def put(order: Order, content: bytes, toolchain: Toolchain) -> Placed:
    """Put a kernel into a copy of the installation that is made of links."""
    del toolchain
    home, installation = order.home, order.job.installation
    base, program, kernels = _copied(order.job)
    by_variable = _has_variable(order.job)
    overlay = folder_of(home, installation.row.app) / "overlays" / sha256_of(os.fsencode(base))[:12]
    copy = overlay / base.name
    file = copy / kernels / order.job.precompiled
    content = as_precompiled(order, content)
    placed = replace(placed_by(order, file, content), start=str(overlay / _START / program.name))
    if by_variable:
        placed = replace(placed, variable=installation.row.resources_variable, resources=str(copy))
    with storage_errors(overlay), locked(home.lock("overlay", overlay.name)):
        overlay.parent.mkdir(parents=True, exist_ok=True)
        # Not a TemporaryDirectory, whose end may change the rights of what links lead to.
        room = Path(tempfile.mkdtemp(dir=overlay.parent, prefix="."))
        try:
            fresh = room / "new"
            fresh.mkdir()
            mirror(base, fresh / base.name, base / kernels)
            _fill(fresh, fresh / base.name / kernels, {file.name: content, **_others_content(home, placed)})
            if by_variable:
                words = start_words(installation)
            else:
                _put_program(fresh, fresh / base.name, program)
                words = [str(copy / program.name)]
            start = fresh / _START / program.name
            start.parent.mkdir()
            write_atomic(start, os.fsencode(_script(installation, words, placed.variable, copy)))
            start.chmod(0o755)
            # Made anew and not brought up to date: what is a link by now was perhaps a folder then.
            if os.path.lexists(overlay):
                move(overlay, room / "old")
            move(fresh, overlay)
        finally:
            with contextlib.suppress(OSError):
                remove_tree(room)
        keep_note(home, placed)
    return placed


def _copied(job: Job) -> tuple[Path, Path, Path]:
    """Return what is copied, the program, and below the first the folder of the kernels.

    Raises:
        RocenvError: There is no program, or it would not look into a copy.
    """
    installation = job.installation
    row, program, resources = installation.row, installation.program, installation.resources
    if program is None:
        raise RocenvError(
            f"no program of {row.app} was found in `{installation.root}`, so nothing could be "
            "started in its place",
            hints=(f"name the program: `--{row.app} PROGRAM`",),
            code="kernels-no-app",
        )
    if _has_variable(job):
        return resources, program, installation.precompiled.relative_to(resources)
    # Without a variable a program finds other resources only beside itself: where it really lies.
    real = Path(os.path.realpath(program))
    if real.parent != Path(os.path.realpath(resources.parent)):
        raise RocenvError(
            f"{row.app} {job.version} would not look into a copy of its resources: it has no variable that "
            f"names them, and its program `{real}` does not lie beside `{resources}`",
            hints=("take another place: `--place in-place`", f"or another {row.app}"),
            code="kernels-no-overlay",
        )
    return real.parent, real, installation.precompiled.relative_to(resources.parent)


def _has_variable(job: Job) -> bool:
    row = job.installation.row
    return bool(row.resources_variable) and is_at_least(job.version, row.resources_since)


def _fill(fresh: Path, folder: Path, kernels: dict[str, bytes]) -> None:
    """Put kernels into a folder of a new copy, in place of links."""
    for name, content in kernels.items():
        _make_room(folder / name, fresh)
        write_new(folder / name, content)


def _put_program(fresh: Path, folder: Path, program: Path) -> None:
    """Put a program into a folder of a new copy: as a link it would look beside the real one."""
    _make_room(folder / program.name, fresh)
    clone_file(program, folder / program.name)


def _make_room(path: Path, fresh: Path) -> None:
    """Remove a link from a new copy; raise RocenvError where it lies behind another link of the copy."""
    real = Path(os.path.realpath(path.parent))
    if not real.is_relative_to(os.path.realpath(fresh)):
        raise RocenvError(
            f"no copy can be made: `{path.name}` would be put into `{real}`, which is not rocenv's",
            hints=("take another place: `--place in-place`",),
            code="kernels-no-overlay",
        )
    remove_path(path)


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
            if original.is_file():
                file.symlink_to(original)
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


def _others_content(home: Home, placed: Placed) -> dict[str, bytes]:
    """Return the other kernels of a copy, by their names, but those that somebody has changed."""
    found = {Path(each.file).name: (each, content_of(Path(each.file))) for each in _others(home, placed)}
    return {
        name: content
        for name, (each, content) in found.items()
        if content is not None and sha256_of(content) == each.sha256
    }


def _script(installation: Installation, words: list[str], variable: str, copy: Path) -> str:
    """Return what starts the program with the copy's resources; it has the program's name."""
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

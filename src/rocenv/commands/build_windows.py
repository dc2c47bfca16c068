"""Building a set for Windows: what has no hash yet gets one, and what AMD's installer keeps is asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rocenv.commands.world import note
from rocenv.errors import FetchError, RocenvError

if TYPE_CHECKING:
    from rocenv.commands.world import World
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Component, Lock, Record


def build_windows(name: str, lock: Lock, world: World) -> Record:
    """Make the env `name` from a plan or lock for Windows, and return its record.

    Where AMD's installer cannot be unpacked, the user is told how to run it; somebody at a terminal can do so
    and go on, a script gets the same text as an error.

    Raises:
        RocenvError: A part cannot be had, or the SDK has to be installed by hand first.
    """
    from rocenv.host.hip_sdk import installed_sdks
    from rocenv.install.build import build
    from rocenv.install.installer import InstallerClosed
    from rocenv.install.pin import pinned

    while True:
        try:
            locked = pinned(lock, world.building(), installed_sdks(world.matrix))
            for text in locked.notes[len(lock.notes) :]:
                note(f"  - {text}")
            return build(name, locked, world.building())
        except InstallerClosed as closed:
            by_hand = _by_hand(closed, lock, world.matrix)
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise by_hand from closed
            note(f"{by_hand.message}\n" + "\n".join(f"  - {hint}" for hint in by_hand.hints))
            if not click.confirm("Is it installed now?", default=False, err=True):
                raise by_hand from closed
        except FetchError as error:
            raise _naming_others(error, lock, world.matrix) from error


def _by_hand(closed: RocenvError, lock: Lock, matrix: Matrix) -> RocenvError:
    """Return what to do where the SDK has to be installed by its own installer."""
    sdk = next(part for part in lock.components if part.kind == "rocm")
    row = next(row for row in matrix.hip_sdk if row.version == sdk.version)
    notes = sorted(matrix.installer_note, key=lambda note: note.order)
    hints = (
        f"fetch and run {row.url}",
        *(each.text for each in notes),
        "then repeat the same `rocenv create` command: it takes the installed SDK over",
    )
    return RocenvError(
        f"HIP SDK {sdk.version} has to be installed by AMD's own installer first: {closed.message}",
        hints=(*closed.hints[:-1], *hints),
        code=closed.code,
    )


def _naming_others(error: FetchError, lock: Lock, matrix: Matrix) -> FetchError:
    """Return the error of a file that does not exist with those of the same build that are known."""
    if "404" not in error.message:
        return error
    for part in lock.components:
        if part.kind == "zluda" and any(each.name in error.message for each in part.artifacts):
            return FetchError(
                f"{error.message}; known archives of ZLUDA {part.version}: {_archives(part, matrix)}",
                hints=("another version: `rocenv matrix --zluda '*' --platform windows`", *error.hints),
                code=error.code,
            )
    return error


def _archives(part: Component, matrix: Matrix) -> str:
    builds = [row for row in matrix.zluda if (row.project, row.version) == (part.channel, part.version)]
    names = [asset.name for row in builds for asset in row.assets if asset.platform == "windows"]
    return ", ".join(f"`{name}`" for name in names) or "none"

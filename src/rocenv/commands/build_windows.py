"""Building a set for Windows: what has no hash yet gets one, and what AMD's installer keeps is asked for."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from rocenv.commands.output import note
from rocenv.core.errors import FetchError, RocenvError

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component, Lock, Record
    from rocenv.data.rows import Matrix


def build_windows(name: str, lock: Lock, context: Context) -> Record:
    """Make the env `name` from a plan or lock for Windows, and return its record.

    Where AMD's installer cannot be unpacked, the user is told how to run it; somebody at a terminal can do so
    and go on, a script gets the same text as an error.

    Raises:
        RocenvError: A part cannot be had, or the SDK has to be installed by hand first.
    """
    from rocenv.host.hip_sdk import installed_sdks
    from rocenv.install.build import build
    from rocenv.install.installer import InstallerClosed
    from rocenv.install.pin import with_installed_sdk

    closed = False
    while True:
        installed = installed_sdks(context.matrix)
        try:
            return build(name, with_installed_sdk(lock, context, installed, closed=closed), context)
        except InstallerClosed as error:
            by_hand = _by_hand(error, lock, context.matrix)
            if closed or not _is_installed(lock, context.matrix):
                _wait_for_it(by_hand, error)
            closed = True
        except FetchError as error:
            raise _explained(error, lock, context) from error


def _is_installed(lock: Lock, matrix: Matrix) -> bool:
    from rocenv.host.hip_sdk import installed_sdks

    version = next(part.version for part in lock.components if part.kind == "rocm")
    return any(
        each.row and each.row.version == version and not each.why_not for each in installed_sdks(matrix)
    )


def _wait_for_it(by_hand: RocenvError, closed: RocenvError) -> None:
    """Let somebody at a terminal install the SDK meanwhile; raise the error where that does not happen."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise by_hand from closed
    note(f"{by_hand.message}\n" + "\n".join(f"  - {hint}" for hint in by_hand.hints))
    if not click.confirm("Is it installed now?", default=False, err=True):
        raise by_hand from closed


def _by_hand(closed: RocenvError, lock: Lock, matrix: Matrix) -> RocenvError:
    """Return what to do where the SDK has to be installed by its own installer."""
    sdk = next(part for part in lock.components if part.kind == "rocm")
    url = next((row.url for row in matrix.hip_sdk if row.version == sdk.version), sdk.artifacts[0].url)
    notes = sorted(matrix.installer_note, key=lambda note: note.order)
    hints = (
        f"fetch and run {url}",
        *(each.text for each in notes),
        "then repeat the same `rocenv create` command: it takes the installed SDK over",
    )
    return RocenvError(
        f"HIP SDK {sdk.version} has to be installed by AMD's own installer first: {closed.message}",
        hints=(*closed.hints[:-1], *hints),
        code=closed.code,
    )


def _explained(error: FetchError, lock: Lock, context: Context) -> FetchError:
    """Return the error with what is known of the file: which others exist, or when it was another one."""
    from rocenv.install.pin import why_pinned

    for part in lock.components:
        for artifact in part.artifacts:
            if artifact.name not in error.message:
                continue
            changed = error.code in ("hash-mismatch", "truncated")
            if changed and (why := why_pinned(artifact, context.home)):
                return FetchError(error.message, hints=(why, *error.hints), code=error.code)
            if re.search(r"\b404\b", error.message):
                others = f"; known of the same release: {_known(part, context.matrix)}"
                return FetchError(f"{error.message}{others}", hints=error.hints, code=error.code)
    return error


def _known(part: Component, matrix: Matrix) -> str:
    """Return the files that the matrix has of a part's release, in words."""
    builds = [row for row in matrix.zluda if (row.project, row.version) == (part.channel, part.version)]
    names = [asset.name for row in builds for asset in row.assets if asset.platform == "windows"]
    if part.kind == "libraries":
        series = part.version.split("/")
        names = [row.asset for row in matrix.pack if row.asset and row.url and set(row.rocm) & set(series)]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names)) or "none"

"""Build an env from a plan; if that fails, retry with a newer plan or after help from the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.commands.output import can_ask, confirm, note
from rocenv.commands.plan_view import plan_text
from rocenv.core.errors import FetchError, RocenvError
from rocenv.core.versions import series

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.context import Context
    from rocenv.core.model import Component, Lock, Record
    from rocenv.data.rows import Matrix

# A file in the plan was removed from its server, or replaced.
_OUTDATED = ("gone", "hash-mismatch", "truncated")


def build_env(name: str, lock: Lock, context: Context, replan: Callable[[], Lock] | None) -> Record:
    """Build the env `name`, and return its record.

    If AMD's installer cannot be unpacked and its SDK is not installed, a user at a terminal is asked to run
    it, and the build continues. Without a terminal, the error contains the instructions.

    Args:
        name: The new env.
        lock: The plan, or a lock.
        context: The home, the network and the matrix.
        replan: Creates a new plan from current package lists; None for a lock, which must not change.

    Raises:
        RocenvError: A file is unavailable, or the user must install the HIP SDK first.
    """
    from rocenv.host.hip_sdk import installed_sdks
    from rocenv.install.build import build
    from rocenv.install.installer import InstallerClosed
    from rocenv.install.pin import with_installed_sdk

    by_hand = replanned = False
    while True:
        try:
            if lock.platform != "windows":
                return build(name, lock, context)
            installed = installed_sdks(context.matrix)
            return build(name, with_installed_sdk(lock, context, installed, closed=by_hand), context)
        except InstallerClosed as error:
            if by_hand or not _has_sdk(lock, context.matrix):
                _ask_to_install(_install_by_hand(error, lock, context.matrix), error)
            by_hand = True
        except FetchError as error:
            if lock.platform == "windows":
                raise _explained(error, lock, context) from error
            if error.code not in _OUTDATED or replanned:
                raise
            if replan is None:
                raise _not_rebuildable(name, lock, error, context) from error
            fresh = replan()
            if fresh.components == lock.components:
                raise
            note("the mirror has changed; new plan:")
            note(plan_text(fresh))
            lock, replanned = fresh, True


def _not_rebuildable(name: str, lock: Lock, error: FetchError, context: Context) -> FetchError:
    """Explain that the mirror no longer has a locked file, and suggest the closest available set."""
    from rocenv.plan import make_plan
    from rocenv.resolve.request import create_command

    hints = ["download the package from an archive of the mirror, or use a copy of the cache folder"]
    rocm = lock.part("rocm")
    if rocm is not None:
        release = series(rocm.version)
        opt_in = {each.name for each in context.matrix.channels.values() if each.only_named}
        request = replace(
            lock.request,
            rocm=release,
            target=lock.target,
            torch="*" if lock.request.torch else "",
            channel=rocm.channel if rocm.channel in opt_in else "",
        )
        try:
            closest = make_plan(request, context.refreshing()).components[0]
        except RocenvError:
            hints.append(f"no other set with ROCm {release} is currently available for {lock.target}")
        else:
            command = create_command(name, replace(request, channel=closest.channel))
            found = f"ROCm {closest.version} from {closest.channel}"
            hints.insert(0, f"the closest available set is {found}: `{command}`")
    return FetchError(
        f"cannot rebuild the env from the lock: {error.message}", hints=tuple(hints), code="left-the-mirror"
    )


def _has_sdk(lock: Lock, matrix: Matrix) -> bool:
    from rocenv.host.hip_sdk import installed_sdks

    version = next(part.version for part in lock.components if part.kind == "rocm")
    return any(
        each.row and each.row.version == version and not each.why_not for each in installed_sdks(matrix)
    )


def _ask_to_install(error: RocenvError, cause: RocenvError) -> None:
    """Wait until the user has installed the SDK; raise the error if the user does not."""
    if not can_ask():
        raise error from cause
    note(f"{error.message}\n" + "\n".join(f"  - {hint}" for hint in error.hints))
    if not confirm("Is it installed now?"):
        raise error from cause


def _install_by_hand(closed: RocenvError, lock: Lock, matrix: Matrix) -> RocenvError:
    sdk = next(part for part in lock.components if part.kind == "rocm")
    url = next((row.url for row in matrix.hip_sdk if row.version == sdk.version), sdk.artifacts[0].url)
    notes = sorted(matrix.installer_note, key=lambda note: note.order)
    return RocenvError(
        f"first install HIP SDK {sdk.version} with AMD's own installer: {closed.message}",
        hints=(
            *closed.hints[:-1],
            f"download and run {url}",
            *(each.text for each in notes),
            "then rerun the `rocenv create` command, which will copy the installed SDK",
        ),
        code=closed.code,
    )


def _explained(error: FetchError, lock: Lock, context: Context) -> FetchError:
    """Add the date of the first download, or the release's known files, to a download error."""
    from rocenv.install.pin import why_pinned

    for part in lock.components:
        for artifact in part.artifacts:
            if artifact.name not in error.message:
                continue
            changed = error.code in ("hash-mismatch", "truncated")
            if changed and (why := why_pinned(artifact, context.home)):
                return FetchError(error.message, hints=(why, *error.hints), code=error.code)
            if re.search(r"\b404\b", error.message):
                known = _known_files(part, context.matrix)
                message = f"{error.message}; known files in this release: {known}"
                return FetchError(message, hints=error.hints, code=error.code)
    return error


def _known_files(part: Component, matrix: Matrix) -> str:
    builds = [row for row in matrix.zluda if (row.project, row.version) == (part.channel, part.version)]
    names = [asset.name for row in builds for asset in row.assets if asset.platform == "windows"]
    if part.kind == "libraries":
        releases = set(part.version.split("/"))
        names = [row.asset for row in matrix.pack if row.asset and row.url and releases & set(row.rocm)]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names)) or "none"

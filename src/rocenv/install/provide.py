"""Have what a lock names: room for it, the packages in the store, the wheels in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.core.progress import size_text
from rocenv.install import store
from rocenv.system.machine import free_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock
    from rocenv.home import Home

# Room for records, indices and the file system's own needs, beside the files themselves.
_MARGIN_BYTES = 64 << 20
_TRIES = 3  # with a cache that holds damaged files; more than a few mean a failing disk


def require_room(lock: Lock, home: Home) -> None:
    """Raise PrefixError unless the disk has room for what is not there yet, before anything is fetched."""
    # Some of a plan have no hash yet.
    artifacts = {each.sha256 or each.url: each for part in lock.components for each in part.artifacts}
    needed = sum(_bytes_to_come(artifact, home) for artifact in artifacts.values())
    free = free_bytes(home.path)
    if needed and free < needed + _MARGIN_BYTES:
        raise PrefixError(
            f"the set needs {size_text(needed)} of disk below `{home.path}`, and {size_text(free)} are free",
            hints=("`rocenv gc` shows what no env needs", "or set ROCENV_HOME to a folder on a larger disk"),
            code="no-space",
        )


def _bytes_to_come(artifact: Artifact, home: Home) -> int:
    if store.holds(home, artifact):
        return 0
    here = bool(artifact.sha256) and (home.artifacts / artifact.sha256).exists()
    download = 0 if here else artifact.size_bytes
    if store.unpacks(artifact):
        unpacked = artifact.installed_bytes or 3 * artifact.size_bytes
        return download + unpacked
    # A wheel's installed size is not known before it is unpacked; three times its own is a high guess.
    return download + 3 * artifact.size_bytes


def gone_folder(artifact: Artifact) -> PrefixError:
    """Return what to say where a folder that was taken over is not in the store any more."""
    return PrefixError(
        f"the files of {artifact.name} {artifact.version}, taken over from `{artifact.path}`, are not in the "
        "store any more",
        hints=(
            "make the env again; `rocenv create` takes the installed one over anew, if it is still there",
        ),
        code="adopted-gone",
    )


def provide(lock: Lock, context: Context) -> dict[str, Path]:
    """Have every package of a lock in the store and every wheel in the cache; return the wheels by hash.

    Unpacking begins as soon as the first package is there, while the others are still being fetched. One that
    was damaged in the cache is fetched anew.
    """
    for attempt in range(_TRIES):
        missing = [part for part in lock.artifacts if not store.holds(context.home, part)]
        for part in [part for part in missing if part.kind == "folder"]:
            from rocenv.install.adopt import adopt_again  # late: as good as never needed

            if not adopt_again(context.home, part):
                raise gone_folder(part)
            missing.remove(part)
        if not missing:
            break
        from rocenv.install.gather import gather

        try:
            return gather(missing, context)
        except store.DamagedPackage as error:
            if attempt + 1 == _TRIES:
                raise
            context.progress.note(f"{error.message}; fetching it anew")
    return {}

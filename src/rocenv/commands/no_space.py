"""Hints for a full disk: how much each command frees, and which other disk has space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.commands.cache import needed_artifacts
from rocenv.commands.calling_shell import calling_shell, set_variable
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.progress import size_text
from rocenv.prefix import all_prefixes
from rocenv.system import WINDOWS
from rocenv.system.disks import room_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.errors import NoSpace
    from rocenv.home import Home

_LEAST_BYTES = 1_000_000  # smaller amounts are not suggested


def space_hints(error: NoSpace) -> tuple[str, ...]:
    """Return the commands that free space, with amounts, and the one that switches to another disk."""
    context, place = Context(), Path(error.place)
    if not place.is_relative_to(context.home.path):
        return (f"free some space on the disk that contains `{place}`, or choose a different folder",)
    try:
        with context.progress.wait("Looking for disk space", closing=False):
            return tuple(_hints(error, context))
    except (OSError, RocenvError):  # the home is damaged, or a file was just removed
        return error.hints


def _hints(error: NoSpace, context: Context) -> Iterator[str]:
    home = context.home
    lacking = error.needed_bytes - error.free_bytes
    freed = {command: size for command, size in _freed(home, error.keep) if size >= _LEAST_BYTES}
    amount = f"free {size_text(lacking)} more" if error.needed_bytes else "free some space"
    commands = ", ".join(f"`{command}` frees up to {size_text(size)}" for command, size in freed.items())
    yield f"{amount}: {commands}" if commands else f"{amount} on the disk that contains `{home.path}`"
    envs = all_prefixes(home)
    if sum(freed.values()) < max(lacking, _LEAST_BYTES):
        if envs:
            yield "remove envs that you no longer need; `rocenv list` shows them"
        elif freed and error.needed_bytes:
            yield "this is not enough: also remove other files from this disk"
    room = room_elsewhere(home.path, error.needed_bytes or _usual_bytes(context))
    if room is not None:
        stay = "; existing envs stay where they are" if envs else ""
        yield f"or use another disk, with {size_text(room.free_bytes)} free: {_move(room.folder)}{stay}"


def _freed(home: Home, keep: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield how much each command would free, not counting files that a second attempt needs.

    `keep` contains the hashes of these files; if it is empty, every partial download may be one of them.
    """
    from rocenv.install.store import sweep

    needed = frozenset(needed_artifacts(home))
    yield "rocenv gc -y", sum(size for _, size in sweep(home, needed | keep, dry_run=True))
    installed = needed.union(path.name for path in home.store.glob("*"))
    downloads = {path: path.name.partition(".")[0] for path in home.artifacts.glob("*")}
    wheels = [path for path in home.uv_cache.rglob("*") if path.is_file()]
    if (set(downloads.values()) - installed) & (keep or set(downloads.values())):
        yield "rocenv cache clear wheels", _size_of(wheels)
    else:
        yield "rocenv cache clear", _size_of([*downloads, *wheels])


def _size_of(files: list[Path]) -> int:
    """Add up the sizes of files that are not also in an env."""
    return sum(info.st_size for info in map(Path.lstat, files) if info.st_nlink == 1)


def _usual_bytes(context: Context) -> int:
    """The space that a typical set needs."""
    found = (row.values[0] for row in context.matrix.threshold if row.key == "disk_least")
    return int(next(found, "0")) << 30


def _move(folder: Path) -> str:
    if WINDOWS:
        return f"`setx ROCENV_HOME {folder}`, then open a new window"
    return f"`{set_variable(calling_shell(), 'ROCENV_HOME', str(folder))}`"

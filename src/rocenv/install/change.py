"""Change an existing env: remove it, rename it, restore its files as recorded, move its shims."""

from __future__ import annotations

import contextlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.install import store
from rocenv.install.build import require_free
from rocenv.install.fetch import ensure_available, restore_folder
from rocenv.install.origins import tree_files
from rocenv.install.place import place_file, write_own_files
from rocenv.install.prefix import files_sha256, prefix_of, to_remove
from rocenv.install.shims import apply_shims, base_files, undo_shims
from rocenv.install.tree import file_entry
from rocenv.install.venv import install_venv
from rocenv.preload import ORIGINALS, preload, shims_of
from rocenv.system import WINDOWS
from rocenv.system.files import (
    in_use,
    move_unused,
    remove_path,
    require_unused,
    set_aside,
    storage_errors,
)
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Component, FileEntry, Lock, Record
    from rocenv.home import Home
    from rocenv.install.prefix import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A file that is not as the record says."""

    path: str  # below the prefix
    what: str  # `missing`, `changed`, `unreadable: ...`


def differences(
    prefix: Prefix, files: Mapping[str, FileEntry], advance: Callable[[int], None] = lambda _size: None
) -> tuple[Difference, ...]:
    """Compare the files of a prefix with the list; differences sorted by path, other files do not count.

    A file below what is no real folder is missing, even if a link leads to such a file elsewhere.
    """
    real = _real_folders(prefix.path, files)

    def look(item: tuple[str, FileEntry]) -> Difference | None:
        path, expected = item
        if path.rpartition("/")[0] not in real:
            return Difference(path=path, what="missing")
        try:
            found = file_entry(prefix.path / path)
        except FileNotFoundError:
            return Difference(path=path, what="missing")
        except OSError as error:
            return Difference(path=path, what=f"unreadable: {error.strerror}")
        advance(found.size_bytes)
        return None if _same(found, expected) else Difference(path=path, what="changed")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return tuple(found for found in pool.map(look, sorted(files.items())) if found is not None)


def _same(found: FileEntry, expected: FileEntry) -> bool:
    if (found.sha256, found.link) != (expected.sha256, expected.link):
        return False
    # Only the bit that decides whether a program starts; others differ with the umask.
    return bool(expected.link) or found.executable == expected.executable


def _real_folders(root: Path, files: Iterable[str]) -> frozenset[str]:
    """List the folders of the files, below `root`, that no link leads through; `""` is the root."""
    real = {""}
    wanted = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    for folder in sorted(wanted - {"."}):  # a folder comes before those in it
        with contextlib.suppress(OSError):
            if folder.rpartition("/")[0] in real and stat.S_ISDIR((root / folder).lstat().st_mode):
                real.add(folder)
    return frozenset(real)


def remove(home: Home, name: str) -> None:
    """Remove an env, complete or not, and what interrupted removals left of it.

    Raises:
        PrefixError: There is none, or the folder there is not rocenv's, or a program in it runs.
    """
    to_remove(home, name)
    with storage_errors(home.path), locked(home.lock("env", name), waiting=_waiting(name)):
        for prefix in to_remove(home, name):  # still, after the waiting
            if not set_aside(prefix.path.name):
                require_unused(prefix.path)
                _take_what_runs(prefix)
            prefix.wipe()


def _take_what_runs(prefix: Prefix) -> None:
    """Remove what a program of the env has open first, so that nothing is lost where one runs.

    A library that is loaded keeps no folder from being renamed everywhere, and itself from being removed.
    """
    if not WINDOWS or prefix.state != "complete":
        return
    record = prefix.record_wherever_made()
    loaded = preload(record.lock, prefix.files(record), in_torch=record.shims_in_torch)
    first = [prefix.path / record.lock.python, *(prefix.path / path for path in loaded)]
    try:
        for path in first:
            remove_path(path)
    except PermissionError as error:
        raise in_use(prefix.path, first) from error


def rename(home: Home, old: str, new: str) -> None:
    """Rename an env: write its scripts again and keep everything else, user files included.

    If this is interrupted after the folder has moved, `repair` of the new name completes it.
    """
    source, target = prefix_of(home, old), prefix_of(home, new)
    source.require_complete()
    # Only on Windows: there `sd` and `SD` are one folder.
    respelled = source.path == target.path and source.name != new
    locks = {home.lock("env", name): name for name in (old, new)}
    with ExitStack() as stack:
        stack.enter_context(storage_errors(home.path))
        for path in sorted(locks):  # two that want both never wait for each other
            stack.enter_context(locked(path, waiting=_waiting(locks[path])))
        record = source.record()
        files = source.files(record)
        if not respelled:
            require_free(target)
            if target.path.exists():
                target.wipe()
        move_unused(source.path, home.envs / new)
        _write_record(prefix_of(home, new), record, files)


def repair(home: Home, name: str, context: Context) -> tuple[Difference, ...]:
    """Restore every file of the record, and report what differed. Other files stay.

    A file that shares its data with the store or another env is never written to: it is removed, and a new
    one takes its place. The scripts are always written again, so that an env that was moved, by its name or
    with its whole home, works at its new place.
    """
    prefix = prefix_of(home, name)
    prefix.require_complete()
    with ExitStack() as stack:
        stack.enter_context(storage_errors(home.path))
        stack.enter_context(locked(home.in_use, shared=True, waiting="waiting for `rocenv gc` to end"))
        stack.enter_context(locked(home.lock("env", name), waiting=_waiting(name)))
        record = prefix.record_wherever_made()
        files = prefix.files(record)
        found = differences(prefix, files)
        if found:
            files = _restore(prefix, record, frozenset(each.path for each in found), context)
        _write_record(prefix, record, files)
        left = differences(prefix, prefix.files(prefix.record())) if found else ()
        if left:
            raise PrefixError(
                f"env `{name}` could not be repaired: `{left[0].path}` is still {left[0].what}",
                hints=prefix.made_anew,
                code="repair-failed",
            )
    return found


def _restore(prefix: Prefix, record: Record, paths: frozenset[str], context: Context) -> dict[str, FileEntry]:
    """Restore files: those of the store, then the venv's, then the shims on top of both; list all files.

    The venv's launchers and lists are those that uv writes now, which may be a newer version.
    """
    _drop_damaged(record, paths, context)
    wheels = ensure_available(_needed(record.lock, paths), context)
    for path in paths:
        _clear(prefix.path, path)
    folders: set[Path] = set()
    for path, origin in tree_files(record.lock, context.home).items():
        if path in paths:
            place_file(origin.path(context.home), prefix.path / path, origin.entry, folders)
    files = base_files(record.lock, prefix.files(record))
    for component in record.lock.components:
        if component.is_wheels and _concerns(component, paths):
            # Shims that replace torch's own files are not what the wheel says of those.
            undo_shims(prefix, record.lock)
            files = _with_venv(
                files, f"{component.into}/", install_venv(prefix.path, component, wheels, context)
            )
    return files | apply_shims(prefix, record.lock, files, in_torch=record.shims_in_torch)


def _needed(lock: Lock, paths: frozenset[str]) -> Lock:
    """Drop the wheels from a lock where no file of the venv differs: they may be gone."""
    kept = (part for part in lock.components if not part.is_wheels or _concerns(part, paths))
    return replace(lock, components=tuple(kept))


def _concerns(wheels: Component, paths: frozenset[str]) -> bool:
    """Tell whether a path is one of a venv, or one that was moved out of it."""
    return any(path.startswith((f"{wheels.into}/", ORIGINALS)) for path in paths)


def _with_venv(
    files: Mapping[str, FileEntry], folder: str, venv: Mapping[str, FileEntry]
) -> dict[str, FileEntry]:
    """Update the files of an env by those of its venv as it is now; what the user added stays out.

    A file that is gone now is none of a wheel's, all of which were checked: it was the other tool's own.
    """
    kept = {path: entry for path, entry in files.items() if not path.startswith(folder) or path in venv}
    return {path: venv.get(path, entry) for path, entry in kept.items()}


def _clear(root: Path, path: str) -> None:
    """Remove what is at `path` or in the place of one of its folders, but nothing behind a link."""
    for above in reversed(PurePosixPath(path).parents[:-1]):
        if (root / above).is_symlink() or not (root / above).is_dir():
            remove_path(root / above)
    remove_path(root / path)


def _drop_damaged(record: Record, paths: frozenset[str], context: Context) -> None:
    """Discard artifacts of the store whose own copy of a file has changed, so that they are fetched again.

    A file of an env and of the store are one: root, or a tool that changes modes, reaches both at once.
    """
    held = tuple(
        replace(part, artifacts=tuple(each for each in part.artifacts if store.holds(context.home, each)))
        for part in record.lock.components
    )
    for path, origin in tree_files(replace(record.lock, components=held), context.home).items():
        if path not in paths or _is_as(origin.path(context.home), origin.entry):
            continue
        if origin.artifact.kind != "folder":
            store.discard(context.home, origin.artifact)
        elif store.holds(context.home, origin.artifact):
            restore_folder(origin.artifact, context.home)


def _is_as(path: Path, entry: FileEntry) -> bool:
    try:
        found = file_entry(path)
    except OSError:
        return False
    return _same(found, entry)


def _write_record(prefix: Prefix, record: Record, files: Mapping[str, FileEntry]) -> None:
    """Write rocenv's own files for the prefix's present place, and the record that goes with them."""
    own = write_own_files(prefix, record.lock, record.loader, files, in_torch=record.shims_in_torch)
    kept = {**files, **own}
    prefix.write_record(replace(record, name=prefix.name, files_sha256=files_sha256(kept)), kept)


def move_shims(home: Home, name: str, *, in_torch: bool) -> bool:
    """Put the shims of an env into its torch, or restore torch's own files; tell if anything changed.

    If this is interrupted, `repair` puts back what the env was before.

    Raises:
        PrefixError: The env has no shims, or torch's own files are not what they were.
    """
    prefix = prefix_of(home, name)
    prefix.require_complete()
    with storage_errors(home.path), locked(home.lock("env", name), waiting=_waiting(name)):
        record = prefix.record()
        if not shims_of(record.lock, in_torch=True):
            raise PrefixError(f"env `{name}` has no ZLUDA, so there are no shims", code="no-shims")
        if record.shims_in_torch == in_torch:
            return False
        listed = prefix.files(record)
        base = base_files(record.lock, listed)
        _require_whole_shims(prefix, record, listed)
        if record.shims_in_torch:
            undo_shims(prefix, record.lock)
        made = apply_shims(prefix, record.lock, base, in_torch=in_torch)
        for path in listed.keys() - base.keys() - made.keys():
            remove_path(prefix.path / path)
        _write_record(prefix, replace(record, shims_in_torch=in_torch), base | made)
    return True


def _require_whole_shims(prefix: Prefix, record: Record, files: Mapping[str, FileEntry]) -> None:
    """Raise PrefixError unless all shims, and all files that they stand for, are as the record says."""
    concerned = set()
    for in_torch in (False, True):
        for shim in shims_of(record.lock, in_torch=in_torch):
            concerned |= {shim.path, shim.source, shim.original}
    found = differences(prefix, {path: files[path] for path in concerned if path in files})
    if found:
        raise PrefixError(
            f"`{found[0].path}` of env `{prefix.name}` is {found[0].what}: its shims cannot be moved",
            hints=(f"rocenv repair {shell_join(prefix.name)}",),
            code="shim-changed",
        )


def _waiting(name: str) -> str:
    return f"waiting for another rocenv that works on env `{name}`"

"""Change an existing env: remove it, rename it, repair it, or move its shims.

A change writes the record last. Until then, the old record is valid, so `repair` undoes an interrupted
change; a renamed folder is treated as if the user had moved it. `remove` deletes the record first, so an
interrupted removal leaves an incomplete env.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import PrefixError
from rocenv.install.build import env_locked, require_free
from rocenv.install.fetch import ensure_available
from rocenv.install.origins import tree_files
from rocenv.install.place import complete, place_files
from rocenv.install.shims import apply_shims, base_files, undo_shims
from rocenv.install.venv import install_venv
from rocenv.integrity import differences
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.preload import ORIGINALS, preload, shims_of
from rocenv.system import WINDOWS
from rocenv.system.files import in_use, move_unused, remove_path, require_unused, set_aside
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import FileEntry, Record
    from rocenv.home import Home
    from rocenv.prefix import Prefix


def remove(home: Home, name: str) -> None:
    """Remove an env, complete or not, and the leftovers from interrupted removals; do not follow links.

    Raises:
        PrefixError: The env does not exist, the folder was not created by rocenv, or one of its programs is
          running.
    """
    _to_remove(home, name)
    with env_locked(home, name):
        for prefix in _to_remove(home, name):  # check again after waiting for the lock
            if not (set_aside(prefix.path.name) or prefix.is_link):
                require_unused(prefix.path)
                _remove_what_runs(prefix)
            prefix.wipe()


def _to_remove(home: Home, name: str) -> list[Prefix]:
    """List an env's existing folders: its prefix and the leftovers from interrupted removals.

    Raises:
        PrefixError: There are no such folders, or rocenv did not create the prefix.
    """
    prefix = prefix_of(home, name)
    found = [each for each in all_prefixes(home) if each.name == prefix.name]
    if not found or prefix.state == "foreign":
        prefix.require_complete()
    return found


def _remove_what_runs(prefix: Prefix) -> None:
    """First remove the files that programs may have open, to fail early if a program is running.

    On some systems, a loaded library cannot be removed, but its folder can be renamed.
    """
    if not WINDOWS or prefix.state != "complete":
        return
    record = prefix.record_wherever_made()
    loaded = preload(record.lock, prefix.files(record), in_torch=record.shims_in_torch)
    first = [prefix.path / path for path in (record.lock.python, *loaded)]
    try:
        for path in first:
            remove_path(path)
    except PermissionError as error:
        raise in_use(prefix.path, first) from error


def rename(home: Home, old: str, new: str) -> None:
    """Rename an env: rewrite its scripts, and keep everything else, including user files."""
    source, target = prefix_of(home, old), prefix_of(home, new)
    source.require_complete()
    if source.is_link:
        raise PrefixError(
            f"`{source.path}` is a link to `{source.path.resolve()}`, and rocenv does not rename links",
            hints=(
                f"rename it yourself: `{shell_join('mv', str(source.path), str(target.path))}`",
                f"then `rocenv repair {shell_join(new)}`",
            ),
            code="env-link",
        )
    # Only on Windows, where `sd` and `SD` are the same folder.
    respelled = source.path == target.path and source.name != new
    with env_locked(home, old, new):
        source.require_complete()
        if not respelled:
            require_free(target)
            if target.path.exists():
                target.wipe()
        move(source, home, new)


def move(prefix: Prefix, home: Home, name: str) -> None:
    """Rename an env and rewrite its scripts; the caller holds the locks for both names.

    Raises:
        PrefixError: One of the env's programs is running.
    """
    record = prefix.record_wherever_made()
    files = prefix.files(record)
    move_unused(prefix.path, home.envs / name)
    complete(prefix_of(home, name), record, files)


def repair(name: str, context: Context) -> dict[str, str]:
    """Restore every file in the record, and return the problems found: path -> `missing`, `changed`, ...

    Other files are kept. A file that shares its data with the store or another env is never written to; it
    is removed and replaced. Scripts are always rewritten, so an env whose folder or home was moved works in
    its new location.
    """
    prefix = prefix_of(context.home, name)
    prefix.require_complete()
    with env_locked(context.home, name, uses_store=True):
        record = prefix.record_wherever_made()
        prefix.refuse_second_name(record)  # repair would rewrite the other env's scripts
        files = prefix.files(record)
        found = differences(prefix.path, files, context.progress)
        if found:
            files = _restore(prefix, record, files, found, context)
        complete(prefix, record, files)
        left = differences(prefix.path, prefix.files(prefix.record()), context.progress) if found else {}
        if left:
            path, what = next(iter(left.items()))
            raise PrefixError(
                f"cannot repair env `{name}`: `{path}` is still {what}",
                hints=prefix.made_anew,
                code="repair-failed",
            )
    return found


def _restore(
    prefix: Prefix, record: Record, files: Mapping[str, FileEntry], paths: Collection[str], context: Context
) -> dict[str, FileEntry]:
    """Restore files from the store, then the venv, then the shims, and return all of the env's files.

    The venv's launchers and file lists come from the current uv, which may be a newer version.
    """
    lock, home = record.lock, context.home
    wheeled = [part for part in lock.components if part.is_wheels]
    roots = tuple(f"{part.into}/" for part in wheeled)
    packages = tuple(f"{part.layout.site_packages}/" for part in wheeled if part.layout)
    # An undamaged venv does not need its wheels, which may no longer exist.
    venv_differs = any(path.startswith((*roots, ORIGINALS)) for path in paths)
    needed = [part for part in lock.components if not part.is_wheels or venv_differs]
    _, wheels = ensure_available(replace(lock, components=tuple(needed)), context)
    origins = {path: origin for path, origin in tree_files(lock, home).items() if path in paths}
    # Root, or a tool that changes modes, may have modified a file in the env and the store at the same time.
    expected: dict[str, dict[str, FileEntry]] = defaultdict(dict)
    for origin in origins.values():
        expected[origin.artifact.sha256][origin.inner] = origin.entry
    unpacked = tuple(part for part in lock.components if not part.is_wheels)
    ensure_available(replace(lock, components=unpacked), context, expected)
    with context.progress.wait("Restoring files"):
        for path in paths:
            _clear(prefix.path, path)
        place_files(prefix, origins, home)
    kept = base_files(lock, files)
    if wheeled and venv_differs:
        undo_shims(prefix, lock)  # the wheel's RECORD lists torch's own files
        venv = install_venv(prefix.path, wheeled, wheels, context)
        # Omit files that the user added, and files that only another version of uv creates.
        kept = {
            path: venv.get(path, entry)
            for path, entry in kept.items()
            if path in venv or not path.startswith(roots) or _is_of_package(path, packages)
        }
    return kept | apply_shims(prefix, lock, kept, in_torch=record.shims_in_torch)


def _is_of_package(path: str, packages: tuple[str, ...]) -> bool:
    """Whether a file belongs to a Python package, unlike uv's launchers and file lists."""
    below = next((path[len(each) :] for each in packages if path.startswith(each)), "")
    folder, _, name = below.partition("/")
    return bool(name) and not folder.endswith(".dist-info")


def _clear(root: Path, path: str) -> None:
    """Remove `path`, and any parent that is not a folder, without following links."""
    for above in reversed(PurePosixPath(path).parents[:-1]):
        if (root / above).is_symlink() or not (root / above).is_dir():
            remove_path(root / above)
    remove_path(root / path)


def move_shims(home: Home, name: str, *, in_torch: bool) -> bool:
    """Install an env's shims in its torch, or restore torch's files; return whether anything changed.

    Raises:
        PrefixError: The env has no shims, or torch's own files were modified.
    """
    prefix = prefix_of(home, name)
    prefix.require_complete()
    with env_locked(home, name):
        record = prefix.record()
        if not shims_of(record.lock, in_torch=True):
            raise PrefixError(f"env `{name}` has no shims because it does not use ZLUDA", code="no-shims")
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
        complete(prefix, replace(record, shims_in_torch=in_torch), base | made)
    return True


def _require_whole_shims(prefix: Prefix, record: Record, files: Mapping[str, FileEntry]) -> None:
    """Raise PrefixError unless all shims, and all files that they replace, match the record."""
    concerned = set()
    for in_torch in (False, True):
        for shim in shims_of(record.lock, in_torch=in_torch):
            concerned |= {shim.path, shim.source, shim.original}
    found = differences(prefix.path, {path: files[path] for path in concerned if path in files})
    if found:
        path, what = next(iter(found.items()))
        raise PrefixError(
            f"cannot move the shims in env `{prefix.name}`: `{path}` is {what}",
            hints=(f"rocenv repair {shell_join(prefix.name)}",),
            code="shim-changed",
        )

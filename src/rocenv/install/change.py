"""Change an env that exists: remove it, rename it, put its files back as the record has them."""

from __future__ import annotations

import contextlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.errors import PrefixError
from rocenv.install import store
from rocenv.install.build import require_free
from rocenv.install.place import file_entry, place_file, write_own_files
from rocenv.install.prefix import files_sha256, prefix_of
from rocenv.install.provide import provide, python_tools
from rocenv.lockfile import artifacts_of
from rocenv.system.files import remove_path, remove_tree, storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from rocenv.home import Home
    from rocenv.install.prefix import Prefix
    from rocenv.install.provide import Workshop
    from rocenv.model import Component, FileEntry, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One file of the record that is not there as the record has it."""

    path: str  # below the prefix
    what: str  # `missing`, `changed`, `unreadable: ...`


def differences(
    prefix: Prefix, files: Mapping[str, FileEntry], advance: Callable[[int], None] = lambda _size: None
) -> tuple[Difference, ...]:
    """Return how the files of a prefix differ from the list, sorted by path; files beside it do not count.

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
    """Return the folders of the files, below `root`, that are reached through no link; `""` is the root."""
    real = {""}
    wanted = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    for folder in sorted(wanted - {"."}):  # a folder comes before those in it
        with contextlib.suppress(OSError):
            if folder.rpartition("/")[0] in real and stat.S_ISDIR((root / folder).lstat().st_mode):
                real.add(folder)
    return frozenset(real)


def remove(home: Home, name: str) -> None:
    """Remove an env, complete or not.

    Raises:
        PrefixError: There is none, or the folder there is not rocenv's.
    """
    prefix = prefix_of(home, name)
    _require_own(prefix)
    with storage_errors(home.path), locked(home.lock("env", name), waiting=_waiting(name)):
        _require_own(prefix)  # still, after the waiting
        prefix.wipe()


def _require_own(prefix: Prefix) -> None:
    if prefix.state in ("absent", "foreign"):
        prefix.require_complete()


def rename(home: Home, old: str, new: str) -> None:
    """Give an env another name; its scripts are written anew, everything else stays, user files included.

    If this is interrupted after the folder has moved, `repair` of the new name completes it.
    """
    source, target = prefix_of(home, old), prefix_of(home, new)
    source.require_complete()
    first, second = sorted((old, new))
    with ExitStack() as stack:
        stack.enter_context(storage_errors(home.path))
        stack.enter_context(locked(home.lock("env", first), waiting=_waiting(first)))
        if first != second:
            stack.enter_context(locked(home.lock("env", second), waiting=_waiting(second)))
        record = source.record()
        files = source.files(record)
        require_free(target)
        if target.path.exists():
            target.wipe()
        source.path.rename(target.path)
        _write_record(target, record, files)


def repair(home: Home, name: str, work: Workshop) -> tuple[Difference, ...]:
    """Put every file of the record back as it was, and return what differed. Files beside it stay.

    A file that shares its data with the store or another env is never written to: it is taken away, and a
    new one put in its place. The scripts are written anew in any case, so that an env that was moved, by
    its name or with all of its home, works at its new place.
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
            _restore(prefix, record, frozenset(each.path for each in found), work)
        _write_record(prefix, record, files)
        left = differences(prefix, prefix.files(prefix.record())) if found else ()
        if left:
            raise PrefixError(
                f"env `{name}` could not be repaired: `{left[0].path}` is still {left[0].what}",
                hints=prefix.made_anew,
                code="repair-failed",
            )
    return found


def _restore(prefix: Prefix, record: Record, paths: frozenset[str], work: Workshop) -> None:
    _drop_damaged_packages(record, paths, work)
    wheels = provide(record.lock, work)
    for path in paths:
        _clear(prefix.path, path)
    folders: set[Path] = set()
    for component in record.lock.components:
        if component.kind == "torch":
            if any(path.startswith("venv/") for path in paths):
                _reinstall(prefix, component, wheels, work)
            continue
        for artifact in component.artifacts:
            source = store.tree_of(work.home, artifact)
            for inner, entry in store.manifest_of(work.home, artifact).items():
                if f"rocm/{inner}" in paths:
                    place_file(source / inner, prefix.rocm / inner, entry, folders)


def _clear(root: Path, path: str) -> None:
    """Take away what lies at `path` or in the place of one of its folders, but nothing behind a link."""
    for above in reversed(PurePosixPath(path).parents[:-1]):
        if (root / above).is_symlink() or not (root / above).is_dir():
            remove_path(root / above)
    remove_path(root / path)


def _drop_damaged_packages(record: Record, paths: frozenset[str], work: Workshop) -> None:
    """Take packages out of the store whose own copy of a file is not what it was, so that they come anew.

    A file of an env and of the store are one: root, or a tool that changes modes, reaches both at once.
    """
    for artifact in artifacts_of(record.lock):
        if artifact.kind != "deb" or not store.holds(work.home, artifact):
            continue
        tree = store.tree_of(work.home, artifact)
        for inner, entry in store.manifest_of(work.home, artifact).items():
            if f"rocm/{inner}" in paths and not _is_as(tree / inner, entry):
                store.discard(work.home, artifact)
                break


def _is_as(path: Path, entry: FileEntry) -> bool:
    try:
        found = file_entry(path)
    except OSError:
        return False
    return _same(found, entry)


def _reinstall(prefix: Prefix, component: Component, wheels: Mapping[str, Path], work: Workshop) -> None:
    from rocenv.install.venv import create_venv, install_wheels

    uv, python = python_tools(component, work)
    if not (prefix.venv / "pyvenv.cfg").exists():
        remove_tree(prefix.venv)
        create_venv(prefix.venv, python, uv)
    install_wheels(prefix.venv, component.artifacts, files=wheels, python=python, uv=uv)


def _write_record(prefix: Prefix, record: Record, files: Mapping[str, FileEntry]) -> None:
    """Write rocenv's own files for where the prefix lies now, and the record that goes with them."""
    own = write_own_files(prefix, record.lock, record.loader)
    kept = {**files, **own}
    prefix.write_record(replace(record, name=prefix.name, files_sha256=files_sha256(kept)), kept)


def _waiting(name: str) -> str:
    return f"waiting for another rocenv that works on env `{name}`"

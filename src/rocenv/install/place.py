"""Put the parts of a set into a prefix, and say what lies there then."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from rocenv.activate.starters import write_wrappers
from rocenv.activate.write import write_activation
from rocenv.core.errors import PrefixError
from rocenv.core.lock import lock_text
from rocenv.core.model import FileEntry
from rocenv.install.library_pack import require_fitting_packs
from rocenv.install.origins import tree_files
from rocenv.install.path_length import require_short_names
from rocenv.install.prefix import library_folders
from rocenv.install.programs import write_programs
from rocenv.install.shims import apply_shims
from rocenv.install.startup import write_startup
from rocenv.install.tools import python_tools
from rocenv.system import WINDOWS
from rocenv.system.files import clone_file, sha256_of, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Component, Lock
    from rocenv.install.prefix import Prefix


def place_all(
    prefix: Prefix, lock: Lock, wheels: Mapping[str, Path], context: Context
) -> dict[str, FileEntry]:
    """Put every component of a lock into a prefix that holds nothing yet; return its files."""
    origins = tree_files(lock, context.home)
    for text in require_fitting_packs(lock, origins, context.home):
        context.progress.note(text)
    require_short_names(prefix.path, origins)
    folders: set[Path] = set()
    ways = [
        place_file(origin.path(context.home), prefix.path / path, origin.entry, folders)
        for path, origin in origins.items()
    ]
    if copies := ways.count("copy"):
        context.progress.note(
            f"{copies} files were copied, since `{prefix.path.parent}` takes no hard links (a folder that a "
            "cloud synchronises, or another kind of disk): each env there takes its full size"
        )
    files = {path: origin.entry for path, origin in origins.items()}
    for component in lock.components:
        if component.is_wheels:
            files |= _install_venv(prefix, component, wheels, context)
    return files | apply_shims(prefix, lock, files)


def place_file(source: Path, destination: Path, entry: FileEntry, folders: set[Path]) -> str:
    """Make one file or link of a prefix; `folders` are those known to exist, and grows.

    Returns the way, as `clone_file` does; `link` for a symbolic one.
    """
    if destination.parent not in folders:
        destination.parent.mkdir(parents=True, exist_ok=True)
        folders.add(destination.parent)
    if entry.link:
        destination.symlink_to(entry.link)
        return "link"
    return clone_file(source, destination)


def _install_venv(
    prefix: Prefix, component: Component, wheels: Mapping[str, Path], context: Context
) -> dict[str, FileEntry]:
    from rocenv.install.venv import create_venv, install_wheels

    uv, python = python_tools(component, context)
    venv = prefix.path / component.into
    create_venv(venv, python, uv)
    entries = install_wheels(venv, component.artifacts, files=wheels, python=python, uv=uv)
    return {f"{component.into}/{name}": entry for name, entry in entries.items()}


def own_loader(lock: Lock, files: Mapping[str, FileEntry]) -> str:
    """Return the path of the program loader that the set brought along, "" if it brought none."""
    for component in lock.components:
        if component.loader and component.layout is not None:
            for folder in component.layout.library_dirs:
                path = f"{folder}/{component.loader}"
                if path in files:
                    return path
            raise PrefixError(
                f"the set brings a C library, but no `{component.loader}`", code="set-incomplete"
            )
    return ""


def write_own_files(
    prefix: Prefix, lock: Lock, loader: str, files: Collection[str], *, in_torch: bool = False
) -> dict[str, FileEntry]:
    """Write what rocenv itself puts into a prefix: lock, activation scripts, wrappers, start-up; return them.

    Args:
        prefix: The env.
        lock: Its set.
        loader: See `Record`.
        files: What else it consists of.
        in_torch: See `Record.shims_in_torch`.
    """
    (prefix.path / "cache").mkdir(exist_ok=True)
    prefix.bin.mkdir(exist_ok=True)
    write_atomic(prefix.lock_file, lock_text(lock).encode())
    written = [
        prefix.lock_file,
        *write_activation(prefix.path, prefix.name, lock.environment, lock.watched, lock.platform),
    ]
    written += write_startup(prefix, lock, files, in_torch=in_torch)
    if loader:
        written += write_wrappers(
            prefix.bin, loader=prefix.path / loader, library_dirs=library_folders(prefix, lock)
        )
    written += write_programs(prefix, lock, loader, files)
    return {path.relative_to(prefix.path).as_posix(): file_entry(path) for path in written}


def file_entry(path: Path) -> FileEntry:
    """Return what lies at `path` now, a link not followed.

    Raises:
        FileNotFoundError: Nothing does.
        OSError: It cannot be read, or is neither a file nor a link.
    """
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return FileEntry(link=os.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))
    # Windows has no such bit: Python makes one up from a file's name.
    executable = bool(info.st_mode & stat.S_IXUSR) and not WINDOWS
    return FileEntry(sha256=sha256_of(path), size_bytes=info.st_size, executable=executable)

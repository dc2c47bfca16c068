"""Put the parts of a set into a prefix, and say what lies there then."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.activate.scripts import write_activation
from rocenv.activate.wrapper import write_wrappers
from rocenv.errors import PrefixError
from rocenv.install import store
from rocenv.install.prefix import library_folders
from rocenv.install.provide import python_tools
from rocenv.lockfile import lock_text
from rocenv.model import FileEntry
from rocenv.system.files import clone_file, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.home import Home
    from rocenv.install.prefix import Prefix
    from rocenv.install.provide import Workshop
    from rocenv.model import Artifact, Component, Lock


def place_all(prefix: Prefix, lock: Lock, wheels: Mapping[str, Path], work: Workshop) -> dict[str, FileEntry]:
    """Put every component of a lock into a prefix that holds nothing yet; return its files."""
    files: dict[str, FileEntry] = {}
    for component in lock.components:
        if component.kind == "rocm":
            files |= link_packages(prefix.rocm, component, work.home)
        else:
            files |= _install_venv(prefix, component, wheels, work)
    return files


def link_packages(tree: Path, component: Component, home: Home) -> dict[str, FileEntry]:
    """Put a component's packages together in `tree`, and return its files by their path below the prefix.

    Raises:
        PrefixError: Two packages hold different files under one path, or what is a folder in one is none in
            the other.
    """
    placed: dict[str, FileEntry] = {}
    owners: dict[str, str] = {}
    within: set[str] = set()  # the folders of what was placed
    folders: set[Path] = set()
    for artifact in component.artifacts:
        source = store.tree_of(home, artifact)
        for name, entry in store.manifest_of(home, artifact).items():
            if name in placed:
                if placed[name] != entry:
                    raise PrefixError(
                        f"packages {owners[name]} and {artifact.name} hold different files `{name}`",
                        code="package-conflict",
                    )
                continue
            _require_folders(name, placed, within, artifact)
            place_file(source / name, tree / name, entry, folders)
            placed[name] = entry
            owners[name] = artifact.name
    return {f"{tree.name}/{name}": entry for name, entry in placed.items()}


def _require_folders(
    name: str, placed: Mapping[str, FileEntry], within: set[str], artifact: Artifact
) -> None:
    """Raise PrefixError where a folder of one package is no folder in another; `within` grows."""
    folder = name.rpartition("/")[0]
    if folder in within and name not in within:
        return
    above = [str(folder) for folder in PurePosixPath(name).parents][:-1]
    wrong = name if name in within else next((folder for folder in above if folder in placed), "")
    if wrong:
        raise PrefixError(
            f"package {artifact.name} and another one do not agree whether `{wrong}` is a folder",
            code="package-conflict",
        )
    within.update(above)


def place_file(source: Path, destination: Path, entry: FileEntry, folders: set[Path]) -> None:
    """Make one file or link of a prefix; `folders` are those known to exist, and grows."""
    if destination.parent not in folders:
        destination.parent.mkdir(parents=True, exist_ok=True)
        folders.add(destination.parent)
    if entry.link:
        destination.symlink_to(entry.link)
    else:
        clone_file(source, destination)


def _install_venv(
    prefix: Prefix, component: Component, wheels: Mapping[str, Path], work: Workshop
) -> dict[str, FileEntry]:
    from rocenv.install.venv import create_venv, install_wheels

    uv, python = python_tools(component, work)
    create_venv(prefix.venv, python, uv)
    entries = install_wheels(prefix.venv, component.artifacts, files=wheels, python=python, uv=uv)
    return {f"venv/{name}": entry for name, entry in entries.items()}


def own_loader(lock: Lock, files: Mapping[str, FileEntry]) -> str:
    """Return the path of the program loader that the set brought along, "" if it brought none."""
    for component in lock.components:
        if component.loader and component.layout is not None:
            for folder in component.layout.library_dirs:
                path = f"rocm/{folder}/{component.loader}"
                if path in files:
                    return path
            raise PrefixError(
                f"the set brings a C library, but no `{component.loader}`", code="set-incomplete"
            )
    return ""


def write_own_files(prefix: Prefix, lock: Lock, loader: str) -> dict[str, FileEntry]:
    """Write what rocenv itself puts into a prefix: lock, activation scripts, wrappers; return them."""
    (prefix.path / "cache").mkdir(exist_ok=True)
    prefix.bin.mkdir(exist_ok=True)
    write_atomic(prefix.lock_file, lock_text(lock).encode())
    written = [prefix.lock_file, *write_activation(prefix.path, prefix.name, lock.environment, lock.watched)]
    if loader:
        written += write_wrappers(
            prefix.bin, loader=prefix.path / loader, library_dirs=library_folders(prefix, lock)
        )
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
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
    return FileEntry(
        sha256=digest.hexdigest(), size_bytes=info.st_size, executable=bool(info.st_mode & stat.S_IXUSR)
    )

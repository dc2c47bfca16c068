"""Install a set's components into a prefix, and write rocenv's own files."""

from __future__ import annotations

import fnmatch
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.activate.bin_scripts import write_start_scripts, write_wrappers
from rocenv.activate.scripts import write_activation
from rocenv.core.errors import PrefixError
from rocenv.core.lock import lock_text
from rocenv.install.origins import require_fitting_packs, tree_files
from rocenv.install.path_length import require_short_names
from rocenv.install.shims import apply_shims, write_startup
from rocenv.install.venv import install_venv
from rocenv.integrity import file_entry
from rocenv.prefix import library_folders
from rocenv.system.files import clone_file, remove_path, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import FileEntry, Layout, Lock, Record
    from rocenv.home import Home
    from rocenv.install.origins import Origin
    from rocenv.prefix import Prefix


CONSTRAINTS = "rocenv-keeps-rocm-torch.txt"  # self-explanatory for users who look at PIP_CONSTRAINT


def place_all(
    prefix: Prefix, lock: Lock, wheels: Mapping[str, Path], context: Context
) -> dict[str, FileEntry]:
    """Install every component of a lock into an empty prefix, and return its files."""
    origins = tree_files(lock, context.home)
    for text in require_fitting_packs(lock, origins, context.home):
        context.progress.note(text)
    require_short_names(prefix.path, origins)
    with context.progress.wait("Linking files"):
        copies = place_files(prefix, origins, context.home)
    if copies:
        context.progress.note(
            f"copied {copies} files because `{prefix.path.parent}` does not support hard links to them (it "
            "is a cloud folder or on another filesystem, or another user owns the files). Each env there is "
            "a full copy"
        )
    files = {path: origin.entry for path, origin in origins.items()}
    if parts := [component for component in lock.components if component.is_wheels]:
        files |= install_venv(prefix.path, parts, wheels, context)
    return files | apply_shims(prefix, lock, files)


def place_files(prefix: Prefix, origins: Mapping[str, Origin], home: Home) -> int:
    """Create the files and links of a prefix, and return the number of files that had to be copied."""
    folders: set[Path] = set()
    copies = 0
    for path, origin in origins.items():
        place = prefix.path / path
        if place.parent not in folders:
            place.parent.mkdir(parents=True, exist_ok=True)
            folders.add(place.parent)
        if origin.entry.link:
            place.symlink_to(origin.entry.link)
        else:
            copies += clone_file(origin.path(home), place) == "copy"
    return copies


def own_loader(lock: Lock, files: Mapping[str, FileEntry]) -> str:
    """Return the path of the set's own dynamic loader, relative to the prefix, or "" if it has none."""
    for component in lock.components:
        if component.loader and component.layout is not None:
            for folder in component.layout.library_dirs:
                path = f"{folder}/{component.loader}"
                if path in files:
                    return path
            raise PrefixError(
                f"the set includes a C library but no `{component.loader}`", code="set-incomplete"
            )
    return ""


def complete(prefix: Prefix, record: Record, files: Mapping[str, FileEntry]) -> Record:
    """Write rocenv's own files, which contain the prefix's path, then the record, which lists all files."""
    lock = record.lock
    (prefix.path / "cache").mkdir(exist_ok=True)
    prefix.bin.mkdir(exist_ok=True)
    write_atomic(prefix.lock_file, lock_text(lock).encode())
    written = [
        prefix.lock_file,
        *_write_constraints(prefix, lock),
        *write_activation(prefix.path, prefix.name, lock.environment, lock.watched, lock.platform),
        *write_startup(prefix, record, files),
    ]
    if record.loader:
        written += write_wrappers(
            prefix.bin, loader=prefix.path / record.loader, library_dirs=library_folders(prefix, lock)
        )
    written += _write_programs(prefix, record, files)
    own = {path.relative_to(prefix.path).as_posix(): file_entry(path) for path in written}
    return prefix.write_record(record, {**files, **own})


def _write_constraints(prefix: Prefix, lock: Lock) -> list[Path]:
    """Write the env's constraints, if any, which keep pip and uv from replacing its ROCm wheels.

    These wheels have local versions such as `+rocm10.0.0`, which no other index offers. triton is listed
    even if it has none.
    """
    place = prefix.path / CONSTRAINTS
    if not any(change.value.endswith(f"/{CONSTRAINTS}") for change in lock.environment):
        return []
    wheels = ((part, each) for part in lock.components if part.is_wheels for each in part.artifacts)
    kept = [
        f"{each.name}=={each.version}\n"
        for part, each in wheels
        if part.kind == "rocm" or "+" in each.version or "triton" in each.name
    ]
    head = "# Keeps pip and uv from replacing these builds; `rocenv create --no-guard` omits this file.\n"
    write_atomic(place, (head + "".join(sorted(kept))).encode())
    return [place]


# ---------------------------------------------------------------- programs of a set


def _write_programs(prefix: Prefix, record: Record, files: Collection[str]) -> list[Path]:
    """Write the start scripts and links for a set's programs, and return their paths.

    Raises:
        PrefixError: The set lacks a program, has two with the same name, or has a file where a link belongs.
        DataError: A program has an invalid name.
    """
    parts = [
        (part.layout, prefix.path / part.into) for part in record.lock.components if part.layout is not None
    ]
    links = [
        _link(prefix, f"{folder}/{PurePosixPath(each).name}", each)
        for layout, _ in parts
        for folder, pattern in layout.links.items()
        for each in _matching(pattern, files)
    ]
    links += [
        _link(prefix, name, path)
        for layout, _ in parts
        for name, path in layout.names.items()
        if path in files and (os.path.islink(prefix.path / name) or not os.path.exists(prefix.path / name))
    ]
    scripts: list[Path] = []
    for layout, tree in parts:
        for script in _start_scripts(prefix, record, layout, tree, files):
            if script in scripts:
                raise PrefixError(
                    f"two programs in the set have the same name: `{script.name}`", code="package-conflict"
                )
            scripts.append(script)
    return [*links, *scripts]


def _start_scripts(
    prefix: Prefix, record: Record, layout: Layout, tree: Path, files: Collection[str]
) -> Iterator[Path]:
    for program in layout.programs:
        matching = _matching(program.path, files)
        found = [each for each in matching if _is_startable(prefix.path / each)]
        if not found:
            other = f": `{matching[0]}` is not executable" if matching else ""
            raise PrefixError(
                f"the set's packages do not contain the program `{program.path}`{other}",
                hints=("the channel has changed; upgrade rocenv, or use a different channel",),
                code="set-incomplete",
            )
        for path in found:
            yield from write_start_scripts(
                prefix.bin,
                program,
                prefix.path / path,
                tree=tree,
                loader=prefix.path / record.loader if record.loader else None,
                library_dirs=library_folders(prefix, record.lock),
            )


def _is_startable(path: Path) -> bool:
    """Whether a program is an executable file rather than a dangling link."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _matching(pattern: str, files: Collection[str]) -> list[str]:
    """List the files in the pattern's folder whose names match."""
    folder, _, name = pattern.rpartition("/")
    split = (path.rpartition("/") for path in files)
    return sorted(
        f"{folder}/{each}" for place, _, each in split if place == folder and fnmatch.fnmatchcase(each, name)
    )


def _link(prefix: Prefix, name: str, path: str) -> Path:
    """Create a link to one of the set's files, unless it already exists."""
    place = prefix.path / name
    folder = PurePosixPath(name).parent
    target = os.path.relpath(prefix.path / path, place.parent)
    if place.is_symlink() and os.readlink(place) == target:
        return place
    if place.exists() and not place.is_symlink():
        raise PrefixError(
            f"a package contains the file `{folder}/{place.name}`, where rocenv needs a link",
            code="package-conflict",
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise PrefixError(
            f"`{folder}` or one of its parents is a file in a package, but rocenv needs a folder for links",
            code="package-conflict",
        ) from error
    remove_path(place)
    place.symlink_to(target)
    return place

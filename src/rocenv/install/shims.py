"""Install ZLUDA in an env: shims that replace CUDA's files, and startup code for the venv's Python.

Removing the shims restores the original files.
"""

from __future__ import annotations

import json
import os
from importlib.resources import files as package_files
from typing import TYPE_CHECKING

from rocenv.core.codec import to_plain
from rocenv.core.errors import PrefixError
from rocenv.core.model import KEPT_ORIGINAL
from rocenv.preload import folders_of, preload, shims_of, zluda_of
from rocenv.system.files import clone_file, remove_path, sha256_of, write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from rocenv.core.model import FileEntry, Lock, Record
    from rocenv.prefix import Prefix

_STARTUP = "rocenv_zluda"


def apply_shims(
    prefix: Prefix, lock: Lock, files: Mapping[str, FileEntry], *, in_torch: bool = False
) -> dict[str, FileEntry]:
    """Create a set's shims once its other files exist; return them and the originals moved aside.

    Existing shims are replaced. A shim is a hard link to its source file, or a reflink, so it takes no
    extra space. `files` lists the env's files without shims. With `in_torch`, shims replace torch's own
    files, which are moved aside.

    Raises:
        PrefixError: The set lacks the source of a shim or the file that it replaces, or a file that should
          be torch's own is ZLUDA's.
    """
    made: dict[str, FileEntry] = {}
    build = zluda_of(lock)
    folder = f"{build.into}/" if build is not None else ""
    builds = {entry.sha256 for path, entry in files.items() if folder and path.startswith(folder)}
    shims = shims_of(lock, in_torch=in_torch)
    for shim in shims:
        if shim.original:
            made[shim.original] = _listed(prefix, shim.path, files)
            if made[shim.original].sha256 in builds:
                raise _calls_itself(prefix, shim.path)
            _keep(prefix, shim.path, shim.original, made[shim.original])
    for shim in shims:
        entry = made[shim.path] = made.get(shim.source) or _listed(prefix, shim.source, files)
        (prefix.path / shim.path).parent.mkdir(parents=True, exist_ok=True)
        remove_path(prefix.path / shim.path)
        clone_file(prefix.path / shim.source, prefix.path / shim.path)
        if shim.path.endswith(f"/{KEPT_ORIGINAL}") and entry.sha256 in builds:
            raise _calls_itself(prefix, shim.path)
    return made


def undo_shims(prefix: Prefix, lock: Lock) -> None:
    """Move torch's original files back into place."""
    for shim in shims_of(lock, in_torch=True):
        if shim.original and (prefix.path / shim.original).exists():
            remove_path(prefix.path / shim.path)
            os.replace(prefix.path / shim.original, prefix.path / shim.path)


def _keep(prefix: Prefix, path: str, original: str, entry: FileEntry) -> None:
    """Move torch's original file aside, unless that has already been done."""
    kept = prefix.path / original
    kept.parent.mkdir(parents=True, exist_ok=True)
    if _is(kept, entry):
        return
    if not _is(prefix.path / path, entry):
        raise PrefixError(
            f"`{path}` in env `{prefix.name}` is not the original torch file, so rocenv will not replace it",
            hints=(f"rocenv repair {shell_join(prefix.name)}",),
            code="shim-original",
        )
    remove_path(kept)
    os.replace(prefix.path / path, kept)


def base_files(lock: Lock, files: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Return the list of an env's files without shims, given the list that includes them."""
    base = dict(files)
    for in_torch in (False, True):
        for shim in shims_of(lock, in_torch=in_torch):
            if not in_torch:
                base.pop(shim.path, None)
            elif shim.original in base:
                base[shim.path] = base.pop(shim.original)
    return base


def _listed(prefix: Prefix, path: str, files: Mapping[str, FileEntry]) -> FileEntry:
    if path not in files:
        raise PrefixError(
            f"env `{prefix.name}` cannot use its shims: no component contains `{path}`",
            hints=("a different build may contain it: `rocenv matrix --zluda '*'`",),
            code="shim-missing",
        )
    return files[path]


def _calls_itself(prefix: Prefix, path: str) -> PrefixError:
    return PrefixError(
        f"the backup of `{path}` in env `{prefix.name}` should be torch's, but it is ZLUDA's, so ZLUDA "
        "would call itself",
        hints=(f"restore torch's files: `rocenv repair {shell_join(prefix.name)}`",),
        code="shim-original",
    )


def _is(path: Path, entry: FileEntry) -> bool:
    return path.is_file() and sha256_of(path) == entry.sha256


def write_startup(prefix: Prefix, record: Record, files: Collection[str]) -> tuple[Path, ...]:
    """Add code to the venv that loads ZLUDA before torch, if the set has both, and return the paths.

    The files do not contain the path of the prefix, so they stay valid if it is moved.
    """
    lock = record.lock
    build, torch = zluda_of(lock), lock.part("torch")
    if build is None or build.shims is None or torch is None or torch.layout is None:
        return ()
    settings = {
        "folders": folders_of(lock),
        "load": preload(lock, files, in_torch=record.shims_in_torch),
        "environment": [(each.action, each.name, each.value) for each in lock.environment],
        "switches": [
            {"name": each.name, "how": each.how, "value": each.value} for each in build.shims.switches
        ],
    }
    script = package_files("rocenv.install").joinpath("venv_start.py").read_bytes()
    contents = {
        f"{_STARTUP}.py": script,
        f"{_STARTUP}.pth": f"import {_STARTUP}\n".encode(),
        f"{_STARTUP}.json": json.dumps(to_plain(settings), indent=1).encode(),
    }
    written = []
    for name, content in contents.items():
        path = prefix.path / torch.layout.site_packages / name
        write_atomic(path, content)
        written.append(path)
    return tuple(written)

"""Find the HIP SDKs on this Windows machine, and identify them by their files, not by their folder names.

AMD's installer sets `HIP_PATH`, `HIP_PATH_57` and so on for all users and installs below Program Files;
users move, rename and patch these folders.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.host.registry import registered
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.rows import Matrix
    from rocenv.data.windows import HipSdk

_VARIABLE = re.compile(r"HIP_PATH(_[0-9]+)?", re.IGNORECASE)
_MACHINE_ENVIRONMENT = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSdk:
    """A folder that contains a HIP SDK."""

    folder: Path
    found_by: str  # "HIP_PATH_57", "Program Files"
    row: HipSdk | None  # its release; None if unknown
    why_not: str = ""  # why it cannot be imported; "" if it can
    missing: tuple[str, ...] = ()  # missing files
    mixed: tuple[str, ...] = ()  # files from a different release


def installed_sdks(matrix: Matrix) -> tuple[InstalledSdk, ...]:
    """List the installed SDKs without duplicates, starting with those in environment variables."""
    found: dict[str, InstalledSdk] = {}
    for folder, found_by in _folders(matrix):
        key = os.path.normcase(os.path.realpath(folder))
        with contextlib.suppress(OSError):  # a missing drive or inaccessible folder
            if key not in found and (folder / "bin").is_dir() and not _is_of_an_env(folder):
                found[key] = examine(folder, found_by, matrix)
    return tuple(found.values())


def examine(folder: Path, found_by: str, matrix: Matrix) -> InstalledSdk:
    """Identify the SDK in a folder by its runtime compiler's file names, which end with the release."""
    names = {entry.name.lower() for entry in (folder / "bin").iterdir()}
    rows = [row for row in matrix.hip_sdk if row.hiprtc and row.hiprtc[0].lower() in names]
    if not rows:
        return InstalledSdk(
            folder=folder, found_by=found_by, row=None, why_not="no file in it identifies its release"
        )
    if len(rows) > 1:
        several = " and ".join(row.version for row in rows)
        return InstalledSdk(
            folder=folder,
            found_by=found_by,
            row=None,
            why_not=f"it mixes files from {several}",
            mixed=tuple(row.hiprtc[0] for row in rows),
        )
    missing = tuple(name for name in rows[0].libraries if name.lower() not in names)
    why_not = f"`{missing[0]}` is missing" if missing else ""
    return InstalledSdk(folder=folder, found_by=found_by, row=rows[0], why_not=why_not, missing=missing)


def _is_of_an_env(folder: Path) -> bool:
    """Whether a folder belongs to a rocenv env, which sets HIP_PATH to it while active."""
    return any((parent / ".rocenv").is_dir() for parent in folder.parents)


def _folders(matrix: Matrix) -> Iterator[tuple[Path, str]]:
    # Shells opened before the installation do not have its variables, but the registry does.
    registry = {name: str(value) for name, value in (registered(_MACHINE_ENVIRONMENT) or {}).items()}
    for name, value in sorted({*os.environ.items(), *registry.items()}):
        if _VARIABLE.fullmatch(name) and value.strip():
            yield Path(os.path.expandvars(value.strip().strip('"'))), name.upper()
    if not WINDOWS:
        return
    for row in matrix.hip_sdk:
        yield _here(row.install_dir), "Program Files"
    parents = dict.fromkeys(_here(row.install_dir).parent for row in matrix.hip_sdk)
    for parent in parents:
        with contextlib.suppress(OSError):
            yield from ((each, "Program Files") for each in sorted(parent.iterdir()))


def _here(install_dir: str) -> Path:
    r"""Return the installer's default folder, which is not always in `C:\Program Files`."""
    usual, own = r"C:\Program Files", os.environ.get("PROGRAMFILES", "")
    if own and install_dir.startswith(usual):
        install_dir = own + install_dir.removeprefix(usual)
    return Path(install_dir)

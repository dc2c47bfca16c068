"""Why Windows refuses to load a library, read from the files: it says only that something is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.system import pe

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = 3


def explain(path: str, folders: Iterable[str], system: Iterable[str]) -> str:
    """Return what a library needs and does not get.

    Args:
        path: The library that does not load.
        folders: Where libraries are looked for, in this order, its own folder included.
        system: Windows' own folders.
    """
    searched = tuple(folder for folder in folders if folder)
    try:
        absent = [str(each) for each in pe.missing(path, searched, system) if not each.delayed]
        found = absent or _unexported(path, searched)
    except pe.NotPe as error:
        return error.message
    if not found:
        return "all that it imports is there, so that what it loads by itself has to be at fault"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _unexported(path: str, folders: tuple[str, ...]) -> list[str]:
    """Return the functions that a library imports from files that do not export them."""
    found = []
    for library, names in _imported_names(path).items():
        file = next(
            (file for folder in folders if os.path.isfile(file := os.path.join(folder, library))), None
        )
        if file is not None:
            lacking = sorted(names - pe.export_names(file))
            found += [f"{os.path.basename(path)} needs `{name}`, which `{file}` lacks" for name in lacking]
    return found


def _imported_names(path: str) -> dict[str, set[str]]:
    import pefile

    with pefile.PE(path, fast_load=True) as file:
        file.parse_data_directories(directories=[pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]])
        return {
            entry.dll.decode("ascii", "replace"): {
                each.name.decode("ascii", "replace") for each in entry.imports if each.name
            }
            for entry in getattr(file, "DIRECTORY_ENTRY_IMPORT", ())
        }

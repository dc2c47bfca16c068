r"""List the libraries that Windows finds by name: first in System32, then in folders on PATH.

For a machine being examined, `windows/system32.json` maps relevant names in System32 to file versions, or
"" if a file has none (`{"amdhip64.dll": "5.7.32000.0"}`), and `windows/folders.json` maps other folders to
the names in them (`{"C:\\tools": ["nvcuda.dll"]}`), or to an empty list if the folder is missing.
"""

from __future__ import annotations

import ntpath
import os
import re
import sys
from functools import cache

from rocenv.core.errors import RocenvError
from rocenv.host.registry import copied
from rocenv.system import pe
from rocenv.system.machine import examined_elsewhere, keep_row

_LIBRARIES = "/windows/system32.json"
_FOLDERS = "/windows/folders.json"
# Libraries from the display driver, CUDA or its replacement, and the Visual C++ runtime.
_MATTERS = re.compile(r"(amdhip64|amd_comgr|hiprtc|nvcuda|nvml|msvcp140|vcruntime140)\w*\.dll", re.IGNORECASE)
# Names that identify a folder's contents: HIP's, and CUDA's (or ZLUDA's replacements).
IDENTIFYING = re.compile(
    r"(amdhip64|amd_comgr|hiprtc|rocblas|hipblas|nvcuda|nvml|nvapi64|nvrtc|nccl|zluda"
    r"|cu(blas|blaslt|dnn|fft|fftw|sparse|solver|rand|dart))[\w-]*\.dll",
    re.IGNORECASE,
)

_USUAL = re.compile(r"[a-z]:\\(windows|winnt)(\\|$)")


def system_libraries() -> dict[str, str] | None:
    """Return relevant libraries in System32, in lowercase, with file versions, or None if unknown."""
    if examined_elsewhere():
        found = copied(_LIBRARIES)
        return None if found is None else {name.lower(): str(found[name] or "") for name in found}
    if sys.platform == "win32":
        libraries = _libraries(ntpath.join(_windows(), "System32"))
        for name, version in libraries.items():
            keep_row(_LIBRARIES, name, version)
        return libraries
    else:
        return None


def names_in(folder: str) -> frozenset[str] | None:
    """Return a folder's file names, in lowercase: an empty set if it is missing, None if they are unknown."""
    if examined_elsewhere():
        rows = {_plain(each): names for each, names in (copied(_FOLDERS) or {}).items()}
        key = _plain(folder)
        return frozenset(str(name).lower() for name in rows[key] or ()) if key in rows else None
    try:
        found = frozenset(name.lower() for name in os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        found = frozenset()
    except OSError:
        return None
    keep_row(_FOLDERS, folder, sorted(filter(IDENTIFYING.fullmatch, found)))
    return found


def is_system_folder(folder: str, windows: str) -> bool:
    """Whether a folder on PATH is part of Windows.

    `windows` is the machine's SYSTEMROOT; if it is "" (unknown), a `Windows` folder on any drive counts.
    """
    if _plain(folder).endswith("\\system32") or (not windows and _USUAL.match(_plain(folder))):
        return True
    own = _plain(windows) if windows else ""
    return bool(own) and (_plain(folder) == own or _plain(folder).startswith(own + "\\"))


@cache
def _libraries(folder: str) -> dict[str, str]:
    names = filter(_MATTERS.fullmatch, sorted(os.listdir(folder)))
    return {name.lower(): _version(os.path.join(folder, name)) for name in names}


def _version(path: str) -> str:
    try:
        return pe.read(path).file_version
    except (OSError, RocenvError):
        return ""


def _plain(folder: str) -> str:
    return ntpath.normcase(ntpath.normpath(folder))


def _windows() -> str:
    return os.environ.get("SYSTEMROOT", "") or r"C:\Windows"

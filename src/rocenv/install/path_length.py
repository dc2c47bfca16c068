r"""Check Windows' path limit of 260 characters before anything is unpacked.

Windows 10 can lift the limit for programs that declare support. Python does, but programs that an app
starts might not. For this reason, rocenv does not use `\\?\`, which would create files that other programs
cannot open.

Source: https://learn.microsoft.com/en-us/windows/win32/fileio/maximum-file-path-limitation
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LONGEST = 259  # Windows' limit of 260 includes the final NUL
_BELOW_HOME = 170  # for a hash and the paths in an archive, or a venv and torch's headers
_HINTS = (
    "set ROCENV_HOME to a short path (`setx ROCENV_HOME C:\\rocenv`), then open a new terminal",
    "or ask an administrator to enable long paths (LongPathsEnabled=1 in "
    "`HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem`), then sign in again",
)


def require_short_home(home: Path) -> None:
    """Raise PrefixError if ROCENV_HOME is too long for the files that will be unpacked in it."""
    if _is_limited() and len(str(home)) > LONGEST - _BELOW_HOME:
        raise too_long(
            f"`{home}` has {len(str(home))} characters, but Windows limits paths to {LONGEST}, and the files "
            f"in it need about {_BELOW_HOME}"
        )


def require_short_names(folder: Path, names: Iterable[str]) -> None:
    """Raise PrefixError if a file below `folder` would exceed Windows' path limit."""
    if _is_limited():
        refuse_long(folder, names)


def refuse_long(folder: Path, names: Iterable[str]) -> None:
    """Raise PrefixError if `folder` plus the longest name exceeds the limit."""
    longest = max(names, key=len, default="")
    length = len(str(folder)) + 1 + len(longest)
    if length > LONGEST:
        raise too_long(
            f"the path of `{longest}` in `{folder}` would have {length} characters, but Windows limits paths "
            f"to {LONGEST}"
        )


def too_long(message: str) -> PrefixError:
    """Return the error for a path that is too long for Windows."""
    return PrefixError(message, hints=_HINTS, code="path-too-long")


def _is_limited() -> bool:
    if sys.platform == "win32":
        import ctypes

        try:
            return not ctypes.WinDLL("ntdll").RtlAreLongPathsEnabled() & 1
        except AttributeError:
            return True  # before Windows 10 1607, the limit always applies
    else:
        return False

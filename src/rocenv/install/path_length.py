r"""Windows' limit of 260 characters for a path, found out before anything is unpacked.

Windows 10 can lift it for programs that say they can take it. Python does; but what an app starts in turn may
not, so nothing here works around it with `\\?\`, which would leave files that others cannot open.
Source: https://learn.microsoft.com/en-us/windows/win32/fileio/maximum-file-path-limitation
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LONGEST = 259  # and the final NUL
_BELOW_HOME = 170  # a hash and what an archive holds, or a venv and torch's headers in it
_HINTS = (
    "set ROCENV_HOME to a short folder: `setx ROCENV_HOME C:\\rocenv`, and open a new window",
    "or let an administrator enable long paths (LongPathsEnabled=1 below "
    "`HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem`), and sign in again",
)


def require_short_home(home: Path) -> None:
    """Raise PrefixError where a ROCENV_HOME leaves no room for what is unpacked below it."""
    if _is_limited() and len(str(home)) > LONGEST - _BELOW_HOME:
        raise too_long(
            f"`{home}` has {len(str(home))} characters, and Windows takes {LONGEST} for a whole path: what "
            f"is unpacked below needs some {_BELOW_HOME}"
        )


def require_short_names(folder: Path, names: Iterable[str]) -> None:
    """Raise PrefixError where a file below `folder` would get a path that Windows does not take."""
    if _is_limited():
        refuse_long(folder, names)


def refuse_long(folder: Path, names: Iterable[str]) -> None:
    """Raise PrefixError where `folder` and the longest of the names, put together, pass the limit."""
    longest = max(names, key=len, default="")
    length = len(str(folder)) + 1 + len(longest)
    if length > LONGEST:
        raise too_long(
            f"the path of `{longest}` below `{folder}` would have {length} characters, and Windows takes "
            f"{LONGEST}"
        )


def too_long(message: str) -> PrefixError:
    """The error of a path that is too long for Windows."""
    return PrefixError(message, hints=_HINTS, code="path-too-long")


def _is_limited() -> bool:
    if sys.platform == "win32":
        import ctypes

        try:
            return not ctypes.WinDLL("ntdll").RtlAreLongPathsEnabled() & 1
        except AttributeError:
            return True  # from before Windows 10 1607, which knows no other way
    else:
        return False

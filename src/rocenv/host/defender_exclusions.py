r"""What Microsoft Defender leaves alone, and whether it watches.

Source: learn.microsoft.com, "Configure and validate exclusions based on file extension and folder location":
a folder stands for all below it, `*` for anything within one name. Only administrators may read the list, so
that it cannot be read says nothing.
"""

from __future__ import annotations

import fnmatch
import ntpath

from rocenv.host.registry import keep, values
from rocenv.system.machine import examined_elsewhere

_DEFENDER = r"SOFTWARE\Microsoft\Windows Defender"


def excluded(folder: str) -> bool | None:
    """Whether a folder, or one above it, is left alone; None where that is not known."""
    key = rf"{_DEFENDER}\Exclusions\Paths"
    rows = values(key)
    if rows is None:
        return None
    parts = ntpath.normcase(ntpath.normpath(folder)).split("\\")
    above = ["\\".join(parts[:count]) for count in range(1, len(parts) + 1)]
    is_covered = any(_covers(ntpath.expandvars(row), above) for row in rows)
    if not examined_elsewhere():
        keep(key, {folder: 0} if is_covered else {})  # what else is excluded is nobody's business
    return is_covered


def watches() -> bool:
    """Whether it looks at files as they are opened, which it does unless it is told not to."""
    told = values(rf"{_DEFENDER}\Real-Time Protection") or {}
    return not told.get("DisableRealtimeMonitoring")


def _covers(row: str, above: list[str]) -> bool:
    wanted = ntpath.normcase(ntpath.normpath(row)).rstrip("\\").replace("[", "[[]")
    alike = (each for each in above if each.count("\\") == wanted.count("\\"))
    return any(fnmatch.fnmatchcase(each, wanted) for each in alike)

r"""Read the Windows registry, or the JSON files that describe the registry of a machine being examined.

For a machine being examined, `windows/registry.json` contains keys under HKEY_LOCAL_MACHINE and their values,
spelled as in the registry: `{"SYSTEM\\CurrentControlSet\\Control\\FileSystem": {"LongPathsEnabled": 1}}`.
The values of a missing key are unknown. Only values that checks read are recorded, because a key can
contain other programs' secrets.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.system.machine import examined_elsewhere, keep_row, read_attribute

_COPY = "/windows/registry.json"
_FILE_SYSTEM = r"SYSTEM\CurrentControlSet\Control\FileSystem"
_MAX_BYTES = 4 << 20
_KEPT = re.compile(r"HIP_PATH(_[0-9]+)?|LongPathsEnabled|DisableRealtimeMonitoring", re.IGNORECASE)


def values(key: str) -> dict[str, Any] | None:
    """Return the values of a key below HKEY_LOCAL_MACHINE, or None if it cannot be read."""
    if examined_elsewhere():
        found = (copied(_COPY) or {}).get(key)
        return found if isinstance(found, dict) else None
    row = registered(key)
    if row is not None:
        keep(key, {name: value for name, value in row.items() if _KEPT.fullmatch(name)})
    return row


def keep(key: str, row: dict[str, Any]) -> None:
    """Record these values of a registry key."""
    keep_row(_COPY, key, {name: value for name, value in row.items() if isinstance(value, str | int)})


def copied(path: str) -> dict[str, Any] | None:
    """Read the JSON object in a file from a machine being examined; return None if there is none."""
    text = read_attribute(path, _MAX_BYTES)[0].removeprefix("\ufeff")
    try:
        plain = parse_json(text, path)
    except DataError:
        return None
    return plain if isinstance(plain, dict) else None


def paths_are_limited() -> bool | None:
    """Whether Windows limits paths to 260 characters, or None if unknown.

    Source: learn.microsoft.com, "Maximum Path Length Limitation": in Windows 10 1607 and later,
    `LongPathsEnabled` removes the limit for programs that declare support.
    """
    found = values(_FILE_SYSTEM)
    return None if found is None else found.get("LongPathsEnabled") != 1


if sys.platform == "win32":
    import winreg

    def registered(key: str) -> dict[str, Any] | None:
        """Return the values of a key on this machine, or None if it cannot be read."""
        try:
            access = winreg.KEY_READ | winreg.KEY_WOW64_64KEY
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, access) as opened:
                rows = [winreg.EnumValue(opened, number) for number in range(winreg.QueryInfoKey(opened)[1])]
        except OSError:
            return None
        return {name: value for name, value, _kind in rows}

else:

    def registered(key: str) -> dict[str, Any] | None:
        """Return None, because there is no registry."""
        return None

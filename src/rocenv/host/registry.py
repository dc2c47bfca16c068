r"""What the registry of a Windows machine says, and what else is kept of an examined one.

Of an examined machine `windows/registry.json` holds keys with their values, names as the registry has them:
`{"SYSTEM\\CurrentControlSet\\Control\\FileSystem": {"LongPathsEnabled": 1}}`, all below
HKEY_LOCAL_MACHINE. A key that is not in it is not known.
A recording keeps the values that checks look at: a key may hold secrets of any program.
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
_MOST_BYTES = 4 << 20
_KEPT = re.compile(r"HIP_PATH(_[0-9]+)?|LongPathsEnabled|DisableRealtimeMonitoring", re.IGNORECASE)


def values(key: str) -> dict[str, Any] | None:
    """The values of a key below HKEY_LOCAL_MACHINE; None where it cannot be read."""
    if examined_elsewhere():
        found = (copied(_COPY) or {}).get(key)
        return found if isinstance(found, dict) else None
    row = registered(key)
    if row is not None:
        keep(key, {name: value for name, value in row.items() if _KEPT.fullmatch(name)})
    return row


def keep(key: str, row: dict[str, Any]) -> None:
    """Have a recording keep these values of a key, and no others."""
    keep_row(_COPY, key, {name: value for name, value in row.items() if isinstance(value, str | int)})


def copied(path: str) -> dict[str, Any] | None:
    """The JSON object in a file of an examined machine, None where there is none."""
    text = read_attribute(path, _MOST_BYTES)[0].removeprefix("\ufeff")
    try:
        plain = parse_json(text, path)
    except DataError:
        return None
    return plain if isinstance(plain, dict) else None


def paths_are_limited() -> bool | None:
    """Whether Windows holds programs to 260 characters for a path; None where that is not known.

    Source: learn.microsoft.com, "Maximum Path Length Limitation": `LongPathsEnabled` lifts it from Windows 10
    1607 on, for programs that say they can take it.
    """
    found = values(_FILE_SYSTEM)
    return None if found is None else found.get("LongPathsEnabled") != 1


if sys.platform == "win32":
    import winreg

    def registered(key: str) -> dict[str, Any] | None:
        """The values of a key of this machine; None where it cannot be read."""
        try:
            access = winreg.KEY_READ | winreg.KEY_WOW64_64KEY
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key, 0, access) as opened:
                rows = [winreg.EnumValue(opened, number) for number in range(winreg.QueryInfoKey(opened)[1])]
        except OSError:
            return None
        return {name: value for name, value, _kind in rows}

else:

    def registered(key: str) -> dict[str, Any] | None:
        """None: there is no registry."""
        return None

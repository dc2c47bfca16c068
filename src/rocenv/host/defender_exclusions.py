r"""What Microsoft Defender leaves alone, and every file that it says it has acted on.

Source: learn.microsoft.com, "Configure and validate exclusions based on file extension and folder location":
a folder stands for all below it, `*` for anything within one name. Only administrators may read the list, so
that it cannot be read says nothing.
"""

from __future__ import annotations

import fnmatch
import ntpath
import re

from rocenv.host.defender import Quarantined
from rocenv.host.event_log import events
from rocenv.host.registry import values

_DEFENDER = r"SOFTWARE\Microsoft\Windows Defender"
_CHANNEL = "Microsoft-Windows-Windows Defender/Operational"
_FILE = re.compile(r"file:_?([^;|]+)")


def excluded(folder: str) -> bool | None:
    """Tell whether a folder, or one above it, is left alone; None where that is not known."""
    rows = values(rf"{_DEFENDER}\Exclusions\Paths")
    if rows is None:
        return None
    parts = ntpath.normcase(ntpath.normpath(folder)).split("\\")
    above = ["\\".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(_covers(ntpath.expandvars(row), above) for row in rows)


def watches() -> bool:
    """Tell whether it looks at files as they are opened, which it does unless it is told not to."""
    told = values(rf"{_DEFENDER}\Real-Time Protection") or {}
    return not told.get("DisableRealtimeMonitoring")


def history() -> tuple[Quarantined, ...]:
    """Return every file that Defender's log names, each once, the newest first; empty where unknown."""
    found: dict[str, Quarantined] = {}
    for event in events(_CHANNEL, (1116, 1117), "defender.xml") or ():
        for path in map(str.strip, _FILE.findall(event.get("Path", ""))):
            threat, when = event.get("Threat Name", ""), event.get("TimeCreated", "")[:19]
            found.setdefault(ntpath.normcase(path), Quarantined(path=path, threat=threat, when=when))
    return tuple(found.values())


def _covers(row: str, above: list[str]) -> bool:
    wanted = ntpath.normcase(ntpath.normpath(row)).rstrip("\\").replace("[", "[[]")
    alike = (each for each in above if each.count("\\") == wanted.count("\\"))
    return any(fnmatch.fnmatchcase(each, wanted) for each in alike)

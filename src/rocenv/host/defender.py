r"""Query Microsoft Defender: quarantined files, exclusions, and real-time protection.

Source: learn.microsoft.com, "Review event logs and error codes to troubleshoot issues with Microsoft
Defender Antivirus": event 1116 reports a detection, 1117 the action taken; `Path` lists files as
`file:_C:\...`. "Configure and validate exclusions based on file extension and folder location": excluding a
folder also excludes everything below it, and `*` matches within one path component. Only administrators can
read the list of exclusions, so an unreadable list is ignored.
"""

from __future__ import annotations

import fnmatch
import ntpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.host.event_log import events
from rocenv.host.registry import keep, values
from rocenv.system.machine import examined_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHANNEL = "Microsoft-Windows-Windows Defender/Operational"
_REGISTRY = r"SOFTWARE\Microsoft\Windows Defender"
_FILE = re.compile(r"file:_?([^;|]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A file that Defender quarantined or removed."""

    path: str
    threat: str
    when: str


def quarantined(paths: Iterable[str]) -> tuple[Quarantined, ...]:
    """List Defender's actions on these files, newest first, or () if unknown."""
    wanted = {_key(path) for path in paths}
    return tuple(each for each in history() if _key(each.path) in wanted)


def history() -> tuple[Quarantined, ...]:
    """List the files in Defender's log without duplicates, newest first, or () if unknown."""
    found: dict[str, Quarantined] = {}
    for event in events(_CHANNEL, (1116, 1117), "defender.xml") or ():
        for path in map(str.strip, _FILE.findall(event.get("Path", ""))):
            threat, when = event.get("Threat Name", ""), event.get("TimeCreated", "")[:19]
            found.setdefault(_key(path), Quarantined(path=path, threat=threat, when=when))
    return tuple(found.values())


def _key(path: str) -> str:
    return ntpath.normcase(ntpath.normpath(path))


def excluded(folder: str) -> bool | None:
    """Whether a folder or one of its parents is excluded from scans, or None if unknown."""
    key = rf"{_REGISTRY}\Exclusions\Paths"
    rows = values(key)
    if rows is None:
        return None
    parts = ntpath.normcase(ntpath.normpath(folder)).split("\\")
    above = ["\\".join(parts[:count]) for count in range(1, len(parts) + 1)]
    is_covered = any(_covers(ntpath.expandvars(row), above) for row in rows)
    if not examined_elsewhere():
        keep(key, {folder: 0} if is_covered else {})  # other exclusions are private
    return is_covered


def watches() -> bool:
    """Whether Defender scans files when they are opened (the default, assumed if unknown)."""
    settings = values(rf"{_REGISTRY}\Real-Time Protection") or {}
    return not settings.get("DisableRealtimeMonitoring")


def _covers(row: str, above: list[str]) -> bool:
    wanted = ntpath.normcase(ntpath.normpath(row)).rstrip("\\").replace("[", "[[]")
    alike = (each for each in above if each.count("\\") == wanted.count("\\"))
    return any(fnmatch.fnmatchcase(each, wanted) for each in alike)

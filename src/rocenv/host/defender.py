r"""What Microsoft Defender says it has taken away.

Source: learn.microsoft.com, "Review event logs and error codes to troubleshoot issues with Microsoft Defender
Antivirus": event 1116 tells of a detection, 1117 of what was done; `Path` lists files as `file:_C:\...`.
"""

from __future__ import annotations

import ntpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.host.event_log import events

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHANNEL = "Microsoft-Windows-Windows Defender/Operational"
_FILE = re.compile(r"file:_?([^;|]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A file that Defender acted on."""

    path: str
    threat: str
    when: str


def quarantined(paths: Iterable[str]) -> tuple[Quarantined, ...]:
    """Which of these files Defender's history names, each once, the newest first; empty if unknown."""
    wanted = {_key(path) for path in paths}
    return tuple(each for each in history() if _key(each.path) in wanted)


def history() -> tuple[Quarantined, ...]:
    """Every file that Defender's log names, each once, the newest first; empty where unknown."""
    found: dict[str, Quarantined] = {}
    for event in events(_CHANNEL, (1116, 1117), "defender.xml") or ():
        for path in map(str.strip, _FILE.findall(event.get("Path", ""))):
            threat, when = event.get("Threat Name", ""), event.get("TimeCreated", "")[:19]
            found.setdefault(_key(path), Quarantined(path=path, threat=threat, when=when))
    return tuple(found.values())


def _key(path: str) -> str:
    return ntpath.normcase(ntpath.normpath(path))

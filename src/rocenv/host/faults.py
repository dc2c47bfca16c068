"""Which module Windows says a program crashed in: the Application log, whose event 1000 names it.

Source: `wevtutil qe /?`; the fields of event 1000 of Application Error have names since Windows 11, and only
places before.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.host import examined_platform
from rocenv.host.gpu import printable
from rocenv.system.machine import examined_elsewhere, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAND_IN = "/windows/application_errors.xml"
_QUERY = "*[System[Provider[@Name='Application Error'] and (EventID=1000)]]"
_NEWEST = 20
_TIMEOUT_S = 15
_MOST_BYTES = 1 << 20
# Places of the fields where they have no names.
_PLACES = {"AppName": 0, "ModuleName": 3, "ExceptionCode": 6, "ProcessId": 8, "ModulePath": 11}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A crash as Windows has noted it."""

    program: str
    module: str
    exception: str  # "0xc0000005"
    path: str = ""  # of the module
    pid: int | None = None
    when: datetime.datetime | None = None


def fault_of(pid: int, programs: frozenset[str], since: datetime.datetime) -> Fault | None:
    """Return the newest crash of a process, or else of a program of one of these names, since a time.

    An app that is started through a batch file crashes in a process of its own.

    Args:
        pid: Of the process.
        programs: Names of programs, in lower case.
        since: With a time zone.
    """
    found = [fault for fault in parse_faults(_events()) if fault.when is None or fault.when >= since]
    own = [fault for fault in found if fault.pid == pid]
    like = [fault for fault in found if fault.program.lower() in programs]
    return next(iter([*own, *like]), None)


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Return the crashes in the XML of events, in its order; what is none is left out."""
    if "<!" in text.replace("<![CDATA[", ""):
        return ()  # no event log has declarations, and they could make a little text very long
    bare = re.sub(r"<\?xml[^>]*\?>", "", text.removeprefix("\ufeff"))
    try:
        root = ET.fromstring(f"<all>{bare}</all>")
    except ET.ParseError:
        return ()
    return tuple(fault for event in _named(root, "Event") if (fault := _fault(event)) is not None)


def _fault(event: ET.Element) -> Fault | None:
    data = [(item.get("Name") or "", item.text or "") for item in _named(event, "Data")]
    by_name = {name: value for name, value in data if name}

    def value(name: str) -> str:
        place = _PLACES[name]
        found = by_name.get(name, "") if by_name else data[place][1] if place < len(data) else ""
        return printable(found)

    if not value("ModuleName"):
        return None
    code = value("ExceptionCode").lower().removeprefix("0x")
    return Fault(
        program=value("AppName"),
        module=value("ModuleName"),
        exception=f"0x{code}" if code else "",
        path=value("ModulePath"),
        pid=_number(value("ProcessId")),
        when=_when(event),
    )


def _number(text: str) -> int | None:
    try:
        return int(text, 16)  # "0x1a2c", and "1a2c" on older systems
    except ValueError:
        return None


def _when(event: ET.Element) -> datetime.datetime | None:
    for item in _named(event, "TimeCreated"):
        # "2026-11-20T10:09:34.1234567Z": more digits than Python takes
        text = re.sub(r"(\.[0-9]{1,6})[0-9]*Z?$", r"\1", (item.get("SystemTime") or "").removesuffix("Z"))
        with contextlib.suppress(ValueError):
            return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
    return None


def _named(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (item for item in element.iter() if item.tag.rpartition("}")[2] == name)


def _events() -> str:
    if examined_elsewhere():
        return read_attribute(_STAND_IN, _MOST_BYTES)[0]
    if examined_platform() != "windows":
        return ""
    argv = ["wevtutil", "qe", "Application", f"/q:{_QUERY}", "/f:xml", "/rd:true", f"/c:{_NEWEST}"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_MOST_BYTES].decode("utf-8", "replace")

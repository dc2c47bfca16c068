"""Read crashes from the Windows event log.

Source: in Windows 11 and later, the fields of Application Error's event 1000 have names; in earlier versions,
only positions.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from rocenv.host.gpu import printable
from rocenv.system.machine import program_output

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 20
_MAX_BYTES = 4 << 20
_PROVIDER = "Application Error"  # other providers also use the number 1000
_NEWEST = 50
# Positions of the unnamed fields.
_PLACES = {"AppName": 0, "ModuleName": 3, "ExceptionCode": 6, "ProcessId": 8, "ModulePath": 11}


def events(channel: str, ids: tuple[int, ...], copy: str, *, limit: int = 100) -> list[dict[str, str]] | None:
    """Return event data, newest first, or None if the log cannot be read.

    Unnamed data is stored under its position, starting at "0". `TimeCreated` is the event's time and
    `Provider` its source; event numbers are unique only within a provider.

    For a machine being examined, this reads the file named `copy` in `windows/` instead.
    """
    text = program_output(f"/windows/{copy}", lambda: _query(channel, ids, limit), _MAX_BYTES)
    if text is None:
        return None
    # Files saved by the Event Viewer begin with an XML declaration.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.removeprefix("\ufeff"))
    try:
        # wevtutil's output has no root element. It never declares entities, so none are expanded.
        declares = "<!" in text.replace("<![CDATA[", "")
        root = None if declares else ElementTree.fromstring(f"<Events>{text}</Events>")
    except ElementTree.ParseError:
        return None
    return (
        None if root is None else [_plain(event) for event in root.iter() if _tag(event) == "Event"][:limit]
    )


def _query(channel: str, ids: tuple[int, ...], limit: int) -> str | None:
    from rocenv.system.process import run

    program = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "wevtutil.exe")
    wanted = " or ".join(f"EventID={number}" for number in ids)
    argv = [program, "qe", channel, f"/q:*[System[({wanted})]]", "/f:xml", "/rd:true", f"/c:{limit}"]
    done = run(argv, timeout_s=_TIMEOUT_S, limit_bytes=_MAX_BYTES)
    return done.stdout.decode("utf-8", "replace") if done.ok else None


def _plain(event: ElementTree.Element) -> dict[str, str]:
    found: dict[str, str] = {}
    data = 0
    for each in event.iter():
        if _tag(each) == "TimeCreated":
            found["TimeCreated"] = each.get("SystemTime", "")
        elif _tag(each) == "Provider":
            found["Provider"] = each.get("Name", "")
        elif _tag(each) == "Data":
            found[each.get("Name") or str(data)] = each.text or ""
            data += 1
    return found


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A program crash recorded by Windows."""

    program: str
    module: str
    exception: str  # "0xc0000005"
    path: str = ""  # of the module
    pid: int | None = None
    when: datetime.datetime | None = None


def fault_of(
    pid: int,
    programs: frozenset[str],
    *,
    since: datetime.datetime,
    recent: datetime.datetime,
    code: int,
) -> Fault | None:
    """Return a process's newest crash, or else the newest crash of a program that is probably part of it.

    An app that was started by a batch file crashes in its own process, not in `pid`. A matching name
    is weak evidence, so such a crash is accepted only if it is recent or its exception matches the app's
    exit code.

    Args:
        pid: The process.
        programs: Names of programs that it may have started, in lowercase.
        since: When the process was started; all times have a time zone.
        recent: Crashes after this time are recent.
        code: The app's exit code, unsigned.
    """
    found = [fault for fault in faults() if fault.when is None or fault.when >= since]
    own = [fault for fault in found if fault.pid == pid]
    like = [
        fault
        for fault in found
        if fault.program.lower() in programs
        and (fault.exception == f"0x{code:08x}" or (fault.when is not None and fault.when >= recent))
    ]
    return next(iter([*own, *like]), None)


def faults() -> tuple[Fault, ...]:
    """Return the crashes that Windows recorded, newest first."""
    crashes = events("Application", (1000,), "application_errors.xml", limit=_NEWEST) or ()
    return tuple(fault for event in crashes if (fault := _fault(event)) is not None)


def _fault(event: Mapping[str, str]) -> Fault | None:
    def value(name: str) -> str:
        return printable(event.get(name) or event.get(str(_PLACES[name]), ""))

    if event.get("Provider", _PROVIDER) != _PROVIDER or not value("ModuleName"):
        return None
    code = value("ExceptionCode").lower().removeprefix("0x")
    return Fault(
        program=value("AppName"),
        module=value("ModuleName"),
        exception=f"0x{code}" if code else "",
        path=value("ModulePath"),
        pid=_number(value("ProcessId")),
        when=_when(event.get("TimeCreated", "")),
    )


def _number(text: str) -> int | None:
    try:
        return int(text, 16)  # "0x1a2c", or "1a2c" on older systems
    except ValueError:
        return None


def _when(text: str) -> datetime.datetime | None:
    # "2026-11-20T10:09:34.1234567Z" has more digits than Python can parse.
    short = re.sub(r"(\.[0-9]{1,6})[0-9]*$", r"\1", text.removesuffix("Z"))
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(short).replace(tzinfo=datetime.timezone.utc)
    return None

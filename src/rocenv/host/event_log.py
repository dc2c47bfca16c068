"""Windows' event log: what was written of a kind of event, newest first."""

from __future__ import annotations

import os
import re
from xml.etree import ElementTree

from rocenv.system.machine import program_output

_TIMEOUT_S = 20
_MOST_BYTES = 4 << 20


def events(channel: str, ids: tuple[int, ...], copy: str, *, most: int = 100) -> list[dict[str, str]] | None:
    """The data of events, newest first; None where the log cannot be read.

    Data without a name stands under its number, from "0". `TimeCreated` is the system's time of the event,
    `Provider` is who wrote it: numbers of events are each provider's own.

    Args:
        channel: Say `Application`.
        ids: Of the events.
        copy: The file below `windows/` that holds the same of an examined machine.
        most: How many.
    """
    text = program_output(f"/windows/{copy}", lambda: _asked(channel, ids, most), _MOST_BYTES)
    if text is None:
        return None
    # What the Event Viewer saves has a declaration.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.removeprefix("\ufeff"))
    try:
        # What wevtutil prints has no root. Entities are never declared in it, so none are expanded.
        declares = "<!" in text.replace("<![CDATA[", "")
        root = None if declares else ElementTree.fromstring(f"<Events>{text}</Events>")
    except ElementTree.ParseError:
        return None
    return None if root is None else [_plain(event) for event in root.iter() if _tag(event) == "Event"][:most]


def _asked(channel: str, ids: tuple[int, ...], most: int) -> str | None:
    from rocenv.system.process import run

    program = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "wevtutil.exe")
    wanted = " or ".join(f"EventID={number}" for number in ids)
    argv = [program, "qe", channel, f"/q:*[System[({wanted})]]", "/f:xml", "/rd:true", f"/c:{most}"]
    done = run(argv, timeout_s=_TIMEOUT_S, limit_bytes=_MOST_BYTES)
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

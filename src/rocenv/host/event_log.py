"""Windows' event log: what was written of a kind of event, newest first."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from rocenv.system.machine import examined_elsewhere, read_attribute

_TIMEOUT_S = 20
_MOST_BYTES = 4 << 20


def events(channel: str, ids: tuple[int, ...], copy: str, *, most: int = 100) -> list[dict[str, str]] | None:
    """Return the named data of events, newest first; None where the log cannot be read.

    Data without a name stands under its number; `TimeCreated` is the system's time of it.

    Args:
        channel: Say `Application`.
        ids: Of the events.
        copy: The file below `windows/` that holds the same of an examined machine.
        most: How many.
    """
    text = _copy(copy) if examined_elsewhere() else _asked(channel, ids, most)
    if text is None:
        return None
    try:
        # What wevtutil prints has no root. Entities are never declared in it, so none are expanded.
        root = ElementTree.fromstring(f"<Events>{text}</Events>") if "<!" not in text else None
    except ElementTree.ParseError:
        return None
    return None if root is None else [_plain(event) for event in list(root)[:most]]


def _copy(name: str) -> str | None:
    text, error = read_attribute(f"/windows/{name}", _MOST_BYTES)
    return None if error else text.removeprefix("\ufeff")


def _asked(channel: str, ids: tuple[int, ...], most: int) -> str | None:
    import subprocess

    program = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32" / "wevtutil.exe"
    wanted = " or ".join(f"EventID={number}" for number in ids)
    try:
        done = subprocess.run(
            [program, "qe", channel, f"/q:*[System[({wanted})]]", "/f:xml", "/rd:true", f"/c:{most}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


def _plain(event: ElementTree.Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in event.iter():
        tag = each.tag.rpartition("}")[2]
        if tag == "TimeCreated":
            found["TimeCreated"] = each.get("SystemTime", "")
        elif tag == "Data":
            found[each.get("Name") or str(len(found))] = each.text or ""
    return found

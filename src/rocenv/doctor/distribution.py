"""Which Linux distribution it is, so that nobody is told the commands of another."""

from __future__ import annotations

import re

from rocenv.system.machine import read_attribute

_FILES = ("/etc/os-release", "/usr/lib/os-release")
_UNKNOWN = "unknown"
_LINE = re.compile(r"^(ID|ID_LIKE)=[\"']?([\w .:-]*)", re.MULTILINE)


def distro() -> str:
    """Return what it calls itself and what it is like: `linuxmint ubuntu debian`; never "".

    Source: os-release(5)
    """
    text = next(filter(None, (read_attribute(path)[0] for path in _FILES)), "")
    said = dict(_LINE.findall(text))
    words = f"{said.get('ID', '')} {said.get('ID_LIKE', '')}".lower().split()
    return " ".join(dict.fromkeys(words)) or _UNKNOWN

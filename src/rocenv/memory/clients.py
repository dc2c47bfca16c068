"""What the kernel says of an open GPU device of a process: `/proc/PID/fdinfo/FD`.

Source: torvalds/linux:Documentation/gpu/drm-usage-stats.rst; before Linux 5.19
drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocenv.memory.amounts import MOST

_LINE = re.compile(
    r"^([a-z][a-z -]{1,40}):[ \t]*([0-9a-fA-F:.]{1,20})(?: (KiB|MiB|kB))?[ \t]*$", re.MULTILINE
)
_UNITS = {"": 1, "KiB": 1 << 10, "kB": 1 << 10, "MiB": 1 << 20}
# The best known first: what is there now, older names of the same, what was ever asked for.
_VRAM = ("drm-resident-vram", "drm-memory-vram", "vram mem", "drm-total-vram")
_GTT = ("drm-resident-gtt", "drm-memory-gtt", "gtt mem", "drm-total-gtt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One opened device, and what was allocated through it."""

    address: str  # of the GPU: "0000:03:00.0"
    ident: str  # the same for copies of it in other places, "" = not said
    vram_bytes: int
    gtt_bytes: int


def client_of(text: str) -> Client | None:
    """Return what a text of fdinfo says, None where it is not that of a GPU."""
    found = {name: (value, unit) for name, value, unit in _LINE.findall(text)}
    address = found.get("drm-pdev", found.get("pdev", ("", "")))[0].lower()
    if not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", address):
        return None
    ident = found.get("drm-client-id", found.get("pasid", ("", "")))[0]
    return Client(
        address=address,
        ident="" if ident == "0" else ident,  # a graphics client of an old kernel has no number
        vram_bytes=_first(found, _VRAM),
        gtt_bytes=_first(found, _GTT),
    )


def _first(found: dict[str, tuple[str, str]], names: tuple[str, ...]) -> int:
    for name in names:
        value, unit = found.get(name, ("", ""))
        if value.isdecimal() and int(value) * _UNITS[unit] <= MOST:
            return int(value) * _UNITS[unit]
    return 0

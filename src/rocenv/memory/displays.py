"""Whether a GPU drives a display."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.memory.pools import DEVICES
from rocenv.system.machine import list_folder, read_attribute, unreadable

if TYPE_CHECKING:
    from rocenv.host import Gpu


def drives_display(gpu: Gpu) -> bool | None:
    """Tell whether a display is connected to a GPU; None = that is not known.

    Source: torvalds/linux:Documentation/ABI/testing/sysfs-class-drm, `status` of a connector
    """
    folder = f"{DEVICES}/{gpu.address}/drm"
    cards = [name for name in list_folder(folder) if re.fullmatch(r"card[0-9]+", name)]
    if not gpu.address or not cards or unreadable(folder):
        return None
    found = []
    for card in cards:
        for name in list_folder(f"{folder}/{card}"):
            if name.startswith(f"{card}-"):
                found.append(read_attribute(f"{folder}/{card}/{name}/status")[0].strip())
    if "connected" in found:
        return True
    # A connector that says neither may have a display all the same.
    return None if set(found) - {"disconnected"} else False

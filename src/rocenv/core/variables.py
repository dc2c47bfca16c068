"""Environment variables that the HIP runtime reads.

This module uses only the standard library, because the child processes of `probe` import it.
"""

import re

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"  # makes a GPU report a different target
VISIBLE = "HIP_VISIBLE_DEVICES"  # GPU numbers, valid on one machine only


def overridden_target(value: str) -> str:
    """Return the target that an HSA_OVERRIDE_GFX_VERSION value selects, or "" if it is malformed.

    The value consists of three decimal numbers; in the target, the last two become hexadecimal digits:
    9.0.10 is gfx90a.
    """
    version = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,3})\.([0-9]{1,3})", value)
    if not version:
        return ""
    major, minor, step = map(int, version.groups())
    return f"gfx{major}{minor:x}{step:x}"

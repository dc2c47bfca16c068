"""Variables of the HIP runtime. The children of `probe` import this: only the standard library here."""

import re

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"  # makes a GPU pass for another target
VISIBLE = "HIP_VISIBLE_DEVICES"  # holds numbers of GPUs, which are those of one machine


def overridden_target(value: str) -> str:
    """The target that a value of HSA_OVERRIDE_GFX_VERSION stands for, "" if it is not one.

    Three decimal numbers; the last two become hexadecimal digits: 9.0.10 is gfx90a.
    """
    version = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,3})\.([0-9]{1,3})", value)
    if not version:
        return ""
    major, minor, step = map(int, version.groups())
    return f"gfx{major}{minor:x}{step:x}"

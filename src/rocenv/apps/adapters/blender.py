"""Blender: make Cycles use HIP in background renders.

Blender exits with 0 even if it rendered on the CPU. `--cycles-device HIP` has to come after `--`, where many
add-ons and user scripts reject unknown arguments, so rocenv cannot add it. Instead, it adds a Python
expression that has the same effect and runs before the user's scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.apps.context import Tuning
from rocenv.data.apps import Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given

_HIP_ONLY = (
    'import sys; "_cycles" in sys.builtin_module_names and __import__("_cycles").set_device_override("HIP")'
)
_ALWAYS = (
    Flag(
        words=("--python-exit-code", "1"),
        place="first",
    ),
    Flag(
        words=("--debug-cycles",),
        place="first",
        always_known=True,
    ),
)
_LOG_LEVEL = Flag(words=("--log-level", "debug"), place="first")
_DEVICE = Flag(
    words=("--python-expr", _HIP_ONLY),
    place="first",
    always_known=True,
    repeats=True,
    unless=("--cycles-device",),
)
# First word of a flag -> message.
_WHY = {
    "--python-exit-code": "blender_fails_with_script",
    "--debug-cycles": "blender_logs_device",
    "--log-level": "blender_logs_memory",
    "--python-expr": "blender_needs_gpu",
}


def tune(context: LaunchContext, given: Given, _devices: Sequence[Device]) -> Tuning:
    """Propose arguments for background renders, but not for the GUI."""
    if not given.has("-b"):
        return Tuning()
    # Log levels were numbers before 5.0, which gave them names and added `--log-list-categories`.
    named_levels = (_LOG_LEVEL,) if "--log-list-categories" in given.options else ()
    return Tuning(
        flags=(*_ALWAYS, *named_levels, _DEVICE),
        reasons={word: context.message(name) for word, name in _WHY.items()},
    )

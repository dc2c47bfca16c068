"""Blender: hold Cycles to HIP in background renders.

Blender exits with 0 after rendering on the CPU. Words after `--` belong to add-ons and to the user's scripts,
many of which reject what they do not know, so `--cycles-device HIP` cannot be added there. A Python
expression has the same effect and runs before the user's scripts.
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
        why="Blender then exits with an error if a script fails",
    ),
    Flag(
        words=("--debug-cycles",),
        place="first",
        always_known=True,
        why="the log then shows what Cycles renders on",
    ),
)
_LOG_LEVEL = Flag(
    words=("--log-level", "debug"),
    place="first",
    why="the log then shows what did not fit into GPU memory",
)
_DEVICE = Flag(
    words=("--python-expr", _HIP_ONLY),
    place="first",
    always_known=True,
    repeats=True,
    unless=("--cycles-device",),
    why="Blender then exits with an error instead of rendering on the CPU",
)


def tune(_context: LaunchContext, given: Given, _devices: Sequence[Device]) -> Tuning:
    """Propose the arguments for a background render; an open window is left alone."""
    if not given.has("-b"):
        return Tuning()
    # Log levels have names since 5.0, which also added `--log-list-categories`. Before, they were numbers.
    named_levels = (_LOG_LEVEL,) if "--log-list-categories" in given.options else ()
    return Tuning(flags=(*_ALWAYS, *named_levels, _DEVICE))

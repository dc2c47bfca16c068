"""Behaviour that belongs to one app. Most apps have none: their profile is all that rocenv knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocenv.apps.adapters import blender, llama

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.apps.context import LaunchContext, Tuning
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given


class Adapter(Protocol):
    """Proposes arguments that depend on more than the help of the app's program."""

    def __call__(self, context: LaunchContext, given: Given, devices: Sequence[Device], /) -> Tuning:
        """Look at the machine and propose arguments.

        Args:
            context: The launch.
            given: The user's arguments, and those that this version has.
            devices: The GPUs that the program will use, as it lists them; () = it lists none.
        """


# By key of the profile.
ADAPTERS: Mapping[str, Adapter] = {
    "blender": blender.tune,
    "llama.cpp": llama.tune_llama_cpp,
    "llamafile": llama.tune_llamafile,
}

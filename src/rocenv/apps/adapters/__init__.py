"""Code for individual apps. Most apps need only a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocenv.apps.adapters import blender, llama

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.apps.context import LaunchContext, Tuning
    from rocenv.apps.devices import Device
    from rocenv.apps.options import Given


class Adapter(Protocol):
    """Proposes arguments that depend on the machine or on the user's arguments."""

    def __call__(self, context: LaunchContext, given: Given, devices: Sequence[Device], /) -> Tuning:
        """Propose arguments for this machine.

        Args:
            context: The launch.
            given: The user's arguments, and those that this version of the app accepts.
            devices: The GPUs that the program will use, as it lists them; () if it does not list any.
        """


# The keys are the same as in the profiles.
ADAPTERS: Mapping[str, Adapter] = {
    "blender": blender.tune,
    "llama.cpp": llama.tune_llama_cpp,
    "llamafile": llama.tune_llamafile,
}

"""Forms in which a cluster offers an env to its users: a module, a container, an image.

An exporter renders an env at its prefix, which may be on another machine, as text. It writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.exporters import apptainer, lmod, squashfs

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.activate.env import Env, Surroundings

EXPORTERS: dict[str, Callable[[Env, Surroundings], str]] = {
    "apptainer": apptainer.render,
    "lmod": lmod.render,
    "squashfs": squashfs.render,
}

"""Exporters, which make an env available to cluster users as a module, a container, or an image.

An exporter renders an env as text and does not write files. The env's prefix may be on another machine.
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

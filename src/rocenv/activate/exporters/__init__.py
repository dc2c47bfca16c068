"""Exporters, which make an env available to cluster users as a module, a container, or an image.

An exporter renders an env as text for its prefix, which may be on another machine. It does not write files.
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

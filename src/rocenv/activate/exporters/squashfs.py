"""How to mount an image of an env: SquashFS, which the kernel and, without root, squashfuse read."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.activate.env import Env, Surroundings


def render(env: Env, surroundings: Surroundings) -> str:
    """Render the instructions as a script's lines and comments."""
    image, prefix = shlex.quote(surroundings.image), shlex.quote(env.prefix)
    inside = shlex.quote(f'mount --bind "$0" {prefix} && exec "${{SHELL:-sh}}"')
    return f"""\
# The env works only at {env.prefix}, which must be an empty folder.
# As root, for all users:
mount -t squashfs -o loop,ro {image} {prefix}
# Without root, if the folder is yours:
squashfuse -o ro {image} {prefix}
# Without root, if it is not: mount the image elsewhere, and show it there in a new shell.
mkdir -p "$HOME/mnt" && squashfuse -o ro {image} "$HOME/mnt"
unshare -rm sh -c {inside} "$HOME/mnt"
"""

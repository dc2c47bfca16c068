"""Instructions for mounting a SquashFS image of an env, as root or, with squashfuse, as any user."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.activate.env import Env, Surroundings


def render(env: Env, surroundings: Surroundings) -> str:
    """Render the instructions as the commands and comments of a script."""
    image, prefix = shlex.quote(surroundings.image), shlex.quote(env.prefix)
    inside = shlex.quote(f'mount --bind "$0" {prefix} && exec "${{SHELL:-sh}}"')
    return f"""\
# The env works only at {env.prefix}, which must be an empty folder.
# As root, for all users:
mount -t squashfs -o loop,ro {image} {prefix}
# Without root, if the folder is yours:
squashfuse -o ro {image} {prefix}
# Without root, otherwise: mount the image elsewhere, and bind it to the folder in a new shell.
mkdir -p "$HOME/mnt" && squashfuse -o ro {image} "$HOME/mnt"
unshare -rm sh -c {inside} "$HOME/mnt"
"""

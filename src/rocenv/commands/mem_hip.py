"""Whose HIP runtime `rocenv mem` asks too, and what it says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.commands.world import World
    from rocenv.host import Gpu, Host
    from rocenv.memory.hip_figures import HipWord
    from rocenv.model import Record


def env_or_active(world: World, host: Host, name: str) -> str:
    """Return `name`, else that of the env that is active; "" = none is, or another machine is looked at."""
    from rocenv.install.prefix import all_prefixes
    from rocenv.memory.env import active_env
    from rocenv.system.machine import examined_elsewhere

    if name or not host.gpus or examined_elsewhere():
        return name
    found = active_env([each for each in all_prefixes(world.home) if each.state == "complete"], os.environ)
    return found.name if found else ""


def gpu_of(host: Host, record: Record | None) -> Gpu | None:
    """Return the GPU that programs are given in an env, or without one; None = there is none."""
    own = host.devices_for(record.lock.target) if record is not None else ()
    return next(iter(own), host.gpu)


def hip_word(world: World, host: Host, name: str) -> tuple[HipWord, Record]:
    """Return what the HIP runtime of env `name` says, and the env's record; raise where there is none."""
    from rocenv.memory.hip_figures import hip_memory

    prefix = world.prefix(name)
    record = prefix.record()
    with world.progress.wait(f"Asking HIP of {name}"):
        return hip_memory(prefix, record, world.matrix, host), record

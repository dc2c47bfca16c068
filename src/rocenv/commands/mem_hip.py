"""Whose HIP runtime `rocenv mem` asks too, and what it says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Record
    from rocenv.host import Gpu, Host
    from rocenv.memory.hip_figures import HipWord


def env_or_active(context: Context, host: Host, name: str) -> str:
    """Return `name`, else that of the env that is active; "" = none is, or another machine is looked at."""
    from rocenv.prefix import active_env
    from rocenv.system.machine import examined_elsewhere

    if name or not host.gpus or examined_elsewhere():
        return name
    found = active_env(context.home, os.environ)
    return found.name if found else ""


def gpu_of(host: Host, record: Record | None) -> Gpu | None:
    """Return the GPU that programs are given in an env, or without one; None = there is none."""
    own = host.devices_for(*record.lock.targets) if record is not None else ()
    return next(iter(own), host.gpu)


def hip_word(context: Context, host: Host, name: str) -> tuple[HipWord, Record]:
    """Return what the HIP runtime of env `name` says, and the env's record; raise where there is none."""
    from rocenv.memory.hip_figures import hip_memory
    from rocenv.prefix import prefix_of

    prefix = prefix_of(context.home, name)
    record = prefix.record()
    with context.progress.wait(f"Asking HIP of {name}"):
        return hip_memory(prefix, record, context.matrix, host), record

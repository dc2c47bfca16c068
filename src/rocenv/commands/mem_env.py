"""The env that a `mem` command goes by: the one that is named, else the active one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.system.machine import examined_elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.context import Context
    from rocenv.core.model import Record
    from rocenv.host import Gpu, Host
    from rocenv.memory.gpus import HipFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvView:
    """What the env of a command says about this machine; without an env, nothing."""

    name: str = ""
    record: Record | None = None
    figures: Mapping[int, HipFigure] = field(default_factory=dict)  # of HIP, by index of the GPU
    notes: tuple[str, ...] = ()

    def gpu(self, host: Host) -> Gpu | None:
        """Return the GPU that programs get in the env, or without one; None = there is none."""
        own = host.devices_for(*self.record.lock.targets) if self.record is not None else ()
        return next(iter(own), host.gpu)


def view_of_env(context: Context, host: Host, name: str, *, ask_hip: bool = True) -> EnvView:
    """Look at the env called `name`, else at the active one, if any; raise PrefixError if it is missing."""
    from rocenv.memory.env import hip_memory, named_or_active

    if not name and (not host.gpus or examined_elsewhere()):
        return EnvView()
    prefix = named_or_active(context.home, os.environ, name)
    if prefix is None:
        return EnvView()
    record = prefix.record()
    if not ask_hip:
        return EnvView(name=prefix.name, record=record)
    with context.progress.wait(f"Asking HIP of {prefix.name}"):
        hip = hip_memory(prefix, record, context.matrix, host)
    return EnvView(name=prefix.name, record=record, figures=hip.by_gpu, notes=hip.notes)

"""Programs that keep GPU memory while idle, and commands that make them release it."""

from __future__ import annotations

import ntpath
import posixpath
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rocenv.core.template import fill
from rocenv.system.machine import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.settings import Reclaim
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.holders import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimable:
    """A program that holds GPU memory and can release it on command."""

    row: Reclaim
    port: int  # 0 if none
    pids: tuple[int, ...]
    size_bytes: int  # held on all GPUs; the program might release less

    def command(self, shell: str) -> str:
        """Return the command for a shell; `shell` is its name in `activate.shells.SHELLS`."""
        template = self.row.powershell if shell in ("powershell", "cmd") else self.row.command
        text = fill(template, {"port": self.port})
        if shell != "cmd":
            return text
        escaped = text.replace('"', '\\"')
        return f'powershell -NoProfile -Command "{escaped}"'


def find_reclaimable(
    gpus: Iterable[GpuMemory], rows: Iterable[Reclaim], *, windows: bool
) -> tuple[Reclaimable, ...]:
    """Find the known programs that hold memory and can release it, largest first.

    Args:
        gpus: The memory of all GPUs, with the processes that hold it.
        rows: The known programs.
        windows: Whether paths are Windows paths.
    """
    known = sorted(rows, key=lambda row: row.program)
    sizes: dict[tuple[str, int], dict[int, int]] = {}  # by process
    for gpu in gpus:
        for holder in gpu.holders:
            row = next((row for row in known if _matches(holder, row, windows=windows)), None)
            if row is not None and (size := gpu.held_by(holder)):
                of_program = sizes.setdefault((row.program, _port(holder, row)), {})
                of_program[holder.pid] = of_program.get(holder.pid, 0) + size
    by_name = {row.program: row for row in known}
    found = (
        Reclaimable(row=by_name[name], port=port, pids=tuple(sorted(pids)), size_bytes=sum(pids.values()))
        for (name, port), pids in sizes.items()
    )
    return tuple(sorted(found, key=lambda each: (-each.size_bytes, each.row.program, each.port)))


def _matches(holder: Holder, row: Reclaim, *, windows: bool) -> bool:
    name = holder.name.lower()
    if any(fnmatchcase(name, pattern.lower()) for pattern in row.processes):
        return True
    paths = ntpath if windows else posixpath
    for word in holder.command[1:]:
        if word.startswith("-") or paths.basename(word) not in row.scripts:
            continue
        script = paths.join(holder.folder, word)
        if not paths.isabs(script):  # the process's working directory is unknown
            continue
        folder = paths.dirname(script)
        if all(is_there(f"{folder}/{name}") for name in row.beside) and not any(
            is_there(f"{folder}/{name}") for name in row.not_beside
        ):
            return True
    return False


def _port(holder: Holder, row: Reclaim) -> int:
    if not row.port_argument:
        return row.port
    command = " ".join(holder.command)
    given = re.findall(rf"(?:^| ){re.escape(row.port_argument)}[ =]([0-9]{{1,5}})(?= |$)", command)
    return int(given[-1]) if given and 0 < int(given[-1]) < 1 << 16 else row.port

"""Whose memory could be had back: programs that keep models in it while they do nothing, and how to ask."""

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

    from rocenv.data.knobs import Reclaim
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.holders import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimable:
    """A program that holds memory and can be asked for it."""

    row: Reclaim
    port: int  # 0 = it has none
    pids: tuple[int, ...]
    size_bytes: int  # of all GPUs; how much of it comes back, only the program knows

    def command(self, shell: str) -> str:
        """Return what to type in a shell, by its name in the list of those that envs are activated in."""
        said = self.row.powershell if shell in ("powershell", "cmd") else self.row.command
        said = fill(said, {"port": self.port})
        if shell != "cmd":
            return said
        quoted = said.replace('"', '\\"')
        return f'powershell -NoProfile -Command "{quoted}"'


def reclaimable(
    gpus: Iterable[GpuMemory], rows: Iterable[Reclaim], *, windows: bool
) -> tuple[Reclaimable, ...]:
    """Return what could be had back, most first.

    Args:
        gpus: The memory of all GPUs, with its holders.
        rows: The programs that are known.
        windows: Paths are those of Windows.
    """
    known = sorted(rows, key=lambda row: row.program)
    found: dict[tuple[str, int], tuple[Reclaim, set[int], int]] = {}
    whose: dict[int, Reclaim | None] = {}
    for gpu in gpus:
        for holder in gpu.holders:
            if holder.pid not in whose:
                whose[holder.pid] = next((row for row in known if _is(holder, row, windows=windows)), None)
            row, size = whose[holder.pid], gpu.held_by(holder)
            if row is None or not size:
                continue
            key = (row.program, _port(holder, row))
            _, pids, before = found.get(key, (row, set(), 0))
            found[key] = (row, pids | {holder.pid}, before + size)
    listed = [
        Reclaimable(row=row, port=port, pids=tuple(sorted(pids)), size_bytes=size)
        for (_, port), (row, pids, size) in found.items()
    ]
    return tuple(sorted(listed, key=lambda each: (-each.size_bytes, each.row.program, each.port)))


def _is(holder: Holder, row: Reclaim, *, windows: bool) -> bool:
    name = holder.name.lower()
    if any(fnmatchcase(name, pattern.lower()) for pattern in row.processes):
        return True
    paths = ntpath if windows else posixpath
    for word in holder.command[1:]:
        if word.startswith("-") or paths.basename(word) not in row.scripts:
            continue
        script = paths.join(holder.folder, word)
        if not paths.isabs(script):  # where it lies cannot be told, so neither whose it is
            continue
        beside = [f"{paths.dirname(script)}/{sign}" for sign in (*row.signs, *row.unlike)]
        there = [is_there(path) for path in beside]
        if all(there[: len(row.signs)]) and not any(there[len(row.signs) :]):
            return True
    return False


def _port(holder: Holder, row: Reclaim) -> int:
    if not row.port_argument:
        return row.port
    text = " ".join(holder.command)
    said = re.findall(rf"(?:^| ){re.escape(row.port_argument)}[ =]([0-9]{{1,5}})(?= |$)", text)
    return int(said[-1]) if said and 0 < int(said[-1]) < 1 << 16 else row.port

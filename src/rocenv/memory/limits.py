"""How much of a GPU's memory may be taken for a try without harm to what runs beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import GIB, MIB, amount, bytes_of
from rocenv.memory.bisection import UNIT_BYTES

if TYPE_CHECKING:
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.pools import MachineMemory

_LEAST_RESERVE = 512 * MIB
_RESERVE_SHARE = 0.05  # of the GPU's memory
_MACHINE_LEAST = 2 * GIB
_MACHINE_SHARE = 0.1
# Of a card on Windows, where nothing says what is free: the memory of others would be moved out for ours.
_UNTOLD_SHARE = 0.8
# What the driver, and HIP as it asks, take of a card that nobody else uses.
_IDLE_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class Limit:
    """What the user wants taken at most."""

    size_bytes: int = 0  # 0 = no amount
    share: float = 0.0  # of what is free; 0 = none

    @property
    def given(self) -> bool:
        """There is one."""
        return bool(self.size_bytes or self.share)

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Return the limit of `6GiB` or `80%`; raise ValueError where it is neither, or nothing."""
        found = re.fullmatch(r"\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%\s*", text)
        if found:
            share = float(found[1]) / 100
            if not 0 < share <= 1:
                raise ValueError(f"`{text}` is no share: it has to be more than 0 % and at most 100 %")
            return cls(share=share)
        size = bytes_of(text)
        if size is None:
            raise ValueError(f"`{text}` is no amount of memory: `6GiB`, `900MiB` or `80%` is")
        if size < UNIT_BYTES:
            raise ValueError(f"`{text}` is less than {amount(UNIT_BYTES)}, the least that is asked for")
        return cls(size_bytes=size)

    def of(self, free: int) -> int | None:
        """Return it in bytes, None where there is none."""
        return self.size_bytes or (int(free * self.share) if self.share else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How much is taken at most, and why not more."""

    size_bytes: int  # a multiple of UNIT_BYTES
    free_bytes: int  # as it is told, else as it is guessed
    is_told: bool = True  # something here says how much is free
    limited: bool = False  # by what the user wants
    limit_given: bool = False  # the user wants one, whether or not it is the least
    reasons: tuple[str, ...] = ()  # what is left alone, and why; sentences without final period

    @property
    def left_bytes(self) -> int:
        """What may be free and is left alone."""
        return self.free_bytes - self.size_bytes


def bound_of(
    memory: GpuMemory,
    machine: MachineMemory,
    *,
    display: bool | None,
    windows: bool,
    limit: Limit,
    total: int,
) -> Bound:
    """Return how much of a GPU's memory may be taken.

    Args:
        memory: As it is told, HIP's word included.
        machine: The machine's own memory.
        display: Whether a display is connected to the GPU; None = not known.
        windows: Whether Windows manages it.
        limit: What the user wants.
        total: HIP's word for all of it, for want of a better one.
    """
    free, reasons = _free(memory, windows=windows, total=total)
    size = free - _reserve(memory.total_bytes or total, display, memory.used_bytes, reasons)
    if _in_machine(memory):
        its = "its memory is" if memory.gpu.integrated else "its memory may be"
        size = min(size, _of_machine(machine, its, reasons))
    wanted = limit.of(free)
    limited = wanted is not None and wanted < size
    if limited and wanted is not None:
        size = wanted
        reasons.append(f"`--limit` allows {amount(wanted)}")
    return Bound(
        size_bytes=max(0, size) // UNIT_BYTES * UNIT_BYTES,
        free_bytes=free,
        is_told=memory.free_bytes is not None,
        limited=limited,
        limit_given=limit.given,
        reasons=tuple(reasons),
    )


def _free(memory: GpuMemory, *, windows: bool, total: int) -> tuple[int, list[str]]:
    if memory.free_bytes is not None and not (windows and memory.budget_bytes is None):
        return memory.free_bytes, []
    untold = int(_UNTOLD_SHARE * min(total, memory.total_bytes or total))
    free = untold if memory.free_bytes is None else min(untold, memory.free_bytes)
    percent = round(100 * _UNTOLD_SHARE)
    return free, [f"nothing here says how much is free, so no more than {percent} % of all is taken"]


def _reserve(total: int, display: bool | None, used: int | None, reasons: list[str]) -> int:
    """Return what is left to the desktop, or to programs that have memory and may want more."""
    if display:
        whose = "the display that it drives"
    elif display is None:
        whose = "a display, since it may drive one"
    elif used is None:
        whose = "programs that may use it, since how much is in use is not known"
    elif used > _IDLE_BYTES:
        whose = "the programs that use it"
    else:
        return 0
    reserve = max(_LEAST_RESERVE, int(total * _RESERVE_SHARE))
    reasons.append(f"{amount(reserve)} is left to {whose}")
    return reserve


def _in_machine(memory: GpuMemory) -> bool:
    """Tell whether what is taken of a GPU is taken of the machine's memory."""
    if memory.shared_counts:
        return True
    vram, shared = memory.vram_total_bytes, memory.shared_total_bytes
    if memory.gpu.integrated is False or (vram is not None and shared is not None and vram >= shared):
        return False
    return bool(memory.gpu.integrated) or vram is None


def _of_machine(machine: MachineMemory, its: str, reasons: list[str]) -> int:
    if machine.available is None:
        return 1 << 62
    reserve = max(_MACHINE_LEAST, int((machine.total or 0) * _MACHINE_SHARE))
    reasons.append(
        f"{its} the machine's, of which {amount(machine.available)} is available, and"
        f" {amount(reserve)} of that is left to everything else"
    )
    return max(0, machine.available - reserve)

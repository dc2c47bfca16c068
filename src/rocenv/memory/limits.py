"""How much of a GPU's memory the allocation test may take without harm to what else runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.memory.amounts import GIB, MIB, amount, parse_amount

if TYPE_CHECKING:
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.sysfs import MachineMemory

UNIT_BYTES = 1 << 20  # every amount is a multiple of it
_MIN_RESERVE = 512 * MIB
_RESERVE_SHARE = 0.05  # of the GPU's memory
_MIN_MACHINE_RESERVE = 2 * GIB
_MACHINE_RESERVE_SHARE = 0.1
# If nothing says what is free on Windows, it would move out memory of others to make room for ours.
_UNKNOWN_SHARE = 0.8
# The driver and HIP take this much of a card that nobody else uses.
_IDLE_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that the user allows."""

    size_bytes: int = 0  # 0 = no amount
    share: float = 0.0  # of what is free; 0 = none

    @property
    def is_given(self) -> bool:
        """Whether there is a limit."""
        return bool(self.size_bytes or self.share)

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Parse `6GiB` or `80%`; raise ValueError if it is neither, or too little to try."""
        if found := re.fullmatch(r"\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%\s*", text):
            share = float(found[1]) / 100
            if not 0 < share <= 1:
                raise ValueError(f"`{text}` is not between 0 % and 100 %")
            return cls(share=share)
        size = parse_amount(text)
        if size is None:
            raise ValueError(f"`{text}` is not an amount of memory such as `6GiB`, `900MiB` or `80%`")
        if size < UNIT_BYTES:
            raise ValueError(
                f"`{text}` is less than {amount(UNIT_BYTES)}, the smallest amount that rocenv tries"
            )
        return cls(size_bytes=size)

    def of(self, free_bytes: int) -> int | None:
        """Return the limit in bytes, None if there is none."""
        return self.size_bytes or (int(free_bytes * self.share) if self.share else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most that the test takes, and why not more."""

    size_bytes: int  # a multiple of UNIT_BYTES
    free_bytes: int  # a guess unless `is_known`
    is_known: bool = True  # the system or HIP says how much is free
    is_limited: bool = False  # the limit of the user decides
    has_limit: bool = False  # the user gave one, whether or not it decides
    reasons: tuple[str, ...] = ()  # clauses

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
    """Compute how much of a GPU's memory the test may take.

    Args:
        memory: Of the GPU, with HIP's figure.
        machine: Main memory.
        display: Whether the GPU drives a display; None = unknown.
        windows: Whether Windows manages the memory.
        limit: Of the user.
        total: HIP's figure for all of the memory.
    """
    reasons: list[str] = []
    free = memory.free_bytes
    if free is None or (windows and memory.budget_bytes is None):
        share = int(_UNKNOWN_SHARE * min(total, memory.total_bytes or total))
        free = share if free is None else min(share, free)
        percent = round(100 * _UNKNOWN_SHARE)
        reasons.append(f"at most {percent} % of all memory, because nothing says how much is free")
    size = free - _reserve(memory.total_bytes or total, display, memory.used_bytes, reasons)
    if _is_main_memory(memory) and machine.available is not None:
        reserve = max(_MIN_MACHINE_RESERVE, int((machine.total or 0) * _MACHINE_RESERVE_SHARE))
        size = min(size, machine.available - reserve)
        shares = "shares" if memory.gpu.integrated else "may share"
        reasons.append(
            f"the GPU {shares} main memory, of which {amount(machine.available)} is available and"
            f" {amount(reserve)} stays reserved for everything else"
        )
    allowed = limit.of(free)
    is_limited = allowed is not None and allowed < size
    if is_limited and allowed is not None:
        size = allowed
        reasons.append(f"`--limit` allows {amount(allowed)}")
    return Bound(
        size_bytes=max(0, size) // UNIT_BYTES * UNIT_BYTES,
        free_bytes=free,
        is_known=memory.free_bytes is not None,
        is_limited=is_limited,
        has_limit=limit.is_given,
        reasons=tuple(reasons),
    )


def _reserve(total: int, display: bool | None, used: int | None, reasons: list[str]) -> int:
    """Return what stays reserved for the desktop, or for programs that may want more than they have."""
    if display:
        whom = "the display that it drives"
    elif display is None:
        whom = "a display, because the GPU may drive one"
    elif used is None:
        whom = "other programs, because it is unknown how much they use"
    elif used > _IDLE_BYTES:
        whom = "the programs that use it"
    else:
        return 0
    reserve = max(_MIN_RESERVE, int(total * _RESERVE_SHARE))
    reasons.append(f"{amount(reserve)} stays reserved for {whom}")
    return reserve


def _is_main_memory(memory: GpuMemory) -> bool:
    """Return whether the memory of a GPU is, or may be, main memory."""
    if memory.shared_counts:
        return True
    vram, shared = memory.vram_total_bytes, memory.shared_total_bytes
    if memory.gpu.integrated is False or (vram is not None and shared is not None and vram >= shared):
        return False
    return bool(memory.gpu.integrated) or vram is None

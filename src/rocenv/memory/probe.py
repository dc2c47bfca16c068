"""Test how much GPU memory a program can allocate: in one block, in pieces, and beyond the total.

The test leaves room for the desktop and other programs, except for one excessive request that a runtime
should reject. Some runtimes grant it, so the test skips that request if the user sets a limit.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.host import detect
from rocenv.host.gpu import Gpu, printable
from rocenv.host.pci import Ids
from rocenv.memory.amounts import GIB, MIB, amount, parse_amount
from rocenv.memory.env import first_answer, match_gpu, open_session
from rocenv.memory.gpus import HipFigure, drives_display, machine_memory, read_usage
from rocenv.probe.hip_session import NoAnswer
from rocenv.probe.wire import BlockResult, ExcessResult, FillResult, Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory, MachineMemory
    from rocenv.prefix import Prefix
    from rocenv.probe.hip_session import HipSession
    from rocenv.probe.wire import HipGpu

TIMEOUT_S = 60.0  # per request: eviction on a full card can be slow
UNIT_BYTES = MIB  # every amount is a multiple of this
_MAX_HANGS = 2  # each hang takes a full timeout
_MAX_PIECES = 2048
_SEARCH_PARTS = 1024  # the search resolution is the bound divided by this
_KEPT = 0.9  # the fraction of the largest block that must be available afterward, in pieces
_MIN_RESERVE = 512 * MIB
_RESERVE_SHARE = 0.05  # as a fraction of the GPU's memory
_MIN_MACHINE_RESERVE = 2 * GIB
_MACHINE_RESERVE_SHARE = 0.1
# Used if free memory is unknown, because the test could make Windows evict other programs' memory.
_UNKNOWN_SHARE = 0.8
# The driver and HIP use this much on an otherwise idle GPU.
_IDLE_BYTES = 512 * MIB

Became = Literal["had", "refused", "wrong", "failed", "crashed", "timeout"]


Limit = int | float  # the user's limit: bytes, or a fraction of free memory


def parse_limit(text: str) -> Limit:
    """Parse `6GiB` or `80%`; raise ValueError if the text is invalid or the amount is too small."""
    if found := re.fullmatch(r"\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%\s*", text):
        share = float(found[1]) / 100
        if not 0 < share <= 1:
            raise ValueError(f"`{text}` is not between 0 % and 100 %")
        return share
    size = parse_amount(text)
    if size is None:
        raise ValueError(f"`{text}` is not an amount of memory such as `6GiB`, `900MiB` or `80%`")
    if size < UNIT_BYTES:
        raise ValueError(f"`{text}` is less than {amount(UNIT_BYTES)}, the smallest amount that rocenv tests")
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most memory that the test allocates, and the reasons for that limit."""

    size_bytes: int  # a multiple of UNIT_BYTES
    free_bytes: int  # an estimate if the free memory is unknown
    is_limited: bool = False  # whether the user's limit applies
    reasons: tuple[str, ...] = ()  # clauses


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request for a single block."""

    asked_bytes: int
    became: Became
    answer: str = ""  # the runtime's error name
    detail: str = ""
    elapsed_s: float = 0.0

    @property
    def is_trouble(self) -> bool:
        """Whether the request failed for a reason other than insufficient memory."""
        return self.became not in ("had", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """The result of the excessive request."""

    asked_bytes: int
    became: Literal["refused", "granted", "failed", "crashed", "timeout"]
    answer: str = ""
    info: str = ""  # an invalid hipMemGetInfo result after the request; "" if none
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The result of the test."""

    env: str
    opened: Opened
    memory: GpuMemory
    display: bool | None  # whether the GPU drives a display; None if unknown
    bound: Bound
    resolution_bytes: int
    steps: tuple[Step, ...]
    largest_bytes: int
    pieces: FillResult | None  # None if not tested
    excess: Excess | None  # None if not tested
    elapsed_s: float

    @property
    def reached_bound(self) -> bool:
        """Whether the largest block reached the bound, in which case a larger one might work."""
        return self.largest_bytes == self.bound.size_bytes

    @property
    def troubles(self) -> tuple[str, ...]:
        """Descriptions of what failed."""
        larger = f"larger than {amount(self.largest_bytes)} " if self.largest_bytes else ""
        bad = sorted((step for step in self.steps if step.is_trouble), key=lambda step: -step.asked_bytes)
        details = {step.became: step.detail for step in bad}  # for the smallest block, by kind of failure
        found = [f"a single block {larger}failed: {detail}" for detail in details.values()]
        if self.pieces is not None and self.pieces.outcome != "had":
            found.append(f"in pieces: {self.pieces.detail}")
        if self.excess is not None and self.excess.trouble:
            found.append(f"after a request for {amount(self.excess.asked_bytes)}: {self.excess.trouble}")
        return tuple(found)


def probe_memory(
    prefix: Prefix,
    record: Record,
    matrix: Matrix,
    *,
    limit: Limit | None = None,
    announce: Callable[[Opened, Bound, int], None] = lambda _opened, _bound, _excess_bytes: None,
    timeout_s: float = TIMEOUT_S,
) -> ProbeResult:
    """Test how much memory an env's HIP runtime can allocate.

    Args:
        prefix: A complete env.
        record: The env's record.
        matrix: The GPU data.
        limit: The user's limit.
        announce: Called before the first large request, with the bound and the size of the excessive request
            (0 if none).
        timeout_s: Applies to each request.

    Raises:
        NoGpu: The runtime cannot find a GPU.
        WrongUsage: The limit is below the smallest amount to test.
        RocenvError: The runtime failed, or no memory is free.
    """
    start = time.monotonic()
    with open_session(prefix, record, matrix, timeout_s) as session:
        opened = first_answer(session, prefix.name, Opened, "open")
        host, machine = detect(matrix), machine_memory()
        memory = _memory_of_opened(opened.gpu, host, matrix)
        display, total = drives_display(memory.gpu), opened.gpu.total_bytes
        windows = host.platform == "windows"
        bound = bound_of(memory, machine, display=display, windows=windows, limit=limit, total=total)
        if bound.size_bytes < UNIT_BYTES:
            raise _no_room(bound)
        excess_bytes = 0
        if limit is None:
            # Request more than all pools combined, so that Windows rejects it without evicting memory.
            pools = max(memory.total_bytes or 0, total) + (memory.shared_total_bytes or machine.total or 0)
            excess_bytes = (pools + pools // 8) // UNIT_BYTES * UNIT_BYTES
        announce(opened, bound, excess_bytes)
        steps = _Steps(session)
        largest = largest_working(bound.size_bytes, steps.works)
        pieces = excess = None
        if largest and not steps.gave_up:
            pieces = _take_pieces(session, bound.size_bytes, largest)
        if excess_bytes and not steps.gave_up:
            excess = _ask_for_excess(session, excess_bytes)
    return ProbeResult(
        env=prefix.name,
        opened=opened,
        memory=memory,
        display=display,
        bound=bound,
        resolution_bytes=resolution_of(bound.size_bytes),
        steps=tuple(steps.done),
        largest_bytes=largest,
        pieces=pieces,
        excess=excess,
        elapsed_s=time.monotonic() - start,
    )


# ---------------------------------------------------------------- the bound


def bound_of(
    memory: GpuMemory,
    machine: MachineMemory,
    *,
    display: bool | None,
    windows: bool,
    limit: Limit | None,
    total: int,
) -> Bound:
    """Compute how much GPU memory the test may allocate.

    Args:
        memory: The GPU's memory, with HIP's figure.
        machine: System memory.
        display: Whether the GPU drives a display; None if unknown.
        windows: Whether Windows manages the memory.
        limit: The user's limit, if any.
        total: The total memory according to HIP.
    """
    reasons: list[str] = []
    free = memory.free_bytes
    if free is None or (windows and memory.budget_bytes is None):
        share = int(_UNKNOWN_SHARE * min(total, memory.total_bytes or total))
        free = share if free is None else min(share, free)
        reasons.append(f"at most {_UNKNOWN_SHARE:.0%} of the total, because the free memory is unknown")
    size = free
    if display is not False or memory.used_bytes is None or memory.used_bytes > _IDLE_BYTES:
        reserve = max(_MIN_RESERVE, int((memory.total_bytes or total) * _RESERVE_SHARE))
        size -= reserve
        whom = "the programs that use it" if display is False else "a display"
        reasons.append(f"{amount(reserve)} is reserved for {whom}")
    if _is_system_memory(memory) and machine.available is not None:
        reserve = max(_MIN_MACHINE_RESERVE, int((machine.total or 0) * _MACHINE_RESERVE_SHARE))
        size = min(size, machine.available - reserve)
        reasons.append(
            f"the GPU uses system memory, of which {amount(machine.available)} is available and"
            f" {amount(reserve)} is reserved for other programs"
        )
    allowed = size if limit is None else int(free * limit) if isinstance(limit, float) else limit
    if allowed < size:
        reasons.append(f"`--limit` allows {amount(allowed)}")
    return Bound(
        size_bytes=max(0, min(size, allowed)) // UNIT_BYTES * UNIT_BYTES,
        free_bytes=free,
        is_limited=allowed < size,
        reasons=tuple(reasons),
    )


def _is_system_memory(memory: GpuMemory) -> bool:
    """Return whether a GPU's memory is, or could be, system memory."""
    if memory.shared_counts:
        return True
    vram, shared = memory.vram_total_bytes, memory.shared_total_bytes
    if memory.gpu.integrated is False or (vram is not None and shared is not None and vram >= shared):
        return False
    return bool(memory.gpu.integrated) or vram is None


def _memory_of_opened(hip_gpu: HipGpu, host: Host, matrix: Matrix) -> GpuMemory:
    gpus = () if host.named else host.gpus
    gpu = match_gpu(hip_gpu, gpus)
    if gpu is None:
        is_partition = any(each.address == hip_gpu.address for each in gpus)
        gpu = Gpu(
            source="HIP",
            target=hip_gpu.target,
            name=printable(hip_gpu.name),
            address="" if is_partition else hip_gpu.address,  # the kernel's counters are per board
            integrated=Ids(matrix).integrated(hip_gpu.target),
        )
        gpus = (gpu,)
    figure = HipFigure(free_bytes=hip_gpu.free_bytes, total_bytes=hip_gpu.total_bytes)
    host = replace(host, gpus=gpus, selected=None, named=False)
    memories = read_usage(host, {gpu.index: figure}, with_holders=False).gpus
    return next(each for each in memories if each.gpu.index == gpu.index)


def _no_room(bound: Bound) -> RocenvError:
    if bound.is_limited:
        return WrongUsage(
            f"`--limit` allows less than {amount(UNIT_BYTES)}, the smallest amount that rocenv tests",
            hints=("specify an amount, such as `--limit 1GiB`",),
        )
    why = "".join(f"; {reason}" for reason in bound.reasons)
    return RocenvError(
        f"no memory is left for the test: {amount(bound.free_bytes)} is free{why}",
        hints=("`rocenv mem` shows which programs hold it",),
        code="no-room",
    )


# ---------------------------------------------------------------- the test


def resolution_of(bound: int) -> int:
    """Return the resolution of `largest_working`: its result can be too small by at most this much."""
    return max(UNIT_BYTES, bound // _SEARCH_PARTS // UNIT_BYTES * UNIT_BYTES)


def largest_working(bound: int, works: Callable[[int], bool]) -> int:
    """Find the largest amount up to `bound` that works, to within `resolution_of(bound)`; 0 if none works.

    Try the bound first, because it usually works. If no amount down to the resolution works, search smaller
    amounts with a finer resolution.

    Args:
        bound: A multiple of UNIT_BYTES.
        works: Tests an amount.
    """
    while bound >= UNIT_BYTES:
        resolution = resolution_of(bound)
        if works(bound):
            return bound
        low, high = 0, bound
        while high - low > resolution:
            middle = max(UNIT_BYTES, (low + high) // 2 // UNIT_BYTES * UNIT_BYTES)
            low, high = (middle, high) if works(middle) else (low, middle)
        if low:
            return low
        bound = high - UNIT_BYTES
    return 0


class _Steps:
    """The search's requests, in order."""

    def __init__(self, session: HipSession) -> None:
        self._session = session
        self.done: list[Step] = []

    @property
    def gave_up(self) -> bool:
        """Whether the runtime hung too often."""
        return sum(step.became == "timeout" for step in self.done) >= _MAX_HANGS

    def works(self, size: int) -> bool:
        """Return whether a program can allocate and use this much in one block."""
        if self.gave_up:
            return False
        start = time.monotonic()
        try:
            result = self._session.ask(BlockResult, "try", size=size)
            step = Step(asked_bytes=size, became=result.outcome, answer=result.answer, detail=result.detail)
            if step.is_trouble:
                self._session.close()  # the child could still hold this memory
        except NoAnswer as error:
            step = Step(asked_bytes=size, became=_became(error), detail=str(error))
        self.done.append(replace(step, elapsed_s=time.monotonic() - start))
        return step.became == "had"


def _take_pieces(session: HipSession, bound: int, largest: int) -> FillResult:
    had = [0]  # bytes, as the child reports them
    request = {"bound": bound, "piece": largest, "least": resolution_of(largest), "max_pieces": _MAX_PIECES}
    try:
        filled = session.ask(FillResult, "fill", had.append, **request)
    except NoAnswer as error:
        return FillResult(
            outcome="failed", total_bytes=had[-1], pieces=0, smallest_bytes=0, detail=str(error)
        )
    if filled.outcome == "had" and filled.total_bytes < largest * _KEPT:
        why = (
            f"after freeing {amount(largest)}, only {amount(filled.total_bytes)} was available again: the"
            " runtime or driver did not release the memory, or another program took it"
        )
        return replace(filled, outcome="failed", detail=why)
    return filled


def _ask_for_excess(session: HipSession, size: int) -> Excess:
    try:
        result = session.ask(ExcessResult, "push", size=size)
    except NoAnswer as error:
        return Excess(asked_bytes=size, became=_became(error), trouble=str(error))
    info = trouble = ""
    if result.info_answer:
        info = f"hipMemGetInfo returns {result.info_answer}"
    elif result.free_bytes > result.total_bytes:
        info = f"hipMemGetInfo reports {amount(result.free_bytes)} free of {amount(result.total_bytes)}"
    small = result.small
    if small is not None and small.outcome != "had":
        trouble = f"even a small block failed: {small.detail or small.answer}"
    became: Literal["granted", "refused"] = "granted" if result.granted else "refused"
    return Excess(asked_bytes=size, became=became, answer=result.answer, info=info, trouble=trouble)


def _became(error: NoAnswer) -> Literal["failed", "crashed", "timeout"]:
    return "failed" if error.end == "no-device" else error.end

"""Test how much memory of a GPU a program can have: in one piece, in pieces, and beyond what there is.

The test stays within the bound of `limits`, except for one request that no runtime should grant. With a limit
of the user it leaves that out, because some runtimes do grant it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.host import detect
from rocenv.host.gpu import Gpu, printable
from rocenv.host.pci import Ids
from rocenv.memory.amounts import amount
from rocenv.memory.env import first_answer, match_gpu, open_session
from rocenv.memory.gpus import HipFigure, memory_of
from rocenv.memory.limits import UNIT_BYTES, Limit, bound_of
from rocenv.memory.sysfs import drives_display, machine_memory
from rocenv.probe.hip_session import NoAnswer
from rocenv.probe.wire import BlockResult, ExcessResult, FillResult, Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.limits import Bound
    from rocenv.prefix import Prefix
    from rocenv.probe.hip_session import HipSession
    from rocenv.probe.wire import HipGpu

TIMEOUT_S = 60.0  # of one request: a full card may be slow to make room
_MAX_HANGS = 2  # each costs a whole timeout
_MAX_PIECES = 2048
_SEARCH_PARTS = 1024  # of the bound: how finely the search looks
_KEPT = 0.9  # this share of the largest piece has to be available again in pieces

Became = Literal["had", "refused", "wrong", "failed", "crashed", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request for a single piece."""

    asked_bytes: int
    became: Became
    answer: str = ""  # the runtime's name of an error
    detail: str = ""
    elapsed_s: float = 0.0

    @property
    def is_trouble(self) -> bool:
        """Whether the runtime or the card misbehaved, instead of just having no more memory."""
        return self.became not in ("had", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """What came of a request that no runtime should grant."""

    asked_bytes: int
    became: Literal["refused", "granted", "failed", "crashed", "timeout"]
    answer: str = ""
    info: str = ""  # what is wrong with hipMemGetInfo afterwards; "" = nothing
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What the test found."""

    env: str
    opened: Opened
    memory: GpuMemory
    display: bool | None  # whether the GPU drives one; None = unknown
    bound: Bound
    resolution_bytes: int
    steps: tuple[Step, ...]
    largest_bytes: int
    pieces: FillResult | None  # None = not tried
    excess: Excess | None  # None = not tried
    elapsed_s: float

    @property
    def reached_bound(self) -> bool:
        """Whether a larger piece might have worked but was not tried."""
        return self.largest_bytes == self.bound.size_bytes

    @property
    def troubles(self) -> tuple[str, ...]:
        """What misbehaved; sentences."""
        found = []
        bad = sorted((step for step in self.steps if step.is_trouble), key=lambda step: step.asked_bytes)
        for became in dict.fromkeys(step.became for step in bad):
            first, *others = (step for step in bad if step.became == became)
            more = f" (and {len(others)} larger ones)" if others else ""
            asked = amount_above(first.asked_bytes, self.largest_bytes)
            found.append(f"{asked} in one piece{more}: {first.detail}")
        if self.pieces is not None and self.pieces.outcome != "had":
            found.append(f"in pieces: {self.pieces.detail}")
        if self.excess is not None and self.excess.trouble:
            asked = amount(self.excess.asked_bytes)
            found.append(f"after a request for {asked}: {self.excess.trouble}")
        return tuple(found)


def amount_above(size_bytes: int, worked_bytes: int) -> str:
    """Format an amount so that it differs from a smaller one that worked."""
    is_same = worked_bytes and amount(size_bytes) == amount(worked_bytes)
    return f"slightly more than {amount(worked_bytes)}" if is_same else amount(size_bytes)


def probe_memory(
    prefix: Prefix,
    record: Record,
    matrix: Matrix,
    *,
    limit: Limit | None = None,
    show: Callable[[str], None] = lambda _doing: None,
    announce: Callable[[Opened, Bound, int], None] = lambda _opened, _bound, _excess_bytes: None,
    timeout_s: float = TIMEOUT_S,
) -> ProbeResult:
    """Test how much memory the HIP runtime of an env can have.

    Args:
        prefix: A complete env.
        record: Its record.
        matrix: What is known about GPUs.
        limit: The most that the user allows.
        show: Called with what the test is doing.
        announce: Called before the first large request, with the bound and the request that goes beyond it
            (0 = none).
        timeout_s: For each request.

    Raises:
        NoGpu: The runtime sees no GPU.
        WrongUsage: The limit is less than the test can try.
        RocenvError: The runtime does not work, or no memory is free.
    """
    start = time.monotonic()
    with open_session(prefix, record, matrix, timeout_s) as session:
        show("Opening the GPU")
        opened = first_answer(session, prefix.name, Opened, "open")
        host = detect(matrix)
        memory = _memory_of_opened(opened.gpu, host, matrix)
        machine, display = machine_memory(), drives_display(memory.gpu)
        bound = bound_of(
            memory,
            machine,
            display=display,
            windows=host.platform == "windows",
            limit=limit or Limit(),
            total=opened.gpu.total_bytes,
        )
        if bound.size_bytes < UNIT_BYTES:
            raise _no_room(bound)
        excess_bytes = 0
        if not bound.has_limit:
            # More than any pool has, so that Windows moves nothing out before it refuses.
            pools = max(memory.total_bytes or 0, opened.gpu.total_bytes)
            pools += memory.shared_total_bytes or machine.total or 0
            excess_bytes = (pools + pools // 8) // UNIT_BYTES * UNIT_BYTES
        announce(opened, bound, excess_bytes)
        steps = _Steps(session, show)
        largest = largest_working(bound.size_bytes, steps.works)
        pieces = excess = None
        if largest and not steps.gave_up:
            pieces = _take_pieces(session, bound.size_bytes, largest, show)
        if excess_bytes and not steps.gave_up:
            excess = _ask_for_excess(session, excess_bytes, show)
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


def resolution_of(bound: int) -> int:
    """Return by how much the result of `largest_working` may be too small."""
    return max(UNIT_BYTES, bound // _SEARCH_PARTS // UNIT_BYTES * UNIT_BYTES)


def largest_working(bound: int, works: Callable[[int], bool]) -> int:
    """Find the largest amount up to `bound` that works, 0 if none does; it may be `resolution_of` too small.

    The bound is tried first, because it usually works. If not even one part of the resolution works, that
    part is searched more finely.

    Args:
        bound: A multiple of UNIT_BYTES.
        works: Tries an amount.
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
    """The requests of the search, in order."""

    def __init__(self, session: HipSession, show: Callable[[str], None]) -> None:
        self._session = session
        self._show = show
        self.done: list[Step] = []

    @property
    def gave_up(self) -> bool:
        """Whether the runtime hung too often."""
        return sum(step.became == "timeout" for step in self.done) >= _MAX_HANGS

    def works(self, size: int) -> bool:
        """Return whether a program can have and use this much in one piece."""
        if self.gave_up:
            return False
        self._show(f"Trying {amount(size)} in one piece")
        start = time.monotonic()
        try:
            result = self._session.ask(BlockResult, "try", size=size)
            step = Step(asked_bytes=size, became=result.outcome, answer=result.answer, detail=result.detail)
            if step.is_trouble:
                self._session.close()  # it may still hold that memory, and the next amount would add to it
        except NoAnswer as error:
            step = Step(asked_bytes=size, became=_became(error), detail=str(error))
        self.done.append(replace(step, elapsed_s=time.monotonic() - start))
        return step.became == "had"


def _take_pieces(session: HipSession, bound: int, largest: int, show: Callable[[str], None]) -> FillResult:
    had = 0

    def progress(size: int) -> None:
        nonlocal had
        show(f"Taking it in pieces, {amount(size)}")
        had = size

    request = {"bound": bound, "piece": largest, "least": resolution_of(largest), "most_pieces": _MAX_PIECES}
    try:
        filled = session.ask(FillResult, "fill", progress, **request)
    except NoAnswer as error:
        return FillResult(outcome="failed", total_bytes=had, pieces=0, smallest_bytes=0, detail=str(error))
    if filled.outcome == "had" and filled.total_bytes < largest * _KEPT:
        why = (
            f"of {amount(largest)} that was freed, only {amount(filled.total_bytes)} was available again: the"
            " runtime or the driver keeps memory, or another program took it"
        )
        return replace(filled, outcome="failed", detail=why)
    return filled


def _ask_for_excess(session: HipSession, size: int, show: Callable[[str], None]) -> Excess:
    show("Asking for more than there is")
    try:
        result = session.ask(ExcessResult, "push", size=size)
    except NoAnswer as error:
        return Excess(asked_bytes=size, became=_became(error), trouble=str(error))
    info = trouble = ""
    if result.info_answer:
        info = f"hipMemGetInfo answers {result.info_answer}"
    elif result.free_bytes > result.total_bytes:
        info = f"hipMemGetInfo reports {amount(result.free_bytes)} free of {amount(result.total_bytes)}"
    small = result.small
    if small is not None and small.outcome != "had":
        trouble = f"not even a small block works afterwards: {small.detail or small.answer}"
    became: Literal["granted", "refused"] = "granted" if result.granted else "refused"
    return Excess(asked_bytes=size, became=became, answer=result.answer, info=info, trouble=trouble)


def _became(error: NoAnswer) -> Literal["failed", "crashed", "timeout"]:
    return "failed" if error.end == "no-device" else error.end


def _memory_of_opened(hip_gpu: HipGpu, host: Host, matrix: Matrix) -> GpuMemory:
    gpus = () if host.named else host.gpus
    gpu = match_gpu(hip_gpu, gpus)
    if gpu is None:
        is_partition = any(each.address == hip_gpu.address for each in gpus)
        gpu = Gpu(
            source="HIP",
            target=hip_gpu.target,
            name=printable(hip_gpu.name),
            address="" if is_partition else hip_gpu.address,  # the kernel counts the whole board there
            integrated=Ids(matrix).integrated(hip_gpu.target),
        )
        gpus = (gpu,)
    figure = HipFigure(free_bytes=hip_gpu.free_bytes, total_bytes=hip_gpu.total_bytes)
    memories = memory_of(
        replace(host, gpus=gpus, selected=None, named=False), {gpu.index: figure}, with_holders=False
    )
    return next(each for each in memories if each.gpu.index == gpu.index)


def _no_room(bound: Bound) -> RocenvError:
    if bound.is_limited:
        return WrongUsage(
            f"`--limit` allows less than {amount(UNIT_BYTES)}, the smallest amount that rocenv tries",
            hints=("give an amount: `--limit 1GiB`",),
        )
    why = "".join(f"; {reason}" for reason in bound.reasons)
    return RocenvError(
        f"there is no memory to test with: {amount(bound.free_bytes)} is free{why}",
        hints=("`rocenv mem` shows who holds it",),
        code="no-room",
    )

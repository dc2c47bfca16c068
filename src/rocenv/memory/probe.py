"""How much memory of a GPU can really be had: in one piece, in pieces, and what comes when there is no more.

Nothing is asked for that `limits` does not allow, but for one request that nobody should grant; with a limit
of the user's there is none such, since some runtimes do grant it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.host import detect
from rocenv.host.gpu import Gpu, printable
from rocenv.host.pci import Ids
from rocenv.memory.amounts import amount
from rocenv.memory.asking import first_answer, hip_session
from rocenv.memory.bisection import UNIT_BYTES, largest, resolution_of
from rocenv.memory.displays import drives_display
from rocenv.memory.gpus import HipFigure, memory_of
from rocenv.memory.hip_figures import gpu_of
from rocenv.memory.limits import Limit, bound_of
from rocenv.memory.pools import machine_memory
from rocenv.memory.probe_result import Pieces, ProbeResult, Refusal, Step
from rocenv.probe.hip_session import NoAnswer
from rocenv.probe.wire import Filled, Opened, Pushed, Tried

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory
    from rocenv.memory.limits import Bound
    from rocenv.prefix import Prefix
    from rocenv.probe.hip_session import HipSession
    from rocenv.probe.wire import Seen

TIMEOUT_S = 60.0  # of one request: a card that others have filled may be slow to make room
_HANGS = 2  # after so many nothing more is tried: each costs a whole time limit
_MOST_PIECES = 2048
_KEPT = 0.9  # of what was had in one piece has to be there again in pieces


class LimitTooSmall(WrongUsage):
    """The user's limit is less than the least amount that is tried."""


def probe_memory(
    prefix: Prefix,
    record: Record,
    matrix: Matrix,
    *,
    limit: Limit | None = None,
    tell: Callable[[str], None] = lambda _what: None,
    begin: Callable[[Opened, Bound, int], None] = lambda _opened, _bound, _too_much: None,
    timeout_s: float = TIMEOUT_S,
) -> ProbeResult:
    """Find out how much memory can be had with the HIP runtime of an env.

    Args:
        prefix: A complete env.
        record: Its record.
        matrix: For what is known about GPUs.
        limit: What the user wants taken at most.
        tell: Called with what is being done.
        begin: Called once it is known how much will be taken at most, and how much more than there is will
            be asked for, 0 = that is not tried.
        timeout_s: For each request.

    Raises:
        NoGpu: There is none.
        LimitTooSmall: The limit is less than can be tried.
        RocenvError: The runtime cannot be used, or there is nothing free to try with.
    """
    start = time.monotonic()
    with hip_session(prefix, record, matrix, timeout_s) as session:
        tell("Opening the GPU")
        opened = first_answer(session, prefix.name, Opened, "open")
        memory, windows = _told(opened.gpu, detect(matrix), matrix)
        display = drives_display(memory.gpu)
        bound = bound_of(
            memory,
            machine_memory(),
            display=display,
            windows=windows,
            limit=limit or Limit(),
            total=opened.gpu.total_bytes,
        )
        if bound.size_bytes < UNIT_BYTES:
            raise _no_room(bound)
        too_much = 0 if bound.limit_given else _too_much(memory, opened.gpu.total_bytes)
        begin(opened, bound, too_much)
        steps = _Steps(session, tell)
        most = largest(bound.size_bytes, steps.works)
        hung = steps.hung
        pieces = _pieces(session, bound.size_bytes, most, tell) if most and not hung else None
        refusal = _push(session, too_much, tell) if too_much and not hung else None
    return ProbeResult(
        env=prefix.name,
        opened=opened,
        memory=memory,
        display=display,
        bound=bound,
        resolution_bytes=resolution_of(bound.size_bytes),
        steps=tuple(steps.done),
        largest_bytes=most,
        pieces=pieces,
        refusal=refusal,
        elapsed_s=time.monotonic() - start,
    )


class _Steps:
    """The steps of the bisection, kept as they are made."""

    def __init__(self, session: HipSession, tell: Callable[[str], None]) -> None:
        self._session = session
        self._tell = tell
        self.done: list[Step] = []

    @property
    def hung(self) -> bool:
        """Nothing more is to be tried."""
        return sum(step.became == "timeout" for step in self.done) >= _HANGS

    def works(self, size: int) -> bool:
        """Try an amount, and tell whether it could be had and used."""
        if self.hung:
            return False
        self._tell(f"Asking for {amount(size)} in one piece")
        start = time.monotonic()
        try:
            tried = self._session.ask(Tried, "try", size=size)
            step = Step(asked_bytes=size, became=tried.outcome, answer=tried.answer, detail=tried.detail)
            if step.is_trouble:
                self._session.close()  # it may still have that memory, and the next amount would come on top
        except NoAnswer as error:
            step = Step(asked_bytes=size, became=_end(error), detail=str(error))
        self.done.append(replace(step, elapsed_s=time.monotonic() - start))
        return step.became == "had"


def _pieces(session: HipSession, bound: int, most: int, tell: Callable[[str], None]) -> Pieces:
    had = 0

    def count(size: int) -> None:
        nonlocal had
        tell(f"Taking it in pieces, {amount(size)}")
        had = size

    words = {"bound": bound, "piece": most, "least": resolution_of(most), "most_pieces": _MOST_PIECES}
    try:
        filled = session.ask(Filled, "fill", count, **words)
    except NoAnswer as error:
        return Pieces(total_bytes=had, trouble=str(error))
    trouble = filled.detail if filled.outcome != "had" else ""
    if not trouble and filled.total_bytes < most * _KEPT:
        trouble = (
            f"only {amount(filled.total_bytes)} could be had again of {amount(most)} that were given back: "
            "the runtime or the driver keeps memory, or another program took it meanwhile"
        )
    return Pieces(
        total_bytes=filled.total_bytes,
        count=filled.pieces,
        smallest_bytes=filled.smallest_bytes,
        refused_bytes=filled.refused_bytes,
        trouble=trouble,
    )


def _too_much(memory: GpuMemory, total: int) -> int:
    """Return more than any pool has, so that nothing of others is moved out before it is refused."""
    told = [each for each in (memory.total_bytes, total) if each]
    pools = max(told, default=0) + (memory.shared_total_bytes or machine_memory().total or 0)
    return (pools + pools // 8) // UNIT_BYTES * UNIT_BYTES


def _push(session: HipSession, size: int, tell: Callable[[str], None]) -> Refusal:
    tell("Asking for more than there is")
    try:
        pushed = session.ask(Pushed, "push", size=size)
    except NoAnswer as error:
        return Refusal(asked_bytes=size, became=_end(error), trouble=str(error))
    became: Literal["granted", "refused"] = "granted" if pushed.granted else "refused"
    info = ""
    if pushed.info_answer:
        info = f"hipMemGetInfo answers {pushed.info_answer}"
    elif pushed.free_bytes > pushed.total_bytes:
        info = f"hipMemGetInfo says that {amount(pushed.free_bytes)} of {amount(pushed.total_bytes)} is free"
    small = pushed.small
    trouble = ""
    if small is not None and small.outcome != "had":
        trouble = f"not even a small block can be used afterwards: {small.detail or small.answer}"
    return Refusal(asked_bytes=size, became=became, answer=pushed.answer, info=info, trouble=trouble)


def _end(error: NoAnswer) -> Literal["failed", "crashed", "timeout"]:
    return "failed" if error.end == "no-device" else error.end


def _told(seen: Seen, host: Host, matrix: Matrix) -> tuple[GpuMemory, bool]:
    """Return the memory of the GPU that HIP opened, as it is told, and whether Windows manages it."""
    gpus = () if host.named else host.gpus
    own = gpu_of(seen, gpus)
    if own is None:
        is_partition = any(gpu.address == seen.address for gpu in gpus)
        own = Gpu(
            source="HIP",
            target=seen.target,
            name=printable(seen.name),
            address="" if is_partition else seen.address,  # the kernel counts there for the whole board
            integrated=Ids(matrix).integrated(seen.target),
        )
        gpus = (own,)
    figure = HipFigure(free_bytes=seen.free_bytes, total_bytes=seen.total_bytes)
    alone = replace(host, gpus=gpus, selected=None, named=False)
    found = memory_of(alone, {own.index: figure}, with_holders=False)
    return next(each for each in found if each.gpu.index == own.index), host.platform == "windows"


def _no_room(bound: Bound) -> RocenvError:
    if bound.limited:
        why = f"`--limit` allows less than {amount(UNIT_BYTES)}, the least that is asked for"
        return LimitTooSmall(why, hints=("an amount says it better: `--limit 1GiB`",))
    why = "".join(f"; {reason}" for reason in bound.reasons)
    return RocenvError(
        f"there is nothing to try with: {amount(bound.free_bytes)} is free{why}",
        hints=("`rocenv mem` shows who has it",),
        code="no-room",
    )

"""The child of `mem probe`: allocates GPU memory, writes to it, checks it, and frees it.

A successful allocation does not prove that the memory exists. Therefore, the GPU fills all of it; then the
child writes unique marks to pages throughout the block, and reads them back after the last write. A missing
mark means that the page was mapped twice or that its contents were lost.

The allocations must not outlive the parent. The child exits when its stdin is closed, even while a vendor
library is running; on Linux, the kernel also kills it, because a library may hang while loading.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.probe import own_process, windows
from rocenv.probe.device import Failure, NoDevice, NotAllocated, Runtime
from rocenv.probe.hip import RUNTIME, Device, choose_device, devices, place_on_bus
from rocenv.probe.library import CallError
from rocenv.probe.session import Session
from rocenv.probe.wire import SMALLEST_BYTES, BlockResult, ExcessResult, FillResult, HipGpu, Opened, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.probe.library import Library
    from rocenv.probe.wire import Kind

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)
_OUT_OF_MEMORY = 2  # hipErrorOutOfMemory
_PAGE_BYTES = 4096
_MARKS = 256  # marked pages per block
_MIN_MARKS = 4
_FILLING = 0x5A
_FREED_WITHIN_S = 1.0  # usually at once


@dataclass(frozen=True, slots=True)
class Block:
    """An allocated block of GPU memory."""

    number: int  # part of the marks, which therefore differ between blocks
    address: int
    size_bytes: int
    marks: int = _MARKS

    def at(self, offset: int) -> ctypes.c_void_p:
        """Return the address at an offset."""
        return ctypes.c_void_p(self.address + offset)

    def offsets(self) -> Iterator[int]:
        """Yield the offsets of the marked pages, including the first and the last page."""
        pages = self.size_bytes // _PAGE_BYTES
        count = min(self.marks, max(1, pages // 2))
        for place in range(count):
            yield (place * (pages - 1) // max(1, count - 1)) * _PAGE_BYTES

    def mark(self, offset: int) -> bytes:
        """The contents of a marked page."""
        return struct.pack("<QQ", self.number, offset) * (_PAGE_BYTES // 16)


def open_gpu(session: Session) -> tuple[Opened, Runtime]:
    """Make the GPU current and test a small block; raise Failure, CallError or NoDevice."""
    device = choose_device(session)
    library = session.library("hip")
    runtime = Runtime(library, RUNTIME)
    first = try_block(runtime, SMALLEST_BYTES)
    if first.outcome != "had":
        raise Failure(f"cannot use even {SMALLEST_BYTES >> 20} MiB: {first.detail or first.answer}")
    gpu = _describe(library, device, _addresses(library))
    return Opened(gpu=gpu, runtime_path=library.path, standin=session.standin), runtime


def list_gpus(session: Session) -> list[HipGpu]:
    """List HIP's GPUs and the memory that it reports; raise the same errors as `open_gpu`."""
    library = session.library("hip")
    addresses = _addresses(library)
    found = []
    for device in devices(library):
        library.call("hipSetDevice", device.ordinal)
        found.append(_describe(library, device, addresses))
    return found


def try_block(runtime: Runtime, size_bytes: int) -> BlockResult:
    """Allocate a block, use it, and free it."""
    before = _free_bytes(runtime)
    block = _allocate(runtime, size_bytes)
    if isinstance(block, BlockResult):
        return block
    try:
        _write(runtime, block)
        wrong = _find_wrong_page(runtime, block)
    except CallError as error:
        _discard(runtime, block)
        return BlockResult(outcome="failed", answer=error.name, detail=f"{error} while using the block")
    is_counted = before - _free_bytes(runtime) > size_bytes // 2
    try:
        runtime.free(block.at(0))
    except CallError as error:
        return BlockResult(outcome="failed", answer=error.name, detail=f"{error} while freeing the block")
    if wrong:
        return BlockResult(outcome="wrong", detail=wrong)
    if is_counted and not _becomes_free(runtime, before - size_bytes // 2):
        why = (
            "the block was freed, but its memory is still in use: the runtime keeps it, or another program"
            " took it"
        )
        return BlockResult(outcome="failed", detail=why)
    return BlockResult(outcome="had")


def fill(
    runtime: Runtime,
    *,
    bound: int,
    piece: int,
    least: int,
    max_pieces: int,
    report: Callable[[int], None],
) -> FillResult:
    """Allocate as many pieces as the runtime grants, check all of them together, and free them.

    The total is limited to `bound` bytes. Pieces start at `piece` bytes, and each refusal halves the size,
    down to `least`. `report` is called with the number of bytes allocated so far.
    """
    blocks: list[Block] = []
    result = BlockResult(outcome="had")
    try:
        while len(blocks) < max_pieces:
            piece = min(piece, bound - sum(block.size_bytes for block in blocks))
            if piece < least:
                break
            # The pieces share the number of marks for one block, because that many marks in each of
            # thousands of pieces would take minutes.
            marks = max(_MIN_MARKS, _MARKS * piece // bound)
            block = _allocate(runtime, piece, number=len(blocks) + 1, marks=marks)
            if isinstance(block, Block):
                blocks.append(block)
                _write(runtime, block)
                report(sum(each.size_bytes for each in blocks))
            elif block.outcome == "refused":
                piece = piece // 2 // SMALLEST_BYTES * SMALLEST_BYTES
            else:
                result = block
                break
        wrong = next(filter(None, (_find_wrong_page(runtime, block) for block in blocks)), "")
        if wrong:
            result = BlockResult(outcome="wrong", detail=wrong)
    except CallError as error:
        result = BlockResult(outcome="failed", detail=f"{error}, with {len(blocks)} pieces in use")
    for block in blocks:
        _discard(runtime, block)
    return FillResult(
        outcome=result.outcome,
        total_bytes=sum(block.size_bytes for block in blocks),
        pieces=len(blocks),
        smallest_bytes=min((block.size_bytes for block in blocks), default=0),
        detail=result.detail or result.answer,
    )


def push(runtime: Runtime, size_bytes: int) -> ExcessResult:
    """Request more memory than exists, as a renderer may do, and test what still works afterward."""
    block = _allocate(runtime, size_bytes)
    if isinstance(block, Block):
        _discard(runtime, block)
    info_answer, free, total = "", 0, 0
    try:
        free, total = runtime.memory_info()
    except CallError as error:
        info_answer = error.name or str(error)
    return ExcessResult(
        granted=isinstance(block, Block),
        answer="" if isinstance(block, Block) else block.answer,
        info_answer=info_answer,
        free_bytes=free,
        total_bytes=total,
        small=try_block(runtime, SMALLEST_BYTES),
    )


def _addresses(library: Library) -> list[str]:
    return [place_on_bus(library, device.ordinal) for device in devices(library)]


def _describe(library: Library, device: Device, addresses: list[str]) -> HipGpu:
    free, total = Runtime(library, RUNTIME).memory_info()
    address = addresses[device.ordinal]
    return HipGpu(
        ordinal=device.ordinal,
        name=device.name,
        target=device.target,
        address=address,
        free_bytes=free,
        total_bytes=total,
        alike=addresses.count(address),
        before=addresses[: device.ordinal].count(address),
    )


def _free_bytes(runtime: Runtime) -> int:
    """The free memory that hipMemGetInfo reports, or 0 if the call fails."""
    try:
        return runtime.memory_info()[0]
    except CallError:
        return 0


def _becomes_free(runtime: Runtime, free_bytes: int) -> bool:
    end = time.monotonic() + _FREED_WITHIN_S
    while _free_bytes(runtime) < free_bytes:
        if time.monotonic() > end:
            return False
        time.sleep(_FREED_WITHIN_S / 20)
    return True


def _allocate(
    runtime: Runtime, size_bytes: int, *, number: int = 1, marks: int = _MARKS
) -> Block | BlockResult:
    """Allocate a block, or return the reason for the failure."""
    try:
        address = runtime.allocate(size_bytes)
    except NotAllocated as error:
        answer = error.name or f"error {error.number}"
        is_refused = error.number == _OUT_OF_MEMORY
        return BlockResult(outcome="refused" if is_refused else "failed", answer=answer, detail=str(error))
    if not address.value:
        return BlockResult(outcome="failed", detail="the runtime reported success but returned no address")
    return Block(number, address.value, size_bytes, marks)


def _write(runtime: Runtime, block: Block) -> None:
    runtime.fill(block.at(0), _FILLING, block.size_bytes)
    runtime.synchronize()
    for offset in block.offsets():
        runtime.upload(block.at(offset), block.mark(offset))


def _find_wrong_page(runtime: Runtime, block: Block) -> str:
    """Check marked pages and some between them; describe one with wrong contents, or return ""."""
    marked = list(block.offsets())
    between = {
        (one + other) // 2 // _PAGE_BYTES * _PAGE_BYTES for one, other in itertools.pairwise(marked)
    }.difference(marked)
    expected = {offset: block.mark(offset) for offset in marked}
    expected |= {offset: bytes([_FILLING]) * _PAGE_BYTES for offset in sorted(between)}
    for offset, content in expected.items():
        if runtime.download(block.at(offset), _PAGE_BYTES) != content:
            where = f"{offset / 2**30:.2f} GiB of {block.size_bytes / 2**30:.2f} GiB"
            return f"the page at {where} does not contain what was written to it"
    return ""


def _discard(runtime: Runtime, block: Block) -> None:
    """Free a block and ignore errors, because the block is also freed when this process exits."""
    with contextlib.suppress(CallError):
        runtime.free(block.at(0))


class Worker:
    """Executes requests. The first request is `open` or `list`; later ones use the open GPU."""

    _runtime: Runtime

    def __init__(self, out: int) -> None:
        self._out = out

    def answer(self, line: str) -> None:
        """Execute the request in a line, and write the result."""
        request = json.loads(line)
        try:
            found = self._run(request.pop("do"), request)
        except NoDevice as error:
            self._write("no-device", str(error))
        except (Failure, CallError) as error:
            self._write("failed", str(error))
        else:
            plain = [asdict(each) for each in found] if isinstance(found, list) else asdict(found)
            self._write("done", plain)

    def _run(self, what: str, arguments: dict[str, Any]) -> Any:
        match what:
            case "open":
                opened, self._runtime = open_gpu(Session(Task.from_plain(arguments["task"])))
                return opened
            case "list":
                return list_gpus(Session(Task.from_plain(arguments["task"])))
            case "try":
                return try_block(self._runtime, arguments["size"])
            case "fill":
                return fill(self._runtime, **arguments, report=lambda size: self._write("progress", size))
            case _:
                return push(self._runtime, arguments["size"])

    def _write(self, kind: Kind, what: object) -> None:
        own_process.flush_c_streams()
        os.write(self._out, json.dumps({"kind": kind, "what": what}).encode() + b"\n")


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent had already died
            os._exit(0)


def _read_requests() -> queue.SimpleQueue[str]:
    """Read requests in a thread that exits the process at the end of stdin."""
    found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            found.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def main(parent: str) -> NoReturn:
    """Write results to the original stdout; `parent` is the process ID of the requesting process."""
    _die_with_parent(int(parent))
    out = own_process.keep_stdout()
    windows.watch_faults()
    requests, worker = _read_requests(), Worker(out)
    while True:
        worker.answer(requests.get())

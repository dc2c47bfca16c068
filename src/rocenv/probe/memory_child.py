"""The child of `mem probe`: allocates memory of a GPU, fills and checks it, and gives it back.

Memory that was granted need not exist. So the GPU fills all of it; then marks are written to pages all over
it, each a different one, and read only when all are written: a page that is also another one, or that nobody
keeps, does not hold its mark.

What the child holds of a GPU's memory must not outlive its parent. The end of stdin ends it, also while it
waits in a vendor library; on Linux the kernel does too, for a library may hang while it is loaded.
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
from rocenv.probe.wire import SMALLEST_BYTES, Filled, Opened, Pushed, Seen, Task, Tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.probe.library import Library
    from rocenv.probe.wire import Kind, Outcome

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)
_OUT_OF_MEMORY = 2  # hipErrorOutOfMemory
_PAGE_BYTES = 4096
_PLACES = 256  # marked pages of a block
_FEWEST_PLACES = 4
_FILLING = 0x5A
_BACK_WITHIN_S = 1.0  # given back, memory is free again as a rule at once


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that was granted."""

    number: int  # in the marks, so that no two blocks have the same
    address: int
    size_bytes: int
    most_places: int = _PLACES

    def at(self, offset: int) -> ctypes.c_void_p:
        """An address in it."""
        return ctypes.c_void_p(self.address + offset)

    def places(self) -> Iterator[int]:
        """Yield the offsets of the pages that are marked, the first and the last among them."""
        pages = self.size_bytes // _PAGE_BYTES
        count = min(self.most_places, max(1, pages // 2))
        for place in range(count):
            yield (place * (pages - 1) // max(1, count - 1)) * _PAGE_BYTES

    def mark(self, offset: int) -> bytes:
        """What a page has to hold."""
        return struct.pack("<QQ", self.number, offset) * (_PAGE_BYTES // 16)


def open_gpu(session: Session) -> tuple[Opened, Runtime]:
    """Make the GPU current, and try a small block of its memory; raise Failure, CallError or NoDevice."""
    device = choose_device(session)
    library = session.library("hip")
    runtime = Runtime(library, RUNTIME)
    first = attempt(runtime, SMALLEST_BYTES)
    if first.outcome != "had":
        raise Failure(f"not even {SMALLEST_BYTES >> 20} MiB can be used: {first.detail or first.answer}")
    gpu = _seen(library, device, _addresses(library))
    return Opened(gpu=gpu, runtime_path=library.path, standin=session.standin), runtime


def all_gpus(session: Session) -> list[Seen]:
    """The GPUs that HIP sees, with what it says of their memory; raise as `open_gpu`."""
    library = session.library("hip")
    places = _addresses(library)
    found = []
    for device in devices(library):
        library.call("hipSetDevice", device.ordinal)
        found.append(_seen(library, device, places))
    return found


def attempt(runtime: Runtime, size_bytes: int) -> Tried:
    """Ask for a block, use it, and give it back."""
    before = _free_bytes(runtime)
    block, refusal = _ask(runtime, size_bytes)
    if block is None:
        return refusal
    try:
        _write(runtime, block)
        wrong = _wrong(runtime, block)
    except CallError as error:
        _drop(runtime, block)
        return Tried(outcome="failed", answer=error.name, detail=f"{error} as it was used")
    counted = before - _free_bytes(runtime) > size_bytes // 2
    try:
        runtime.free(block.at(0))
    except CallError as error:
        return Tried(outcome="failed", answer=error.name, detail=f"{error} as it was to be given back")
    if wrong:
        return Tried(outcome="wrong", detail=wrong)
    if counted and not _comes_back(runtime, before - size_bytes // 2):
        why = "it was given back, and is not free again: the runtime keeps it, or another program took it"
        return Tried(outcome="failed", detail=why)
    return Tried(outcome="had")


def fill(
    runtime: Runtime,
    *,
    bound: int,
    piece: int,
    least: int,
    most_pieces: int,
    tell: Callable[[int], None],
) -> Filled:
    """Take as much as the runtime grants in pieces, check that all of them hold at once, and give them back.

    All together have at most `bound` bytes. The first has `piece` bytes; once that is refused, the next has
    half of it, and so on down to `least`. `tell` is called with the bytes that were had so far.
    """
    blocks: list[Block] = []
    refused, trouble = 0, Tried(outcome="had")
    try:
        while len(blocks) < most_pieces:
            piece = min(piece, bound - sum(block.size_bytes for block in blocks))
            if piece < least:
                break
            # As many marks in all as one block has, or thousands of pieces would take minutes.
            places = max(_FEWEST_PLACES, _PLACES * piece // bound)
            block, answer = _ask(runtime, piece, number=len(blocks) + 1, places=places)
            if block is None and answer.outcome != "refused":
                trouble = answer
                break
            if block is None:
                refused, piece = piece, _half(piece)
                continue
            blocks.append(block)
            _write(runtime, block)
            tell(sum(each.size_bytes for each in blocks))
        wrong = next(filter(None, (_wrong(runtime, block) for block in blocks)), "")
        if wrong:
            trouble = Tried(outcome="wrong", detail=wrong)
    except CallError as error:
        trouble = Tried(outcome="failed", detail=f"{error}, with {len(blocks)} pieces in use")
    for block in blocks:
        _drop(runtime, block)
    return Filled(
        outcome=trouble.outcome,
        total_bytes=sum(block.size_bytes for block in blocks),
        pieces=len(blocks),
        smallest_bytes=min((block.size_bytes for block in blocks), default=0),
        refused_bytes=refused,
        detail=trouble.detail or trouble.answer,
    )


def push(runtime: Runtime, size_bytes: int) -> Pushed:
    """Ask for more than there is, as a renderer does before it gives up, and see what still works then."""
    block, refusal = _ask(runtime, size_bytes)
    if block is not None:
        _drop(runtime, block)
    info_answer, free, total = "", 0, 0
    try:
        free, total = runtime.memory_info()
    except CallError as error:
        info_answer = error.name or str(error)
    return Pushed(
        granted=block is not None,
        answer=refusal.answer,
        info_answer=info_answer,
        free_bytes=free,
        total_bytes=total,
        small=attempt(runtime, SMALLEST_BYTES),
    )


def _addresses(library: Library) -> list[str]:
    return [place_on_bus(library, device.ordinal) for device in devices(library)]


def _seen(library: Library, device: Device, places: list[str]) -> Seen:
    free, total = Runtime(library, RUNTIME).memory_info()
    address = places[device.ordinal]
    return Seen(
        ordinal=device.ordinal,
        name=device.name,
        target=device.target,
        address=address,
        free_bytes=free,
        total_bytes=total,
        alike=places.count(address),
        before=places[: device.ordinal].count(address),
    )


def _free_bytes(runtime: Runtime) -> int:
    """What is free by hipMemGetInfo, 0 where it does not answer."""
    try:
        return runtime.memory_info()[0]
    except CallError:
        return 0


def _comes_back(runtime: Runtime, free_bytes: int) -> bool:
    """Whether so much is free again, soon."""
    end = time.monotonic() + _BACK_WITHIN_S
    while _free_bytes(runtime) < free_bytes:
        if time.monotonic() > end:
            return False
        time.sleep(_BACK_WITHIN_S / 20)
    return True


def _ask(
    runtime: Runtime, size_bytes: int, *, number: int = 1, places: int = _PLACES
) -> tuple[Block | None, Tried]:
    try:
        address = runtime.allocate(size_bytes)
    except NotAllocated as error:
        answer = error.name or f"error {error.number}"
        outcome: Outcome = "refused" if error.number == _OUT_OF_MEMORY else "failed"
        return None, Tried(outcome=outcome, answer=answer, detail=str(error))
    if not address.value:
        return None, Tried(outcome="failed", detail="it was granted without an address")
    return Block(number, address.value, size_bytes, places), Tried(outcome="had")


def _write(runtime: Runtime, block: Block) -> None:
    runtime.fill(block.at(0), _FILLING, block.size_bytes)
    runtime.synchronize()
    for offset in block.places():
        runtime.upload(block.at(offset), block.mark(offset))


def _wrong(runtime: Runtime, block: Block) -> str:
    """What is wrong with what a block holds, "" if nothing is."""
    marked = list(block.places())
    for offset in marked:
        if runtime.download(block.at(offset), _PAGE_BYTES) != block.mark(offset):
            return _at(block, offset)
    neighbours = itertools.pairwise(marked)
    between = {(one + other) // 2 // _PAGE_BYTES * _PAGE_BYTES for one, other in neighbours}
    for offset in sorted(between.difference(marked)):
        if runtime.download(block.at(offset), _PAGE_BYTES) != bytes([_FILLING]) * _PAGE_BYTES:
            return _at(block, offset)
    return ""


def _at(block: Block, offset: int) -> str:
    return (
        f"the page at {offset / 2**30:.2f} GiB of {block.size_bytes / 2**30:.2f} GiB does not hold what was "
        "written to it"
    )


def _drop(runtime: Runtime, block: Block) -> None:
    """Give memory back and report no failure of that; the end of this process does so too."""
    with contextlib.suppress(CallError):
        runtime.free(block.at(0))


def _half(size_bytes: int) -> int:
    return size_bytes // 2 // SMALLEST_BYTES * SMALLEST_BYTES


class Worker:
    """Answers requests: `open` or `list` comes first, and what is asked afterwards is about the open GPU."""

    _runtime: Runtime

    def __init__(self, out: int) -> None:
        self._out = out

    def answer(self, line: str) -> None:
        """Do what one line asks, and say what came of it."""
        words = json.loads(line)
        try:
            found = self._found(words.pop("do"), words)
        except NoDevice as error:
            self._say("no-device", str(error))
        except (Failure, CallError) as error:
            self._say("failed", str(error))
        else:
            self._say("done", [asdict(each) for each in found] if isinstance(found, list) else asdict(found))

    def _found(self, what: str, words: dict[str, Any]) -> Any:
        match what:
            case "open":
                opened, self._runtime = open_gpu(Session(Task.from_plain(words["task"])))
                return opened
            case "list":
                return all_gpus(Session(Task.from_plain(words["task"])))
            case "try":
                return attempt(self._runtime, words["size"])
            case "fill":
                return fill(self._runtime, **words, tell=lambda size_bytes: self._say("progress", size_bytes))
            case _:
                return push(self._runtime, words["size"])

    def _say(self, kind: Kind, what: object) -> None:
        own_process.flush_c_streams()
        os.write(self._out, json.dumps({"kind": kind, "what": what}).encode() + b"\n")


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before that
            os._exit(0)


def _requests() -> queue.SimpleQueue[str]:
    """Where requests come, read by a thread that ends this process with its stdin."""
    found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            found.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def main(parent: str) -> NoReturn:
    """Answer on the original stdout, one request after the other; `parent` is the process that asks."""
    _die_with_parent(int(parent))
    out = own_process.keep_stdout()
    windows.watch_faults()
    requests, worker = _requests(), Worker(out)
    while True:
        worker.answer(requests.get())

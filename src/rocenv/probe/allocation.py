"""Memory of a GPU asked for, written all over, checked and given back: what the child of `mem --probe` does.

Memory that was granted need not be there. So all of it is filled by the GPU, then marks are written to pages
all over it, each another one, and only when all are written, they are read: a page that is another one's too,
or that nobody keeps, does not hold its mark.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.probe.device import Failure, NotAllocated, Runtime
from rocenv.probe.hip import RUNTIME
from rocenv.probe.hip_device import Device, choose_device, devices, place_on_bus
from rocenv.probe.library import CallError
from rocenv.probe.memory_wire import SMALLEST_BYTES, Filled, Opened, Pushed, Seen, Tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.probe.library import Library
    from rocenv.probe.memory_wire import Outcome
    from rocenv.probe.session import Session

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
        """Return an address in it."""
        return ctypes.c_void_p(self.address + offset)

    def places(self) -> Iterator[int]:
        """Yield the offsets of the pages that are marked, the first and the last among them."""
        pages = self.size_bytes // _PAGE_BYTES
        count = min(self.most_places, max(1, pages // 2))
        for place in range(count):
            yield (place * (pages - 1) // max(1, count - 1)) * _PAGE_BYTES

    def mark(self, offset: int) -> bytes:
        """Return what a page has to hold."""
        return struct.pack("<QQ", self.number, offset) * (_PAGE_BYTES // 16)


def open_gpu(session: Session) -> tuple[Opened, Runtime]:
    """Make the GPU current, and try a small block of its memory; raise Failure, CallError or NoDevice."""
    device = choose_device(session)
    library = session.library("hip")
    runtime = Runtime(library, RUNTIME)
    first = attempt(runtime, SMALLEST_BYTES)
    if first.outcome != "had":
        raise Failure(f"not even {SMALLEST_BYTES >> 20} MiB can be used: {first.detail or first.answer}")
    gpu = _seen(library, device, _places(library))
    return Opened(gpu=gpu, runtime_path=library.path, standin=session.standin), runtime


def all_gpus(session: Session) -> list[Seen]:
    """Return the GPUs that HIP sees, with what it says of their memory; raise as `open_gpu`."""
    library = session.library("hip")
    places = _places(library)
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
    """Take as much as can be had in pieces, check that all of them hold at once, and give them back.

    Args:
        runtime: Of the GPU.
        bound: Bytes that must not be exceeded.
        piece: The size of the first pieces; once it is refused, half of it, and so on.
        least: No piece is smaller.
        most_pieces: Where to stop in any case.
        tell: Called with the bytes that were had so far.
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


def _places(library: Library) -> list[str]:
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
    """Return what is free by hipMemGetInfo, 0 where it does not answer."""
    try:
        return runtime.memory_info()[0]
    except CallError:
        return 0


def _comes_back(runtime: Runtime, free_bytes: int) -> bool:
    """Tell whether so much is free again, soon."""
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
    """Return what is wrong with what a block holds, "" if nothing is."""
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
    """Give memory back where a failure of that is not what is told; the end of this process does so too."""
    with contextlib.suppress(CallError):
        runtime.free(block.at(0))


def _half(size_bytes: int) -> int:
    return size_bytes // 2 // SMALLEST_BYTES * SMALLEST_BYTES

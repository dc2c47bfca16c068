"""What the HIP runtime of an env says of the memory of a machine's GPUs, and which GPU each word is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.asking import first_answer, hip_session
from rocenv.memory.gpus import HipFigure
from rocenv.probe.wire import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.host import Gpu, Host
    from rocenv.prefix import Prefix

LIST_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HipWord:
    """What HIP says."""

    figures: Mapping[int, HipFigure] = field(default_factory=dict)  # by index of the GPU
    notes: tuple[str, ...] = ()


def hip_memory(
    prefix: Prefix, record: Record, matrix: Matrix, host: Host, *, timeout_s: float = LIST_TIMEOUT_S
) -> HipWord:
    """Return what HIP of an env says of each GPU's memory; where it says nothing, a note has why."""
    if host.named:
        return HipWord()
    try:
        with hip_session(prefix, record, matrix, timeout_s) as session:
            seen = first_answer(session, prefix.name, tuple[Seen, ...], "list")
    except RocenvError as error:
        return HipWord(notes=(f"HIP of `{prefix.name}` was asked too, and says nothing: {error.message}",))
    found: dict[int, HipFigure] = {}
    notes = []
    for each in seen:
        gpu = gpu_of(each, host.gpus)
        if gpu is None or gpu.index in found:
            notes.append(_left_out(prefix.name, each))
        else:
            found[gpu.index] = HipFigure(free_bytes=each.free_bytes, total_bytes=each.total_bytes)
    silent = [gpu.index for gpu in host.gpus if gpu.index not in found]
    if silent:
        notes.append(f"HIP of `{prefix.name}` says nothing of GPU {ranges(silent)}")
    return HipWord(figures=found, notes=tuple(notes))


def gpu_of(seen: Seen, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU that HIP means, None where none of them is or it cannot be told which."""
    there = [gpu for gpu in gpus if gpu.address and gpu.address == seen.address]
    if there:
        # Partitions of a board share its place: only where HIP lists all of them are both orders the same.
        return there[seen.before] if len(there) == seen.alike else None
    alike = [
        gpu
        for gpu in gpus
        if not (gpu.address and seen.address) and (not gpu.target or gpu.target == seen.target)
    ]
    if len(alike) == 1:
        return alike[0]
    return next((gpu for gpu in alike if gpu.hip_index == seen.ordinal), None)


def _left_out(env: str, seen: Seen) -> str:
    place = f" at {seen.address}" if seen.address else ""
    return (
        f"HIP of `{env}` shows {printable(seen.name) or 'a GPU'} ({printable(seen.target)}){place}, and which"
        f" of the GPUs here that is cannot be told: its {amount(seen.free_bytes)} free of"
        f" {amount(seen.total_bytes)} are left out of account"
    )

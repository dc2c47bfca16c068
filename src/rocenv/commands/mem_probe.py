"""`rocenv mem --probe`: how much memory of a GPU can be had."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.output import colour, columns, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount
from rocenv.memory.env import env_for
from rocenv.memory.limits import Limit
from rocenv.memory.probe import probe_memory
from rocenv.memory.probe_result import more_than
from rocenv.probe.wire import STANDIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.progress import Wait
    from rocenv.memory.limits import Bound
    from rocenv.memory.probe_result import ProbeResult
    from rocenv.probe.wire import Opened

_ALIKE = 0.03  # of what was had: a difference that needs no explanation


def show_probe(name: str, limit: str, *, as_json: bool) -> int:
    """Find out how much memory can be had with the HIP runtime of env `name`, and show it."""
    wanted = _parsed(limit)
    context = Context()
    prefix = env_for(context.home, os.environ, name)
    record = prefix.record()
    with context.progress.wait("Trying the memory of the GPU") as stage:
        title = stage.title
        found = probe_memory(
            prefix,
            record,
            context.matrix,
            limit=wanted,
            tell=lambda what: _move(stage, what),
            begin=lambda opened, bound, too_much: note(_beginning(opened, bound, too_much)),
        )
        stage.title = title
    if as_json:
        print_json(_plain(found))
    else:
        _print(found)
    return 1 if found.troubles else 0


def _parsed(limit: str) -> Limit:
    try:
        return Limit.parse(limit) if limit else Limit()
    except ValueError as error:
        raise click.UsageError(f"--limit: {error}") from error


def _move(stage: Wait, what: str) -> None:
    stage.title = what
    stage.tick()


def _beginning(opened: Opened, bound: Bound, too_much: int) -> str:
    """Return what is going to happen, said before it does."""
    gpu = opened.gpu
    standin = f"{STANDIN}: " if opened.standin else ""
    reasons = "".join(f"; {reason}" for reason in bound.reasons)
    last = f"; then {amount(too_much)} are asked for, which should be refused" if too_much else ""
    return (
        f"{standin}{printable(gpu.name) or 'the GPU'} ({printable(gpu.target)}):"
        f" {_free(bound)},"
        f" {amount(bound.size_bytes)} will be taken at most and given back{reasons}{last}"
    )


def _free(bound: Bound) -> str:
    if bound.is_told:
        return f"{amount(bound.free_bytes)} is told to be free"
    return f"{amount(bound.free_bytes)} may be free"


def _print(found: ProbeResult) -> None:
    rows: list[tuple[str, ...]] = [
        ("told", _told(found)),
        ("left alone", _left(found.bound)),
        ("in one piece", _largest(found)),
        ("in pieces", _pieces(found)),
        ("too much", _refusal(found)),
    ]
    click.echo(sanitized(columns(rows)))
    for text in _explanations(found):
        click.echo(sanitized(text))
    for trouble in found.troubles:
        click.echo(f"{colour('broken', 'red')}: {sanitized(trouble)}")
    if found.troubles:
        click.echo(_BROKEN)
    for text in found.memory.notes:
        note(text)


_BROKEN = (
    "A program that takes that much ends in the same way; `rocenv diagnose LOG` knows causes, and the same "
    "in another env shows whether it is the runtime."
)


def _told(found: ProbeResult) -> str:
    gpu, memory = found.opened.gpu, found.memory
    hip = f"HIP says {amount(gpu.free_bytes)} of {amount(gpu.total_bytes)}"
    if memory.free_bytes is None or memory.source == "HIP":
        return f"{hip} is free"
    return (
        f"{amount(memory.free_bytes)} of {amount(memory.total_bytes)} is free, by "
        f"{memory.source or 'nobody'}; {hip}"
    )


def _left(bound: Bound) -> str:
    why = "; ".join(bound.reasons)
    return why or "nothing: no display is connected to this GPU, and nobody uses it"


def _largest(found: ProbeResult) -> str:
    count = len(found.steps)
    steps = f"{count} step{'s' * (count != 1)}, {found.elapsed_s:.1f} s in all"
    if not found.largest_bytes:
        return f"nothing ({steps})"
    size = amount(found.largest_bytes)
    if found.reached_bound:
        return f"{size}, all that was tried for ({steps})"
    first = min((step for step in found.steps if step.became != "had"), key=lambda step: step.asked_bytes)
    more = more_than(first.asked_bytes, found.largest_bytes)
    if first.is_trouble:
        return f"{size}; {more} is not refused, it goes wrong, as is told below ({steps})"
    return f"{size}; {more} is too much: {first.answer} ({steps})"


def _pieces(found: ProbeResult) -> str:
    pieces = found.pieces
    if pieces is None:
        return "not tried"
    count = f"{pieces.count} piece{'s' * (pieces.count != 1)}"
    smallest = f", the smallest of {amount(pieces.smallest_bytes)}" if pieces.count > 1 else ""
    return f"{amount(pieces.total_bytes)} in {count}{smallest}"


def _refusal(found: ProbeResult) -> str:
    refusal = found.refusal
    if refusal is None:
        return "not tried: `--limit`" if found.bound.limit_given else "not tried"
    asked = amount(refusal.asked_bytes)
    if refusal.became == "granted":
        return f"{asked} was granted, more than there is; nothing was written to it"
    if refusal.became != "refused":
        return f"{asked}: {refusal.became}"
    after = refusal.info or ("" if refusal.trouble else "all works afterwards")
    return f"{asked} is refused with {refusal.answer}{f'; {after}' if after else ''}"


def _explanations(found: ProbeResult) -> Iterator[str]:
    """Yield what the figures mean where they differ."""
    total = found.pieces.total_bytes if found.pieces is not None and not found.pieces.trouble else 0
    if total - found.largest_bytes > _ALIKE * total and not any(step.is_trouble for step in found.steps):
        yield (
            f"The free memory is in pieces: {amount(found.largest_bytes)} is the most that a program gets at "
            f"once, though {amount(total)} can be had. What takes one large block, a model's weights or a "
            "scene's textures, fails earlier than the free memory says. Ending programs that use the GPU"
            " joins the pieces."
        )
    if total and not found.reached_bound and found.bound.size_bytes - total > _ALIKE * total:
        yield (
            f"Of {amount(found.bound.free_bytes)} that is told to be free, no more than {amount(total)} "
            "could be had: others have memory that is not counted, or took some meanwhile."
            if found.bound.is_told
            else f"No more than {amount(total)} could be had."
        )
    if found.reached_bound and found.bound.limited:
        yield "More was not tried, since `--limit` allows no more."
    elif found.reached_bound:
        yield (
            "More was not tried: what is left alone may be free, and taking it may cost the desktop or other "
            "programs theirs."
            if found.bound.left_bytes >= 1 << 20
            else "All that is told to be free can be had."
            if found.bound.is_told
            else "More was not tried, since nothing says how much is free."
        )
    refusal = found.refusal
    if refusal is not None and refusal.became == "granted":
        yield (
            "A request beyond the card is granted here: a program that takes too much is not refused, it "
            "becomes slow, since memory is moved to the machine's."
        )
    elif refusal is not None and refusal.became in ("crashed", "timeout"):
        yield (
            "With this runtime a program that runs out of memory has no chance to say so: it crashes or "
            "hangs, as renderers do without a message."
        )


def _plain(found: ProbeResult) -> dict[str, Any]:
    """Return it as `mem --probe --json` prints it."""
    gpu, memory, bound = found.opened.gpu, found.memory, found.bound
    pieces, refusal = found.pieces, found.refusal
    return {
        "env": found.env,
        "gpu": {
            "index": memory.gpu.index if memory.gpu.source != "HIP" else None,
            "name": gpu.name,
            "target": gpu.target,
            "address": gpu.address or None,
            "display": found.display,
        },
        "runtime": found.opened.runtime_path,
        "standin": found.opened.standin,
        "told": {
            "free_bytes": memory.free_bytes,
            "total_bytes": memory.total_bytes,
            "source": memory.source,
            "hip_free_bytes": gpu.free_bytes,
            "hip_total_bytes": gpu.total_bytes,
        },
        "bound": {
            "size_bytes": bound.size_bytes,
            "left_bytes": bound.left_bytes,
            "limited": bound.limited,
            "reasons": list(bound.reasons),
        },
        "largest": {
            "size_bytes": found.largest_bytes,
            "is_bound": found.reached_bound,
            "resolution_bytes": found.resolution_bytes,
        },
        "pieces": pieces
        and {
            "size_bytes": pieces.total_bytes,
            "count": pieces.count,
            "smallest_bytes": pieces.smallest_bytes,
        },
        "too_much": refusal
        and {
            "asked_bytes": refusal.asked_bytes,
            "became": refusal.became,
            "answer": refusal.answer or None,
            "info": refusal.info or None,
        },
        "steps": [
            {
                "asked_bytes": step.asked_bytes,
                "became": step.became,
                "answer": step.answer or None,
                "detail": step.detail or None,
                "elapsed_s": round(step.elapsed_s, 3),
            }
            for step in found.steps
        ],
        "troubles": list(found.troubles),
        "explanations": list(_explanations(found)),
        "notes": list(memory.notes),
        "elapsed_s": round(found.elapsed_s, 3),
    }

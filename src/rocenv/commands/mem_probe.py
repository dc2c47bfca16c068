"""`rocenv mem probe`: test how much GPU memory a program can allocate."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.options import active_env_argument, json_option, text_option
from rocenv.commands.output import color, columns, fields, fields_or_none, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.host.gpu import printable
from rocenv.memory.amounts import MIB, amount
from rocenv.memory.env import env_for
from rocenv.memory.probe import parse_limit, probe_memory
from rocenv.probe.wire import STANDIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.memory.probe import Bound, ProbeResult
    from rocenv.probe.wire import Opened

_ALIKE = 0.03  # relative difference too small to need an explanation


@click.command()
@active_env_argument
@text_option(
    "--limit", "SIZE", candidates.limits, help="Use at most this much: `6GiB`, or `80%` of the free memory."
)
@json_option
def probe(name: str, limit: str, as_json: bool) -> int:
    """Test how much memory a program can allocate.

    The test allocates memory through the HIP runtime of env NAME (default: the active env), fills it, reads
    it back, and frees it. It leaves memory for the desktop and other programs.
    """
    try:
        allowed = parse_limit(limit) if limit else None
    except ValueError as error:
        raise click.UsageError(f"--limit: {error}") from error
    context = Context()
    prefix = env_for(context.home, os.environ, name)
    record = prefix.record()
    with context.progress.wait("Testing GPU memory"):
        result = probe_memory(prefix, record, context.matrix, limit=allowed, announce=_announce)
    if as_json:
        print_json(_json(result))
    else:
        _print(result)
    return 1 if result.troubles else 0


def _announce(opened: Opened, bound: Bound, excess_bytes: int) -> None:
    """Announce what the test will do."""
    gpu = opened.gpu
    standin = f"{STANDIN}: " if opened.standin else ""
    last = f"; then it requests {amount(excess_bytes)}, which should be refused" if excess_bytes else ""
    note(
        f"{standin}{printable(gpu.name) or 'the GPU'} ({printable(gpu.target)}): the test allocates at most"
        f" {amount(bound.size_bytes)} and frees it again{last}"
    )


def _print(result: ProbeResult) -> None:
    gpu, memory, steps = result.opened.gpu, result.memory, len(result.steps)
    free, total, source = memory.free_bytes, memory.total_bytes, memory.source
    if free is None:
        free, total, source = gpu.free_bytes, gpu.total_bytes, "HIP, implausible"
    rows: list[tuple[str, ...]] = [
        ("reported", f"{amount(free)} of {amount(total)} free ({source})"),
        ("reserved", "; ".join(result.bound.reasons) or "nothing"),
        ("in one block", _largest(result)),
        ("in pieces", _pieces(result)),
        ("beyond the total", _excess(result)),
        ("tested", f"{steps} step{'s' * (steps != 1)}, {result.elapsed_s:.1f} s"),
    ]
    click.echo(sanitized(columns(rows)))
    for text in _explanations(result):
        click.echo(sanitized(text))
    for trouble in result.troubles:
        click.echo(f"{color('broken', 'red')}: {sanitized(trouble)}")
    if result.troubles:
        click.echo("`rocenv doctor` checks this machine. To rule out the runtime, test another env.")
    for text in memory.notes:
        note(text)


def _largest(result: ProbeResult) -> str:
    size = amount(result.largest_bytes) if result.largest_bytes else "nothing"
    if result.reached_bound:
        return f"{size}, the test's limit"
    first = min((step for step in result.steps if step.became != "had"), key=lambda step: step.asked_bytes)
    why = "fails, see below" if first.is_trouble else f"is refused with {first.answer}"
    return f"{size}; more {why}"


def _pieces(result: ProbeResult) -> str:
    pieces = result.pieces
    if pieces is None:
        return "not tried"
    smallest = f", the smallest being {amount(pieces.smallest_bytes)}" if pieces.pieces > 1 else ""
    return f"{amount(pieces.total_bytes)} in {pieces.pieces} piece{'s' * (pieces.pieces != 1)}{smallest}"


def _excess(result: ProbeResult) -> str:
    excess = result.excess
    if excess is None:
        return "not tried"
    if excess.became == "granted":
        return f"{amount(excess.asked_bytes)}: granted, although the GPU has less"
    answer = f" with {excess.answer}" if excess.answer else ""
    after = f"; {excess.info}" if excess.info else ""
    return f"{amount(excess.asked_bytes)}: {excess.became}{answer}{after}"


def _explanations(result: ProbeResult) -> Iterator[str]:
    """Explain what the results mean for programs."""
    bound, largest, excess, pieces = result.bound, result.largest_bytes, result.excess, result.pieces
    total = pieces.total_bytes if pieces is not None and pieces.outcome == "had" else 0
    if total - largest > _ALIKE * total and not any(step.is_trouble for step in result.steps):
        yield (
            f"The free memory is fragmented: a program gets at most {amount(largest)} in one block, although"
            f" {amount(total)} is free. To reduce fragmentation, close other programs that use the GPU."
        )
    if total and not result.reached_bound and bound.size_bytes - total > _ALIKE * total:
        yield f"Only {amount(total)} could be allocated: other programs use memory that no counter shows."
    if result.reached_bound and bound.free_bytes - bound.size_bytes >= MIB:
        yield "The test did not try larger blocks."
    if excess is not None and excess.became == "granted":
        yield (
            "This runtime grants more memory than the GPU has: a program that allocates too much does not get"
            " an error but becomes slow, because its data moves to system memory."
        )
    elif excess is not None and excess.became in ("crashed", "timeout"):
        yield (
            "With this runtime, a program that runs out of memory crashes or hangs without an error message."
        )


def _json(result: ProbeResult) -> dict[str, Any]:
    """The document that `mem probe --json` prints."""
    gpu, memory, bound = result.opened.gpu, result.memory, result.bound
    pieces, excess = result.pieces, result.excess
    return {
        "env": result.env,
        "gpu": {
            "index": memory.gpu.index if memory.gpu.source != "HIP" else None,
            **fields(gpu, "name", "target"),
            **fields_or_none(gpu, "address"),
            "display": result.display,
        },
        "runtime": result.opened.runtime_path,
        "standin": result.opened.standin,
        "told": {
            **fields(memory, "free_bytes", "total_bytes", "source"),
            "hip_free_bytes": gpu.free_bytes,
            "hip_total_bytes": gpu.total_bytes,
        },
        "bound": {
            "size_bytes": bound.size_bytes,
            "left_bytes": bound.free_bytes - bound.size_bytes,
            "limited": bound.is_limited,
            "reasons": list(bound.reasons),
        },
        "largest": {
            "size_bytes": result.largest_bytes,
            "is_bound": result.reached_bound,
            "resolution_bytes": result.resolution_bytes,
        },
        "pieces": pieces
        and {
            "size_bytes": pieces.total_bytes,
            "count": pieces.pieces,
            "smallest_bytes": pieces.smallest_bytes,
        },
        "too_much": excess
        and {**fields(excess, "asked_bytes", "became"), **fields_or_none(excess, "answer", "info")},
        "steps": [
            {
                **asdict(step),
                **fields_or_none(step, "answer", "detail"),
                "elapsed_s": round(step.elapsed_s, 3),
            }
            for step in result.steps
        ],
        "troubles": list(result.troubles),
        "explanations": list(_explanations(result)),
        "notes": list(memory.notes),
        "elapsed_s": round(result.elapsed_s, 3),
    }

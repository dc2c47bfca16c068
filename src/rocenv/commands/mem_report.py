"""`rocenv mem`: the report, once or again and again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.calling_shell import calling_shell
from rocenv.commands.mem_hip import env_or_active, hip_word
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.gpus import look
from rocenv.memory.graph import can_draw, line
from rocenv.memory.hip_figures import HipWord
from rocenv.memory.reclaim import Reclaimable, reclaimable
from rocenv.memory.told import figures, lines_of, look_json
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory, HipFigure, Look

INTERVAL_S = 1.0
_HISTORY = 600  # looks
_GRAPH = 60
_BESIDE = len("GPU 100 || 100% in use")  # of the graph


@dataclass
class Report:
    """What is looked at, and what was found the last times."""

    context: Context
    host: Host
    hip: Mapping[int, HipFigure]
    notes: tuple[str, ...] = ()  # about HIP
    shares: dict[int, deque[float | None]] = field(default_factory=dict)  # in use, by index of the GPU

    def look(self) -> tuple[Look, tuple[Reclaimable, ...]]:
        """Look once."""
        found = look(self.host, self.hip)
        for each in found.gpus:
            past = self.shares.setdefault(each.gpu.index, deque(maxlen=_HISTORY))
            known = each.used_bytes is not None and each.total_bytes
            past.append((each.used_bytes or 0) / (each.total_bytes or 1) if known else None)
        rows = self.context.matrix.reclaim
        return found, reclaimable(found.gpus, rows, windows=self.host.platform == "windows")


def show_memory(name: str = "", *, watch: bool, as_json: bool) -> int:
    """Show the memory of each GPU.

    Args:
        name: The env whose HIP runtime is asked too, "" = the one that is active, if any.
        watch: Again and again, until it is interrupted.
        as_json: For scripts; with `watch` one document a line.
    """
    from rocenv.host import detect

    context = Context()
    host = detect(context.matrix)
    name = "" if watch else env_or_active(context, host, name)
    said = hip_word(context, host, name)[0] if name else HipWord()
    report = Report(context=context, host=host, hip=said.figures, notes=said.notes)
    if watch and host.gpus:
        _watch(report, as_json=as_json)
        return 0
    found, back = report.look()
    if as_json:
        if watch:  # of what never changes, one line
            click.echo(json.dumps(_timed(report, found, back)))
        else:
            print_json(_document(report, found, back))
        return 0
    for text in _lines(report, found, back):
        click.echo(sanitized(text))
    for text in (*_remarks(found), *report.notes):
        note(text)
    return 0


def _lines(report: Report, found: Look, back: tuple[Reclaimable, ...]) -> list[str]:
    blocks = can_draw(sys.stdout.encoding)
    lines: list[str] = []
    for each in found.gpus:
        lines += [*([""] if lines else []), *lines_of(each, blocks=blocks)]
    if not found.gpus:
        lines.append(f"no GPU whose memory could be shown: {report.host.why}")
    return lines + _back_lines(back)


def _back_lines(back: tuple[Reclaimable, ...]) -> list[str]:
    if not back:
        return []
    lines = ["", "can be had back (what programs keep while they may be idle):"]
    for each in back:
        pids = ", ".join(map(str, each.pids))
        lines += [
            f"  {amount(each.size_bytes)} of {each.row.title} ({pids}): {each.row.text}",
            f"    {each.command(_shell())}",
        ]
    return lines


def _remarks(found: Look) -> list[str]:
    # What is said of several GPUs alike is said once.
    whose: dict[str, list[int]] = {}
    for each in found.gpus:
        for text in each.notes:
            whose.setdefault(text, []).append(each.gpu.index)
    lines = [f"GPU {ranges(indices)}: {text}" for text, indices in whose.items()]
    if found.unseen and any(each.unexplained_bytes for each in found.gpus):
        one = found.unseen == 1
        these = "1 process of another user" if one else f"{found.unseen} processes of other users"
        lines.append(f"{these} could not be looked at; root sees more")
    return lines + list(found.notes)


def _shell() -> str:
    return calling_shell("windows" if WINDOWS else "linux")


# ---------------------------------------------------------------- again and again


def _watch(report: Report, *, as_json: bool) -> None:
    """Show it until it is interrupted, which ends the command."""
    if as_json:
        for found, back in _looks(report):
            click.echo(json.dumps(_timed(report, found, back)))
    elif _draws():
        _live(report)
    else:
        for found, _ in _looks(report):
            now = datetime.now().strftime("%H:%M:%S")
            for each in found.gpus:
                click.echo(sanitized(f"{now}  GPU {each.gpu.index}: {figures(each, blocks=False)}"))
            sys.stdout.flush()


def _draws() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def _looks(report: Report) -> Iterator[tuple[Look, tuple[Reclaimable, ...]]]:
    while True:
        begin = time.monotonic()
        yield report.look()
        time.sleep(max(0.1, INTERVAL_S - (time.monotonic() - begin)))


def _document(report: Report, found: Look, back: tuple[Reclaimable, ...]) -> dict[str, Any]:
    document = look_json(found, back, _shell())
    document["notes"] += [*report.notes, *([] if report.host.gpus else [report.host.why])]
    return document


def _timed(report: Report, found: Look, back: tuple[Reclaimable, ...]) -> dict[str, Any]:
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    return {"time": now, **_document(report, found, back)}


def _live(report: Report) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        for found, back in _looks(report):
            lines = [*_graphs(report, found, live.console.width), *_lines(report, found, back)]
            lines += ["", *(f"note: {text}" for text in _remarks(found)), "Ctrl-C ends it"]
            live.update(Text(sanitized("\n".join(lines)), no_wrap=True, overflow="ellipsis"), refresh=True)


def _graphs(report: Report, found: Look, columns: int) -> list[str]:
    """Return a line for each GPU; its end, which is now, must not be what a narrow terminal cuts off."""
    blocks = can_draw(sys.stdout.encoding)
    width = max(1, min(_GRAPH, columns - _BESIDE))
    drawn = []
    for each in found.gpus:
        past = line(list(report.shares[each.gpu.index]), width, blocks=blocks)
        drawn.append(f"GPU {each.gpu.index} |{past}| {_share(each)}")
    return [*drawn, ""]


def _share(each: GpuMemory) -> str:
    if each.used_bytes is None or not each.total_bytes:
        return "?"
    return f"{each.used_bytes / each.total_bytes:.0%} in use"

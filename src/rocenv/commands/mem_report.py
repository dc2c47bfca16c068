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
from rocenv.commands.world import World, harmless, note, print_json
from rocenv.memory.amounts import amount
from rocenv.memory.gpus import look
from rocenv.memory.graph import can_draw, line
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
_UNSEEN = "processes of other users could not be looked at; root sees them"


@dataclass
class Report:
    """What is looked at, and what was found the last times."""

    world: World
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
        rows = self.world.matrix.reclaim
        return found, reclaimable(found.gpus, rows, windows=self.host.platform == "windows")


def show_memory(name: str = "", *, watch: bool, as_json: bool) -> int:
    """Show the memory of each GPU.

    Args:
        name: The env whose HIP runtime is asked too, "" = the one that is active, if any.
        watch: Again and again, until it is interrupted.
        as_json: For scripts; with `watch` one document a line.
    """
    from rocenv.host import detect

    world = World()
    host = detect(world.matrix)
    name = name or ("" if watch or not host.gpus else _active_env(world))
    hip, why = _hip_figures(world, host, name) if name else ({}, "")
    report = Report(world=world, host=host, hip=hip, notes=(why,) if why else ())
    if watch and host.gpus:
        _watch(report, as_json=as_json)
        return 0
    found, back = report.look()
    if as_json:
        document = look_json(found, back, powershell=_powershell())
        document["notes"] += [*report.notes, *([] if host.gpus else [host.why])]
        print_json(document)
        return 0
    for text in _lines(report, found, back):
        click.echo(harmless(text))
    for text in (*_remarks(found), *report.notes):
        note(text)
    return 0


def _active_env(world: World) -> str:
    """Return the name of the env that is active, "" where none is, or another machine is looked at."""
    from rocenv.install.prefix import all_prefixes
    from rocenv.memory.env import active_env
    from rocenv.system.machine import examined_elsewhere

    if examined_elsewhere():
        return ""
    found = active_env([each for each in all_prefixes(world.home) if each.state == "complete"], os.environ)
    return found.name if found else ""


def _hip_figures(world: World, host: Host, name: str) -> tuple[Mapping[int, HipFigure], str]:
    """Return what the HIP runtime of an env says, or why it says nothing."""
    from rocenv.memory.probe import hip_memory

    prefix = world.prefix(name)
    record = prefix.record()
    with world.progress.stage(f"Asking HIP of {name}"):
        said = hip_memory(prefix, record, world.matrix, host)
    if isinstance(said, str):
        return {}, f"HIP of `{name}` was asked too, and says nothing: {said}"
    return said, ""


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
            f"    {each.command(powershell=_powershell())}",
        ]
    return lines


def _remarks(found: Look) -> list[str]:
    # What is said of several GPUs alike is said once.
    whose: dict[str, list[str]] = {}
    for each in found.gpus:
        for text in each.notes:
            whose.setdefault(text, []).append(str(each.gpu.index))
    lines = [f"GPU {', '.join(indices)}: {text}" for text, indices in whose.items()]
    if found.unseen and any(each.unexplained_bytes for each in found.gpus):
        lines.append(f"{found.unseen} {_UNSEEN}")
    return lines + list(found.notes)


def _powershell() -> bool:
    return calling_shell("windows" if WINDOWS else "linux") in ("powershell", "cmd")


# ---------------------------------------------------------------- again and again


def _watch(report: Report, *, as_json: bool) -> None:
    """Show it until it is interrupted, which ends the command."""
    for text in report.notes:
        note(text)
    if as_json:
        for document in _documents(report):
            click.echo(json.dumps(document))
    elif _draws():
        _live(report)
    else:
        for found, _ in _looks(report):
            now = datetime.now().strftime("%H:%M:%S")
            for each in found.gpus:
                click.echo(harmless(f"{now}  GPU {each.gpu.index}: {figures(each, blocks=False)}"))
            sys.stdout.flush()


def _draws() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def _looks(report: Report) -> Iterator[tuple[Look, tuple[Reclaimable, ...]]]:
    while True:
        begin = time.monotonic()
        yield report.look()
        time.sleep(max(0.1, INTERVAL_S - (time.monotonic() - begin)))


def _documents(report: Report) -> Iterator[dict[str, Any]]:
    for found, back in _looks(report):
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        yield {"time": now, **look_json(found, back, powershell=_powershell())}


def _live(report: Report) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        for found, back in _looks(report):
            lines = [*_graphs(report, found), *_lines(report, found, back)]
            lines += ["", *(f"note: {text}" for text in _remarks(found)), "Ctrl-C ends it"]
            live.update(Text(harmless("\n".join(lines)), no_wrap=True, overflow="ellipsis"), refresh=True)


def _graphs(report: Report, found: Look) -> list[str]:
    blocks = can_draw(sys.stdout.encoding)
    drawn = [
        f"GPU {each.gpu.index} |{_graph(report, each, blocks=blocks)}| {_share(each)}" for each in found.gpus
    ]
    return [*drawn, ""]


def _graph(report: Report, each: GpuMemory, *, blocks: bool) -> str:
    return line(list(report.shares[each.gpu.index]), _GRAPH, blocks=blocks)


def _share(each: GpuMemory) -> str:
    if each.used_bytes is None or not each.total_bytes:
        return "?"
    return f"{each.used_bytes / each.total_bytes:.0%} in use"

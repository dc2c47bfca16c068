"""`rocenv mem show` and `rocenv mem watch`: GPU memory, once or every second."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.calling_shell import calling_shell
from rocenv.commands.options import active_env_argument, json_option
from rocenv.commands.output import fields, fields_or_none, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.host import detect
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.env import EnvView, view_of_env
from rocenv.memory.gpus import read_usage
from rocenv.memory.reclaim import Reclaimable, find_reclaimable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory, Usage
    from rocenv.memory.holders import Holder

_INTERVAL_S = 1.0
_GRAPH = 40  # columns
_MAX_HOLDERS = 10  # per GPU; `--json` lists them all
_MAX_NAME = 40  # characters
_INTERPRETERS = ("python", "perl", "node", "java", "ruby")
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


@dataclass(frozen=True)
class _Report:
    """A snapshot of the memory."""

    usage: Usage
    programs: tuple[Reclaimable, ...]
    host: Host
    hip: EnvView = field(default_factory=EnvView)

    @classmethod
    def look(cls, context: Context, host: Host, hip: EnvView | None = None) -> _Report:
        hip = hip or EnvView()
        usage = read_usage(host, hip.figures)
        rows = context.matrix.reclaim
        programs = find_reclaimable(usage.gpus, rows, windows=host.platform == "windows")
        return cls(usage, programs, host, hip)

    def document(self) -> dict[str, Any]:
        program_of = {pid: each.row.program for each in self.programs for pid in each.pids}
        return {
            "gpus": [_gpu_json(each, program_of) for each in self.usage.gpus],
            "processes_not_seen": self.usage.hidden,
            "reclaimable": [
                {
                    "program": each.row.program,
                    "pids": list(each.pids),
                    "size_bytes": each.size_bytes,
                    "text": each.row.text,
                    "command": each.command(calling_shell()),
                }
                for each in self.programs
            ],
            "notes": [*self.usage.notes, *self.hip.notes, *([] if self.host.gpus else [self.host.why])],
        }

    def lines(self) -> list[str]:
        lines: list[str] = []
        for each in self.usage.gpus:
            lines += [*([""] if lines else []), *gpu_lines(each)]
        if not self.usage.gpus:
            lines.append(f"no GPU memory to show: {self.host.why}")
        if self.programs:
            lines += ["", "These programs can release memory that they may not currently need:"]
        for program in self.programs:
            pids = ", ".join(map(str, program.pids))
            lines.append(f"  {program.row.title} ({pids}), {amount(program.size_bytes)}: {program.row.text}")
            lines.append(f"    {program.command(calling_shell())}")
        return lines

    def notes(self) -> list[str]:
        indices: dict[str, list[int]] = {}  # groups equal notes
        for each in self.usage.gpus:
            for text in each.notes:
                indices.setdefault(text, []).append(each.gpu.index)
        lines = [f"GPU {ranges(gpus)}: {text}" for text, gpus in indices.items()]
        hidden = self.usage.hidden
        if hidden and any(each.unexplained_bytes for each in self.usage.gpus):
            processes = "1 process" if hidden == 1 else f"{hidden} processes"
            text = f"no permission to inspect {processes} owned by other users"
            lines.append(f"{text}; run this command as root")
        return [*lines, *self.usage.notes, *self.hip.notes]


@click.command()
@active_env_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show each GPU's memory and which programs use it.

    With env NAME or an active env, this also queries the env's HIP runtime and shows the smaller figure.
    """
    context = Context()
    host = detect(context.matrix)
    report = _Report.look(context, host, view_of_env(context, host, name))
    if as_json:
        print_json(report.document())
        return
    _print(report.lines())
    for text in report.notes():
        note(text)


@click.command()
@json_option
def watch(as_json: bool) -> None:
    """Show memory use as a graph, updated every second until you press Ctrl-C.

    This does not query HIP, because loading its runtime would itself use memory.
    """
    context = Context()
    host = detect(context.matrix)
    reports = _every_second(context, host)
    if as_json:
        for report in reports:
            now = datetime.now().astimezone().isoformat(timespec="milliseconds")
            _print([json.dumps({"time": now, **report.document()})])
    elif not host.gpus:
        _print(next(reports).lines())
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI"):
        _draw(reports)
    else:
        for report in reports:
            now = datetime.now().strftime("%H:%M:%S")
            _print(f"{now}  GPU {each.gpu.index}: {_figures(each)}" for each in report.usage.gpus)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(sanitized(line))


def _every_second(context: Context, host: Host) -> Iterator[_Report]:
    """Yield a report every second, or only one report if there is no GPU."""
    while True:
        begin = time.monotonic()
        yield _Report.look(context, host)
        if not host.gpus:
            return
        sys.stdout.flush()
        time.sleep(max(0.1, _INTERVAL_S - (time.monotonic() - begin)))


def _draw(reports: Iterator[_Report]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    past: dict[int, deque[float | None]] = {}  # GPU index -> fractions in use
    console = Console()
    levels = _ASCII_LEVELS if console.options.ascii_only else _LEVELS
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        for report in reports:
            graphs = []
            for each in report.usage.gpus:
                index, share = each.gpu.index, _share(each)
                shares = past.setdefault(index, deque(maxlen=min(_GRAPH, console.width // 2)))
                shares.append(share)
                text = "?" if share is None else f"{share:.0%} in use"
                graphs.append(f"GPU {index} |{graph(shares, levels)}| {text}")
            lines = [*graphs, "", *report.lines(), "", *(f"note: {text}" for text in report.notes())]
            text = sanitized("\n".join([*lines, "Press Ctrl-C to stop"]))
            live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def _share(memory: GpuMemory) -> float | None:
    if memory.used_bytes is None or not memory.total_bytes:
        return None
    return min(1.0, memory.used_bytes / memory.total_bytes)


def graph(shares: Iterable[float | None], levels: str) -> str:
    """Draw fractions (0 to 1) as levels, with a gap for each None."""
    return "".join(
        " " if share is None else levels[min(len(levels) - 1, int(share * len(levels)))] for share in shares
    )


# ---------------------------------------------------------------- one GPU


def gpu_lines(memory: GpuMemory) -> list[str]:
    """Render one GPU's memory."""
    gpu = memory.gpu
    name, address = gpu.name or gpu.pci_id or "GPU", f", {gpu.address}" if gpu.address else ""
    lines = [f"GPU {gpu.index}: {name} ({gpu.target or 'unknown target'}){address}", f"  {_figures(memory)}"]
    if memory.shared_total_bytes:
        lines.append(f"  {_shared(memory)}")
    holders = [each for each in memory.holders if memory.held_by(each)]
    rows = [(memory.held_by(each), holder_name(each), str(each.pid)) for each in holders[:_MAX_HOLDERS]]
    if more := holders[_MAX_HOLDERS:]:
        rows.append((sum(memory.held_by(each) for each in more), f"{len(more)} more", ""))
    if memory.unexplained_bytes:
        rows.append((memory.unexplained_bytes, "unknown processes", ""))
    width = max((len(row[1]) for row in rows), default=0)
    return lines + [f"  {amount(size):>10}  {name:{width}}  {pid}".rstrip() for size, name, pid in rows]


def _figures(memory: GpuMemory) -> str:
    if memory.total_bytes is None and memory.free_bytes is None:
        return "memory: ?"
    sizes = f"{amount(memory.used_bytes)} of {amount(memory.total_bytes)} in use"
    source = f"  ({memory.source})" if memory.source else ""
    return f"{sizes}, {amount(memory.free_bytes)} free{source}"


def _shared(memory: GpuMemory) -> str:
    size, used = amount(memory.shared_total_bytes), memory.shared_used_bytes
    total = amount((memory.vram_total_bytes or 0) + (memory.shared_total_bytes or 0))
    text = f"the GPU can also use {size} of system memory ({total} in all), which is slower and not included"
    if memory.shared_counts:
        own = amount(memory.vram_total_bytes)
        text = f"{own} of this is reserved for the GPU, and {size} is system memory shared with all programs"
    return text if used is None else f"{text}, {amount(used)} of it in use"


def holder_name(holder: Holder) -> str:
    """Return a process's name, followed by the script if the process is an interpreter."""
    name = holder.name or "?"
    if name.startswith(_INTERPRETERS):
        script = next((word for word in holder.command[1:] if not word.startswith("-")), "")
        base = script.replace("\\", "/").rpartition("/")[2]
        plain = "".join(char if char.isprintable() else "?" for char in base)
        name = f"{name} {plain}" if plain else name
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _gpu_json(memory: GpuMemory, program_of: dict[int, str]) -> dict[str, Any]:
    sizes = ("total", "used", "free", "vram_total", "vram_used", "shared_total", "shared_used", "budget")
    return {
        **fields(memory.gpu, "index", "name", "integrated"),
        **fields_or_none(memory.gpu, "target", "address"),
        **fields(memory, *(f"{name}_bytes" for name in (*sizes, "unexplained")), "shared_counts", "notes"),
        "source": memory.source or None,
        "hip": memory.hip and asdict(memory.hip),
        "holders": [
            {
                **fields(each, "pid", "name", "vram_bytes", "shared_bytes"),
                "reclaim": program_of.get(each.pid),
            }
            for each in memory.holders
        ],
    }

"""`rocenv mem show` and `rocenv mem watch`: the memory of the GPUs, once or every second."""

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
from rocenv.commands.mem_env import EnvView, view_of_env
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.gpus import read_usage
from rocenv.memory.reclaim import Reclaimable, find_reclaimable
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.host import Host
    from rocenv.memory.gpus import GpuMemory, Usage
    from rocenv.memory.holders import Holder

_INTERVAL_S = 1.0
_MAX_GRAPH = 60  # columns
_BESIDE_GRAPH = len("GPU 100 || 100% in use")
_BAR = 24  # columns
_MAX_HOLDERS = 10  # of one GPU; `--json` has all
_MAX_NAME = 40  # characters
_INTERPRETERS = ("python", "perl", "node", "java", "ruby")
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


@dataclass
class _Report:
    """What the command looks at, and how much was in use each time."""

    context: Context
    host: Host
    hip: EnvView
    shares: dict[int, deque[float | None]] = field(default_factory=dict)  # by index of the GPU

    def look(self) -> tuple[Usage, tuple[Reclaimable, ...]]:
        usage = read_usage(self.host, self.hip.figures)
        for each in usage.gpus:
            past = self.shares.setdefault(each.gpu.index, deque(maxlen=_MAX_GRAPH))
            is_known = each.used_bytes is not None and each.total_bytes
            past.append((each.used_bytes or 0) / (each.total_bytes or 1) if is_known else None)
        rows = self.context.matrix.reclaim
        return usage, find_reclaimable(usage.gpus, rows, windows=self.host.platform == "windows")

    def document(self, usage: Usage, programs: tuple[Reclaimable, ...]) -> dict[str, Any]:
        document = usage_json(usage, programs, _shell())
        document["notes"] += [*self.hip.notes, *([] if self.host.gpus else [self.host.why])]
        return document

    def timed_line(self, usage: Usage, programs: tuple[Reclaimable, ...]) -> str:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        return json.dumps({"time": now, **self.document(usage, programs)})

    def lines(self, usage: Usage, programs: tuple[Reclaimable, ...]) -> list[str]:
        blocks = can_draw(sys.stdout.encoding)
        lines: list[str] = []
        for each in usage.gpus:
            lines += [*([""] if lines else []), *gpu_lines(each, blocks=blocks)]
        if not usage.gpus:
            lines.append(f"no GPU memory to show: {self.host.why}")
        if programs:
            lines += ["", "These programs can release memory that they may not need now:"]
        for program in programs:
            pids = ", ".join(map(str, program.pids))
            lines += [
                f"  {program.row.title} ({pids}), {amount(program.size_bytes)}: {program.row.text}",
                f"    {program.command(_shell())}",
            ]
        return lines


def show_memory(name: str, *, as_json: bool) -> int:
    """Show the memory of each GPU; the HIP runtime of env `name`, or of the active one, is asked too."""
    from rocenv.host import detect

    context = Context()
    host = detect(context.matrix)
    report = _Report(context, host, view_of_env(context, host, name))
    usage, programs = report.look()
    if as_json:
        print_json(report.document(usage, programs))
        return 0
    for line in report.lines(usage, programs):
        click.echo(sanitized(line))
    for text in (*_notes(usage), *report.hip.notes):
        note(text)
    return 0


def watch_memory(*, as_json: bool) -> int:
    """Show the memory every second until Ctrl-C; on a machine without a GPU, once."""
    from rocenv.host import detect

    context = Context()
    host = detect(context.matrix)
    report = _Report(context, host, EnvView())
    if not host.gpus:
        usage, programs = report.look()
        lines = [report.timed_line(usage, programs)] if as_json else report.lines(usage, programs)
        for line in lines:
            click.echo(sanitized(line))
    elif as_json:
        for usage, programs in _every_second(report):
            click.echo(report.timed_line(usage, programs))
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI"):
        _draw(report)
    else:
        for usage, _ in _every_second(report):
            now = datetime.now().strftime("%H:%M:%S")
            for each in usage.gpus:
                click.echo(sanitized(f"{now}  GPU {each.gpu.index}: {figures(each, blocks=False)}"))
            sys.stdout.flush()
    return 0


def _every_second(report: _Report) -> Iterator[tuple[Usage, tuple[Reclaimable, ...]]]:
    while True:
        begin = time.monotonic()
        yield report.look()
        time.sleep(max(0.1, _INTERVAL_S - (time.monotonic() - begin)))


def _draw(report: _Report) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    blocks = can_draw(sys.stdout.encoding)
    with Live(console=Console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        for usage, programs in _every_second(report):
            # The end of a graph is now, so a narrow terminal must not cut it off.
            width = max(1, min(_MAX_GRAPH, live.console.width - _BESIDE_GRAPH))
            graphs = [
                f"GPU {each.gpu.index} |{graph(list(report.shares[each.gpu.index]), width, blocks=blocks)}|"
                f" {_share(each)}"
                for each in usage.gpus
            ]
            lines = [*graphs, "", *report.lines(usage, programs), ""]
            lines += [*(f"note: {text}" for text in _notes(usage)), "Press Ctrl-C to stop"]
            live.update(Text(sanitized("\n".join(lines)), no_wrap=True, overflow="ellipsis"), refresh=True)


def _share(memory: GpuMemory) -> str:
    if memory.used_bytes is None or not memory.total_bytes:
        return "?"
    return f"{memory.used_bytes / memory.total_bytes:.0%} in use"


def _notes(usage: Usage) -> list[str]:
    indices: dict[str, list[int]] = {}  # a note about several GPUs appears once
    for each in usage.gpus:
        for text in each.notes:
            indices.setdefault(text, []).append(each.gpu.index)
    lines = [f"GPU {ranges(gpus)}: {text}" for text, gpus in indices.items()]
    if usage.hidden and any(each.unexplained_bytes for each in usage.gpus):
        processes = (
            "1 process of another user" if usage.hidden == 1 else f"{usage.hidden} processes of other users"
        )
        lines.append(f"you may not look at {processes}; root may")
    return lines + list(usage.notes)


def _shell() -> str:
    return calling_shell("windows" if WINDOWS else "linux")


# ---------------------------------------------------------------- one GPU


def gpu_lines(memory: GpuMemory, *, blocks: bool) -> list[str]:
    """Render the memory of one GPU; `blocks` says whether the terminal has block characters."""
    gpu = memory.gpu
    name, address = gpu.name or gpu.pci_id or "GPU", f", {gpu.address}" if gpu.address else ""
    lines = [f"GPU {gpu.index}: {name} ({gpu.target or 'unknown target'}){address}"]
    lines.append(f"  {figures(memory, blocks=blocks)}")
    if memory.shared_total_bytes:
        lines.append(f"  {_shared(memory)}")
    holders = [each for each in memory.holders if memory.held_by(each)]
    rows = [(memory.held_by(each), holder_name(each), str(each.pid)) for each in holders[:_MAX_HOLDERS]]
    if more := holders[_MAX_HOLDERS:]:
        rows.append((sum(memory.held_by(each) for each in more), f"{len(more)} more", ""))
    if memory.unexplained_bytes:
        rows.append((memory.unexplained_bytes, "unknown holders", ""))
    width = max((len(row[1]) for row in rows), default=0)
    return lines + [f"  {amount(size):>10}  {name:{width}}  {pid}".rstrip() for size, name, pid in rows]


def figures(memory: GpuMemory, *, blocks: bool) -> str:
    """Render the figures of one GPU in one line, with a bar."""
    if memory.total_bytes is None and memory.free_bytes is None:
        return "memory: ?"
    used, total = memory.used_bytes, memory.total_bytes
    drawn = "" if used is None or not total else f"[{bar(used, total, _BAR, blocks=blocks)}] "
    source = f"  ({memory.source})" if memory.source else ""
    return f"{drawn}{amount(used)} of {amount(total)} in use, {amount(memory.free_bytes)} free{source}"


def _shared(memory: GpuMemory) -> str:
    used = (
        f", {amount(memory.shared_used_bytes)} of it in use" if memory.shared_used_bytes is not None else ""
    )
    size = amount(memory.shared_total_bytes)
    if memory.shared_counts:
        own = amount(memory.vram_total_bytes)
        return (
            f"{own} of this is set aside for the GPU, and {size} is main memory shared with all"
            f" programs{used}"
        )
    if memory.gpu.integrated:
        return f"only the memory set aside for the GPU counts; it could share {size} of main memory{used}"
    return f"the GPU also reaches {size} of main memory, which is slow and does not count{used}"


def holder_name(holder: Holder) -> str:
    """Return the name of a process; for an interpreter, with the script that it runs."""
    name = holder.name or "?"
    if name.startswith(_INTERPRETERS):
        script = next((word for word in holder.command[1:] if not word.startswith("-")), "")
        base = script.replace("\\", "/").rpartition("/")[2]
        plain = "".join(char if char.isprintable() else "?" for char in base)
        name = f"{name} {plain}" if plain else name
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def can_draw(encoding: str | None) -> bool:
    """Return whether a stream of this encoding has block characters."""
    try:
        f"{_LEVELS}░".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def bar(part: float, whole: float, width: int, *, blocks: bool) -> str:
    """Draw a bar; it is empty or full only if `part` is nothing or the whole."""
    full, empty = "█░" if blocks else "#."
    share = min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
    filled = round(share * width)
    if 0 < share < 1:
        filled = min(width - 1, max(1, filled))
    return full * filled + empty * (width - filled)


def graph(shares: Sequence[float | None], width: int, *, blocks: bool) -> str:
    """Draw the last shares (0 to 1) as levels; None leaves a gap."""
    levels = _LEVELS if blocks else _ASCII_LEVELS
    drawn = [
        " " if share is None else levels[min(len(levels) - 1, int(min(1.0, max(0.0, share)) * len(levels)))]
        for share in shares[-width:]
    ]
    return "".join(drawn).rjust(width)


# ---------------------------------------------------------------- JSON


def usage_json(usage: Usage, programs: tuple[Reclaimable, ...], shell: str) -> dict[str, Any]:
    """Return the document of `mem --json`, with commands for a shell."""
    program_of = {pid: each.row.program for each in programs for pid in each.pids}
    return {
        "gpus": [_gpu_json(each, program_of) for each in usage.gpus],
        "processes_not_seen": usage.hidden,
        "reclaimable": [
            {
                "program": each.row.program,
                "pids": list(each.pids),
                "size_bytes": each.size_bytes,
                "text": each.row.text,
                "command": each.command(shell),
            }
            for each in programs
        ],
        "notes": list(usage.notes),
    }


def _gpu_json(memory: GpuMemory, program_of: dict[int, str]) -> dict[str, Any]:
    gpu, hip = memory.gpu, memory.hip
    sizes = ("total", "used", "free", "vram_total", "vram_used", "shared_total", "shared_used", "budget")
    return {
        "index": gpu.index,
        "target": gpu.target or None,
        "name": gpu.name,
        "address": gpu.address or None,
        "integrated": gpu.integrated,
        **{f"{name}_bytes": getattr(memory, f"{name}_bytes") for name in sizes},
        "shared_counts": memory.shared_counts,
        "hip": hip and asdict(hip),
        "unexplained_bytes": memory.unexplained_bytes,
        "holders": [
            {
                "pid": each.pid,
                "name": each.name,
                "vram_bytes": each.vram_bytes,
                "shared_bytes": each.shared_bytes,
                "reclaim": program_of.get(each.pid),
            }
            for each in memory.holders
        ],
        "source": memory.source or None,
        "notes": list(memory.notes),
    }

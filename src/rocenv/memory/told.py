"""What is said about the memory of the GPUs: as lines for people, and as plain values for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.memory.amounts import amount
from rocenv.memory.graph import bar

if TYPE_CHECKING:
    from rocenv.memory.gpus import GpuMemory, Look
    from rocenv.memory.holders import Holder
    from rocenv.memory.reclaim import Reclaimable

_BAR = 24
_SHOWN = 10  # holders of one GPU; `--json` has all
_NAME = 40
_INTERPRETERS = ("python", "perl", "node", "java", "ruby")


def lines_of(found: GpuMemory, *, blocks: bool) -> list[str]:
    """Return the memory of one GPU as lines.

    Args:
        found: What is known of it.
        blocks: Blocks can be shown.
    """
    lines = [title(found), f"  {figures(found, blocks=blocks)}"]
    if found.shared_total_bytes:
        lines += [f"  {each}" for each in _shared(found)]
    return lines + _holder_lines(found)


def title(found: GpuMemory) -> str:
    """Return which GPU it is."""
    gpu = found.gpu
    name = gpu.name or gpu.pci_id or "GPU"
    place = f", {gpu.address}" if gpu.address else ""
    return f"GPU {gpu.index}: {name} ({gpu.target or 'target not known'}){place}"


def figures(found: GpuMemory, *, blocks: bool) -> str:
    """Return the figures in one line, with a bar."""
    if found.total_bytes is None and found.free_bytes is None:
        return "memory: ?"
    used, total = found.used_bytes, found.total_bytes
    drawn = "" if used is None or not total else f"[{bar(used, total, _BAR, blocks=blocks)}] "
    source = f"  ({found.source})" if found.source else ""
    return f"{drawn}{amount(used)} of {amount(total)} in use, {amount(found.free_bytes)} free{source}"


def holder_name(holder: Holder) -> str:
    """Return what people call a process; of what an interpreter runs the script too."""
    name = holder.name or "?"
    if name.startswith(_INTERPRETERS):
        script = next((word for word in holder.command[1:] if not word.startswith("-")), "")
        base = script.replace("\\", "/").rpartition("/")[2]
        name = f"{name} {_plain(base)}" if base else name
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def look_json(look: Look, back: tuple[Reclaimable, ...], shell: str) -> dict[str, Any]:
    """Return a look as `mem --json` prints it, with commands for a shell."""
    programs = {pid: each.row.program for each in back for pid in each.pids}
    return {
        "gpus": [_gpu_json(each, programs) for each in look.gpus],
        "processes_not_seen": look.unseen,
        "reclaimable": [
            {
                "program": each.row.program,
                "pids": list(each.pids),
                "size_bytes": each.size_bytes,
                "text": each.row.text,
                "command": each.command(shell),
            }
            for each in back
        ],
        "notes": list(look.notes),
    }


def _gpu_json(found: GpuMemory, programs: dict[int, str]) -> dict[str, Any]:
    gpu = found.gpu
    sizes = ("total", "used", "free", "vram_total", "vram_used", "shared_total", "shared_used", "budget")
    return {
        "index": gpu.index,
        "target": gpu.target or None,
        "name": gpu.name,
        "address": gpu.address or None,
        "integrated": gpu.integrated,
        **{f"{name}_bytes": getattr(found, f"{name}_bytes") for name in sizes},
        "shared_counts": found.shared_counts,
        "hip": None
        if found.hip is None
        else {"total_bytes": found.hip.total_bytes, "free_bytes": found.hip.free_bytes},
        "unexplained_bytes": found.unexplained_bytes,
        "holders": [
            {
                "pid": each.pid,
                "name": each.name,
                "vram_bytes": each.vram_bytes,
                "shared_bytes": each.shared_bytes,
                "reclaim": programs.get(each.pid),
            }
            for each in found.holders
        ],
        "source": found.source or None,
        "notes": list(found.notes),
    }


def _shared(found: GpuMemory) -> list[str]:
    used = f", {amount(found.shared_used_bytes)} of it in use" if found.shared_used_bytes is not None else ""
    size = amount(found.shared_total_bytes)
    if found.shared_counts:
        return [
            f"it computes in the machine's memory: {amount(found.vram_total_bytes)} is set aside for it, and"
            f" {size} it shares with all programs{used}"
        ]
    if found.gpu.integrated:
        return [f"what counts is the memory set aside for it; {size} more it shares with all programs{used}"]
    return [f"besides, it reaches {size} of the machine's memory, which is slow and does not count{used}"]


def _holder_lines(found: GpuMemory) -> list[str]:
    holders = [each for each in found.holders if found.held_by(each)]
    rows = [(amount(found.held_by(each)), holder_name(each), str(each.pid)) for each in holders[:_SHOWN]]
    more = holders[_SHOWN:]
    if more:
        size = sum(found.held_by(each) for each in more)
        rows.append((amount(size), f"{len(more)} more", ""))
    rest = found.unexplained_bytes
    if rest:
        rows.append((amount(rest), "not told apart", ""))
    wide = max((len(row[1]) for row in rows), default=0)
    return [f"  {size:>10}  {name:{wide}}  {pid}".rstrip() for size, name, pid in rows]

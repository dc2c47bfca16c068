"""`rocenv gpus`: show the GPUs on this machine, which one is used, and why."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from rocenv.apps.devices import BELOW_HIP
from rocenv.commands.options import json_option
from rocenv.commands.output import (
    columns,
    fields,
    fields_or_none,
    hint,
    note,
    print_json,
    print_text,
    terminal_width,
)
from rocenv.context import Context
from rocenv.core.variables import VISIBLE
from rocenv.memory.amounts import ranges
from rocenv.system.machine import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.host import Driver, Gpu, Host

_HEADER = ("", "GPU", "TARGET", "KIND", "MEMORY", "STATE", "UNITS", "PCI ID", "NAME")
_WIDE_ONLY = slice(6, 8)  # columns that are shown only if the terminal is wide enough
_WIDE = 100
_STATES = {"barred": "blocked", "unable": "unusable"}  # JSON value -> text


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the GPUs on this machine, their targets, which one is used, and why."""
    from rocenv.host import detect

    host = detect(Context().matrix)
    if as_json:
        print_json(host_json(host))
        return
    if host.gpus:
        print_text(columns(_table(host)), verbatim=True)
    print_text(f"{'used' if host.gpu else 'no GPU is used'}: {host.why}")
    for line in _notes(host):
        note(line)
    for remedy in host.remedies:
        hint(remedy)


def host_json(host: Host) -> dict[str, Any]:
    """Convert a machine to JSON, as `gpus --json` prints it."""
    return {
        "gpus": [gpu_json(gpu) for gpu in host.gpus],
        "selected": host.selected,
        "why": host.why,
        "platform": host.platform,
        "driver": fields_or_none(host.driver, "kernel", "amdgpu", "display", "release"),
        "wsl": host.driver.wsl,
        "others": list(host.others),
        "hip_visible_devices": host.visible_devices() or None,
        "notes": list(host.notes),
        "remedies": list(host.remedies),
    }


def gpu_json(gpu: Gpu) -> dict[str, Any]:
    """Convert a GPU to JSON, as `gpus --json` prints it."""
    return {
        **fields(gpu, "index", "name", "features", "source", "integrated", "usable", "state"),
        **fields(gpu, "vram_bytes", "gtt_bytes", "memory_bytes", "compute_units"),
        **fields(gpu, "hip_index", "node", "render_minor"),
        **fields_or_none(gpu, "target", "pci_id", "address", "why_not"),
    }


def _table(host: Host) -> list[tuple[str, ...]]:
    """Build the table; consecutive GPUs with the same values share a row."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for row, group in groupby(host.gpus, _row):
        indices = [gpu.index for gpu in group]
        rows.append(("*" if host.selected in indices else "", ranges(indices), *row))
    width = terminal_width()
    if width and width + 1 < _WIDE:
        return [row[: _WIDE_ONLY.start] + row[_WIDE_ONLY.stop :] for row in rows]
    return rows


def _row(gpu: Gpu) -> tuple[str, ...]:
    return (
        (gpu.target or "?") + gpu.features,
        {True: "iGPU", False: "card", None: "?"}[gpu.integrated],
        f"{gpu.memory_bytes / (1 << 30):.1f} GiB" if gpu.memory_bytes else "?",
        _STATES.get(gpu.state, gpu.state),
        str(gpu.compute_units or "?"),
        gpu.pci_id or "?",
        gpu.short_name or "?",
    )


def _notes(host: Host) -> Iterator[str]:
    reasons: dict[str, list[int]] = {}
    for gpu in host.gpus:
        if gpu.why_not:
            reasons.setdefault(gpu.why_not, []).append(gpu.index)
    for why, indices in reasons.items():
        if indices[1:] or why not in host.why:  # `host.why` mentions only one GPU
            yield f"GPU {ranges(indices)}: {why}"
    if host.gpu and (indices_shown := host.visible_devices()):
        hides = len(indices_shown.split(",")) < sum(gpu.hip_index is not None for gpu in host.gpus)
        effect = "hides the iGPU" if hides else f"puts the {host.gpu.target} first"
        yield f"HIP_VISIBLE_DEVICES={indices_shown} {effect}; new envs set this variable"
    for name in (BELOW_HIP, VISIBLE):
        if value := environment().get(name):
            yield f"{name}={value} is set and selects GPUs for programs outside envs (see `rocenv doctor`)"
    if driver := _driver_text(host.driver):
        yield driver
    yield from host.notes


def _driver_text(driver: Driver) -> str:
    display = f"display driver {driver.display}{f' ({driver.release})' if driver.release else ''}"
    if driver.wsl:
        return f"WSL kernel {driver.kernel}" + (f", Windows {display}" if driver.display else "")
    if driver.display:
        return display
    if not driver.kernel:
        return ""
    if not driver.loaded:
        return f"kernel {driver.kernel}; `amdgpu` is not loaded"
    amdgpu = f"amdgpu {driver.amdgpu} from AMD" if driver.amdgpu else "its own amdgpu"
    return f"kernel {driver.kernel} with {amdgpu}"

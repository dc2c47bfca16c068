"""`rocenv gpus`: the GPUs of this machine, which one is used, and why."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.host import Driver, Gpu, Host

_NAME_WIDTH = 72  # in the table; `--json` has the whole name
_HEADER = ("", "GPU", "TARGET", "NAME", "PCI ID", "KIND", "MEMORY", "UNITS", "STATE")


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show the GPUs of this machine, their targets, which one is used, and why."""
    from rocenv.host import detect

    host = detect(Context().matrix)
    if as_json:
        print_json(host_json(host))
        return
    if host.gpus:
        click.echo(columns([_HEADER, *(_row(gpu, selected=gpu.index == host.selected) for gpu in host.gpus)]))
    click.echo(f"{'used' if host.gpu else 'no GPU is used'}: {host.why}")
    for line in _notes(host):
        note(line)


def host_json(host: Host) -> dict[str, Any]:
    """Return a machine as `gpus --json` prints it."""
    return {
        "gpus": [gpu_json(gpu) for gpu in host.gpus],
        "selected": host.selected,
        "why": host.why,
        "platform": host.platform,
        "driver": {
            "kernel": host.driver.kernel or None,
            "amdgpu": host.driver.amdgpu or None,
            "display": host.driver.display or None,
            "release": host.driver.release or None,
        },
        "wsl": host.driver.wsl,
        "others": list(host.others),
        "hip_visible_devices": host.visible_devices() or None,
        "notes": list(host.notes),
        "remedies": list(host.remedies),
    }


def gpu_json(gpu: Gpu) -> dict[str, Any]:
    """Return a GPU as `gpus --json` prints it."""
    return {
        "index": gpu.index,
        "target": gpu.target or None,
        "features": gpu.features,
        "name": gpu.name,
        "pci_id": gpu.pci_id or None,
        "address": gpu.address or None,
        "integrated": gpu.integrated,
        "vram_bytes": gpu.vram_bytes,
        "gtt_bytes": gpu.gtt_bytes,
        "memory_bytes": gpu.memory_bytes,
        "compute_units": gpu.compute_units,
        "usable": gpu.usable,
        "state": gpu.state,
        "why_not": gpu.why_not or None,
        "source": gpu.source,
        "hip_index": gpu.hip_index,
        "node": gpu.node,
        "render_minor": gpu.render_minor,
    }


def _row(gpu: Gpu, *, selected: bool) -> tuple[str, ...]:
    return (
        "*" if selected else "",
        str(gpu.index),
        (gpu.target or "?") + gpu.features,
        textwrap.shorten(gpu.name, _NAME_WIDTH, placeholder=" …") or "?",
        gpu.pci_id or "?",
        {True: "iGPU", False: "card", None: "?"}[gpu.integrated],
        f"{gpu.memory_bytes / (1 << 30):.1f} GiB" if gpu.memory_bytes else "?",
        str(gpu.compute_units or "?"),
        gpu.state,
    )


def _notes(host: Host) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for gpu in host.gpus:
        if gpu.why_not:
            reasons.setdefault(gpu.why_not, []).append(str(gpu.index))
    for why, indices in reasons.items():
        yield f"GPU {', '.join(indices)}: {why}"
    if host.gpu and (indices_shown := host.visible_devices()):
        hides = len(indices_shown.split(",")) < sum(gpu.hip_index is not None for gpu in host.gpus)
        effect = "hides the iGPU" if hides else f"puts the {host.gpu.target} first"
        yield f"HIP_VISIBLE_DEVICES={indices_shown} {effect}; envs that you create here set it"
    if driver := _driver_text(host.driver):
        yield driver
    yield from host.notes
    yield from (f"hint: {remedy}" for remedy in host.remedies)


def _driver_text(driver: Driver) -> str:
    display = f"display driver {driver.display}{f' ({driver.release})' if driver.release else ''}"
    if driver.wsl:
        return f"kernel {driver.kernel} of WSL" + (f", {display} of Windows" if driver.display else "")
    if driver.display:
        return display
    if not driver.kernel:
        return ""
    if not driver.loaded:
        return f"kernel {driver.kernel}; `amdgpu` is not loaded"
    amdgpu = f"amdgpu {driver.amdgpu} from AMD" if driver.amdgpu else "its own amdgpu"
    return f"kernel {driver.kernel} with {amdgpu}"

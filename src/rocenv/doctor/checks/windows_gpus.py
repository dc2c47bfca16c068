"""Checks of a Windows machine's GPUs: whether HIP lists them, which comes first, what hides them.

`CHECKS` are rows of the table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.variables import VISIBLE
from rocenv.doctor.check import Check
from rocenv.doctor.checks.windows import variable
from rocenv.doctor.seen import Seen
from rocenv.host.windows import controllers_text, parse_controllers

if TYPE_CHECKING:
    from rocenv.doctor.scene import Scene
    from rocenv.host import Gpu

_SAID = re.compile(r"\bhipError\w+")  # HIP's own word for what keeps it from a GPU


def display_driver_missing(scene: Scene) -> Seen | None:
    """An AMD GPU that runs on Windows' own driver, which offers no HIP."""
    plain = scene.gauge("basic_display")[0].lower()
    found = next((gpu for gpu in scene.host.gpus if gpu.name.lower().startswith(plain)), None)
    if found is None:
        return None
    return Seen("display_driver_missing", {"name": found.name}, (f"{found.name} ({found.pci_id})",))


def igpu_first_on_windows(scene: Scene) -> Seen | None:
    """HIP lists the GPU of the processor before a card, so programs take that."""
    listed = _listed(scene)
    shown = _shown(scene)
    card = next((gpu for gpu in listed if gpu.integrated is False), None)
    if card is None or not shown or not (shown[0].usable and shown[0].integrated):
        return None
    visible = scene.host.visible_devices(card.target) or str(card.hip_index)
    found = {"igpu": _called(shown[0]), "card": _called(card), "visible": visible}
    evidence = (*_hiding(scene), *(f"{gpu.hip_index}: {_called(gpu)}" for gpu in listed))
    return Seen("igpu_first_on_windows", found, evidence)


def gpus_hidden_on_windows(scene: Scene) -> Seen | None:
    """A variable hides every GPU from programs."""
    if not _listed(scene) or _shown(scene) != ():
        return None
    name, _, value = _hiding(scene)[0].partition("=")
    return Seen("gpus_hidden_on_windows", {"variable": name, "value": value}, _hiding(scene))


def no_gpu_on_windows(scene: Scene) -> Seen | None:
    """No AMD GPU, or none that HIP lists."""
    gpus, driver = scene.host.gpus, scene.host.driver
    if any(gpu.usable for gpu in gpus) or scene.host.named:
        return None
    if display_driver_missing(scene) or gpus_hidden_on_windows(scene):
        return None  # which is why
    adapters = [each.name for each in parse_controllers(controllers_text()) if each.name]
    if not gpus:
        return Seen("no_gpu_on_windows", {}, tuple(adapters)) if adapters else None
    found = {"gpu": _called(gpus[0]), "driver": driver.release or driver.display}
    found["variable"] = "".join(_hiding(scene)).partition("=")[0]
    said = _SAID.search(gpus[0].why_not)
    lines = [" ".join(filter(None, (_called(gpu), gpu.pci_id))) for gpu in gpus]
    return Seen("gpu_unlisted", found, (*lines, *_hiding(scene), *([said[0]] if said else [])))


def _listed(scene: Scene) -> list[Gpu]:
    """Return the GPUs that HIP lists, in its order."""
    listed = [gpu for gpu in scene.host.gpus if gpu.hip_index is not None]
    return sorted(listed, key=lambda gpu: gpu.hip_index or 0)


def _hiding(scene: Scene) -> tuple[str, ...]:
    """Return the variable by which HIP chooses GPUs, which reads CUDA's only where its own is not set."""
    found = ((name, variable(scene, name).strip()) for name in (VISIBLE, "CUDA_VISIBLE_DEVICES"))
    return tuple(f"{name}={value}" for name, value in found if value)[:1]


def _shown(scene: Scene) -> tuple[Gpu, ...] | None:
    """Return the GPUs that programs see, in their order; None where that cannot be told."""
    listed, said = _listed(scene), "".join(_hiding(scene)).partition("=")[2]
    if not said:
        return tuple(listed)
    shown = []
    for number in (each.strip() for each in said.split(",")):
        if not re.fullmatch(r"-?[0-9]{1,6}", number):
            return None  # its unique id
        if not 0 <= int(number) < len(listed):
            break  # HIP does not read on behind one that is not there
        shown.append(listed[int(number)])
    return tuple(shown)


def _called(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.target})" if gpu.name and gpu.target else gpu.name or gpu.target


CHECKS: tuple[Check, ...] = (
    Check("no_gpu_on_windows", no_gpu_on_windows, "windows"),
    Check("display_driver_missing", display_driver_missing, "windows"),
    Check("igpu_first_on_windows", igpu_first_on_windows, "windows"),
    Check("gpus_hidden_on_windows", gpus_hidden_on_windows, "windows"),
)

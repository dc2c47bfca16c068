"""Checks of Windows' GPUs: whether HIP lists them, which comes first, and what hides them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.checks.windows import variable
from rocenv.core.variables import VISIBLE
from rocenv.findings import Observation
from rocenv.host.windows import controllers_text, parse_controllers

if TYPE_CHECKING:
    from rocenv.checks.context import CheckContext
    from rocenv.host import Gpu

_HIP_ERROR = re.compile(r"\bhipError\w+")


def display_driver_missing(context: CheckContext) -> Observation | None:
    """An AMD GPU uses Windows' basic display driver, which has no HIP."""
    plain = context.threshold("basic_display")[0].lower()
    found = next((gpu for gpu in context.host.gpus if gpu.name.lower().startswith(plain)), None)
    if found is None:
        return None
    return Observation("display_driver_missing", {"name": found.name}, (f"{found.name} ({found.pci_id})",))


def igpu_first_on_windows(context: CheckContext) -> Observation | None:
    """HIP lists an integrated GPU before a card, so programs use that."""
    listed = _listed(context)
    shown = _shown(context)
    card = next((gpu for gpu in listed if gpu.integrated is False), None)
    if card is None or not shown or not (shown[0].usable and shown[0].integrated):
        return None
    visible = context.host.visible_devices(card.target) or str(card.hip_index)
    found = {"igpu": _label(shown[0]), "card": _label(card), "visible": visible}
    evidence = (*_hiding(context), *(f"{gpu.hip_index}: {_label(gpu)}" for gpu in listed))
    return Observation("igpu_first_on_windows", found, evidence)


def gpus_hidden_on_windows(context: CheckContext) -> Observation | None:
    """A variable hides every GPU."""
    if not _listed(context) or _shown(context) != ():
        return None
    name, _, value = _hiding(context)[0].partition("=")
    return Observation("gpus_hidden_on_windows", {"variable": name, "value": value}, _hiding(context))


def no_gpu_on_windows(context: CheckContext) -> Observation | None:
    """The machine has no AMD GPU, or none that HIP lists."""
    gpus, driver = context.host.gpus, context.host.driver
    if any(gpu.usable for gpu in gpus) or context.host.named:
        return None
    if display_driver_missing(context) or gpus_hidden_on_windows(context):
        return None  # they report the reason
    adapters = [each.name for each in parse_controllers(controllers_text()) if each.name]
    if not gpus:
        return Observation("no_gpu_on_windows", {}, tuple(adapters)) if adapters else None
    found = {"gpu": _label(gpus[0]), "driver": driver.release or driver.display}
    found["variable"] = "".join(_hiding(context)).partition("=")[0]
    error = _HIP_ERROR.search(gpus[0].why_not)
    lines = [" ".join(filter(None, (_label(gpu), gpu.pci_id))) for gpu in gpus]
    return Observation("gpu_unlisted", found, (*lines, *_hiding(context), *([error[0]] if error else [])))


def _listed(context: CheckContext) -> list[Gpu]:
    """The GPUs that HIP lists, in its order."""
    listed = [gpu for gpu in context.host.gpus if gpu.hip_index is not None]
    return sorted(listed, key=lambda gpu: gpu.hip_index or 0)


def _hiding(context: CheckContext) -> tuple[str, ...]:
    """The variable that selects GPUs, as NAME=VALUE; HIP reads CUDA's only if its own is not set."""
    found = ((name, variable(context, name).strip()) for name in (VISIBLE, "CUDA_VISIBLE_DEVICES"))
    return tuple(f"{name}={value}" for name, value in found if value)[:1]


def _shown(context: CheckContext) -> tuple[Gpu, ...] | None:
    """The GPUs that programs see, in order; None if that is unknown."""
    listed, value = _listed(context), "".join(_hiding(context)).partition("=")[2]
    if not value:
        return tuple(listed)
    shown = []
    for number in (each.strip() for each in value.split(",")):
        if not re.fullmatch(r"-?[0-9]{1,6}", number):
            return None  # a unique id
        if not 0 <= int(number) < len(listed):
            break  # HIP stops at the first number that does not exist
        shown.append(listed[int(number)])
    return tuple(shown)


def _label(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.target})" if gpu.name and gpu.target else gpu.name or gpu.target

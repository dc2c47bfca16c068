"""Detect a machine's GPUs and their targets, and choose the one to use, without loading a GPU library.

`ROCENV_TARGET` replaces detection. The sources are KFD and the PCI bus on Linux, HIP and the display drivers
on Windows, and Windows itself on WSL. Every GPU is listed, even if it is unusable or rocenv does not know its
target.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.variables import OVERRIDE
from rocenv.host.gpu import Driver, Found, Gpu, is_target, printable, split_target
from rocenv.host.linux import linux_driver, linux_gpus
from rocenv.host.ranking import choose, libraries_on_windows, override_notes, supported_today
from rocenv.system.machine import environment, examined_windows, missing_sysroot

if TYPE_CHECKING:
    from rocenv.data.known import Platform
    from rocenv.data.rows import Matrix

__all__ = ["Driver", "Gpu", "Host", "detect"]

_NAMED = "ROCENV_TARGET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine's GPUs."""

    platform: Platform
    gpus: tuple[Gpu, ...]  # numbered; GPUs that HIP lists are in HIP's order
    selected: int | None  # the selected GPU's index
    why: str  # reason for the choice: a sentence without a final period
    driver: Driver = field(default_factory=Driver)
    others: tuple[str, ...] = ()  # vendors of other cards: "NVIDIA"
    notes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()  # commands or advice for blocked GPUs
    named: bool = False  # the targets come from ROCENV_TARGET

    @property
    def gpu(self) -> Gpu | None:
        """The GPU in use."""
        return None if self.selected is None else self.gpus[self.selected]

    def devices_for(self, *targets: str) -> tuple[Gpu, ...]:
        """Return the GPUs that an env should see, in order.

        An env for several targets sees only GPUs with these targets, in the same order. An env for one
        target sees GPUs with that target first and the others after them, because programs use the first
        GPU; if a card has the target, iGPUs with other targets are hidden. The result is () if HIP does not
        list any GPU with the env's targets.
        """
        listed = [gpu for gpu in self.gpus if gpu.hip_index is not None]
        own = [gpu for target in targets for gpu in listed if gpu.target == target]
        if len(targets) > 1:
            return tuple(own)
        has_card = any(not gpu.integrated for gpu in own)
        others = [gpu for gpu in listed if gpu not in own and not (has_card and gpu.integrated)]
        return (*own, *others) if own else ()

    def visible_devices(self, *targets: str) -> str:
        """Return HIP_VISIBLE_DEVICES for targets (default: the selected GPU's), or "" if not needed."""
        named = [target for target in targets if target] or [self.gpu.target if self.gpu else ""]
        shown = self.devices_for(*named)
        numbers = [str(gpu.hip_index) for gpu in shown]
        listed = [str(gpu.hip_index) for gpu in self.gpus if gpu.hip_index is not None]
        return ",".join(numbers) if numbers and numbers != listed else ""


def detect(matrix: Matrix) -> Host:
    """Detect the GPUs on this machine, or on the one in `ROCENV_SYSROOT`.

    Unreadable or invalid files never cause an error; their content is treated as unknown.

    Raises:
        RocenvError: `ROCENV_TARGET` contains an invalid target.
    """
    platform: Platform = "windows" if examined_windows() else "linux"
    variables = environment()
    named = _NAMED in variables
    driver = linux_driver() if platform == "linux" else Driver()
    if named:
        found = Found(gpus=_named_gpus(variables[_NAMED], matrix), in_hip_order=False)
    else:
        found = _detected(platform, driver, matrix)
    display, release = map(printable, found.display_driver)
    driver = replace(driver, display=display, release=release)
    gpus = _numbered(found)
    support = supported_today(matrix)
    libraries = libraries_on_windows(matrix) if platform == "windows" else None
    selected, why = choose(gpus, found.others, support, libraries)
    notes = found.notes
    if platform == "linux" and (override := variables.get(OVERRIDE)):
        notes += override_notes(override, gpus, support, matrix.override)
    if named:
        why = f"set by {_NAMED}: {why}" if gpus else f"{_NAMED} is empty, which means no GPU"
    elif missing := missing_sysroot():
        why = f"ROCENV_SYSROOT is set to `{printable(missing)}`, which is not a folder"
    elif not gpus and found.unknown:
        why = f"cannot tell whether this machine has an AMD GPU: {found.unknown}"
    return Host(
        platform=platform,
        gpus=gpus,
        selected=selected,
        why=why,
        driver=driver,
        others=found.others,
        notes=notes,
        remedies=found.remedies,
        named=named,
    )


def _detected(platform: Platform, driver: Driver, matrix: Matrix) -> Found:
    if platform == "windows":
        from rocenv.host.windows import windows_gpus

        return windows_gpus(matrix)
    found = linux_gpus(matrix)
    if not driver.wsl or found.gpus:
        return found
    from rocenv.host.wsl import wsl_gpus

    return wsl_gpus(matrix)


def _named_gpus(text: str, matrix: Matrix) -> tuple[Gpu, ...]:
    gpus = []
    for target, features in (split_target(name) for name in text.split(",") if name.strip()):
        if not is_target(target):
            raise RocenvError(
                f"`{printable(target)}` in {_NAMED} is not a valid target",
                hints=_named_hints(target, matrix),
                code="target-unknown",
            )
        known = matrix.targets.get(target)
        integrated = known.kind == "apu" if known else None
        gpus.append(Gpu(source=_NAMED, target=target, features=features, integrated=integrated))
    return tuple(gpus)


def _named_hints(text: str, matrix: Matrix) -> tuple[str, ...]:
    """Suggest a product's target, or how to find it."""
    from rocenv.host.products import targets_of_product

    lower = text.casefold()
    found = [lower] if is_target(lower) else targets_of_product(text, matrix)
    detect = f"to detect the GPU instead: `unset {_NAMED}`"
    if len(found) == 1:
        return (f"use its target: `export {_NAMED}={found[0]}`", detect)
    return (detect, "then find your card's target, for example: `rocenv explain 'RX 9070 XT'`")


def _numbered(found: Found) -> tuple[Gpu, ...]:
    """Number the GPUs, and assign HIP's numbers to usable GPUs, or to blocked ones if none is usable."""
    listed = [gpu.usable for gpu in found.gpus]
    if not any(listed):
        listed = [gpu.state == "barred" for gpu in found.gpus]
    numbered = []
    for index, gpu in enumerate(found.gpus):
        hip_index = sum(listed[:index]) if listed[index] and found.in_hip_order else None
        numbered.append(
            replace(
                gpu,
                index=index,
                hip_index=hip_index,
                name=printable(gpu.name),
                features=printable(gpu.features),
                address=printable(gpu.address),
                why_not=printable(gpu.why_not),
            )
        )
    return tuple(numbered)

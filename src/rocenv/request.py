"""Complete a request: fill in defaults, and describe the machine that the set must run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.config import DEFAULTS
from rocenv.core.errors import DataError, RocenvError, WrongUsage
from rocenv.core.model import EnvChange, Machine, Request
from rocenv.core.variables import VISIBLE
from rocenv.host import detect
from rocenv.host.gpu import require_target
from rocenv.host.products import target_meant, unsupported
from rocenv.resolve.apps import narrowed
from rocenv.resolve.request import NO_TORCH
from rocenv.resolve.windows import channel_of
from rocenv.system.machine import examined_elsewhere, glibc_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.context import Context
    from rocenv.data.rows import Matrix
    from rocenv.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest:
    """A complete request, and what is known about the machine that the set is for."""

    request: Request
    machine: Machine
    changes: tuple[EnvChange, ...] = ()  # changes to the environment for this machine's GPUs
    notes: tuple[str, ...] = ()  # about what an app needs


def complete_request(request: Request, context: Context, report: Callable[[str], None]) -> CompleteRequest:
    """Fill in missing options from `[defaults]`, the app's requirements and this machine.

    Raises:
        DataError: `[defaults]` has a key that is not an option.
        RocenvError: There is neither a target nor a usable GPU, or the app is unknown.
    """
    request = _with_defaults(request, context, report)
    host = detect(context.matrix)
    request = replace(request, platform=request.platform or host.platform)
    _require_channel(request.channel, context.matrix)
    request, notes = narrowed(request, context.matrix)
    if request.torch == NO_TORCH:
        request = replace(request, torch="")
    elif request.zluda and not request.torch:
        request = replace(request, torch="*")
    if request.target:
        first, *more = targets_meant(request.target, context.matrix)
        request = replace(request, target=first, more_targets=tuple(more))
    elif request.platform == host.platform:
        request = replace(request, target=_target_of(host, context.matrix, report))
    else:
        raise RocenvError(
            f"this machine does not run {request.platform.capitalize()}, so rocenv cannot detect the target",
            hints=("specify the GPU target for the env: `--target gfx1100`",),
            code="no-gpu",
        )
    machine, changes = _machine_for(request, host, report)
    return CompleteRequest(request=request, machine=machine, changes=changes, notes=notes)


def targets_meant(text: str, matrix: Matrix) -> tuple[str, ...]:
    """Return the distinct targets in a comma-separated list of targets and products.

    Raises:
        RocenvError: A name is unknown or ambiguous.
    """
    names = [*filter(None, map(str.strip, text.split(",")))] or [""]
    return tuple(dict.fromkeys(target_meant(name, matrix) for name in names))


def _require_channel(name: str, matrix: Matrix) -> None:
    known = sorted({*matrix.channels, *(channel_of(row) for row in matrix.hip_sdk)})
    if name and name not in known:
        from difflib import get_close_matches

        close = get_close_matches(name, known, n=1)
        titles = {each: f" ({row.title})" for each, row in matrix.channels.items()}
        listed = ", ".join(f"{each}{titles.get(each, '')}" for each in known)
        raise WrongUsage(
            f"unknown channel `{name}`",
            hints=(*(f"did you mean `--channel {each}`?" for each in close), f"channels: {listed}"),
        )


def _with_defaults(request: Request, context: Context, report: Callable[[str], None]) -> Request:
    file = context.home.config_file
    for name, value in context.config.defaults.items():
        if name not in DEFAULTS:
            raise DataError(
                f"unknown key `defaults.{name}` in `{file}`; known keys: {', '.join(DEFAULTS)}",
                hints=(f"rocenv config unset defaults.{name}",),
            )
        if not getattr(request, name):
            report(f"{name} {value}: the default in `{file}`")
            request = replace(request, **{name: str(value)})
    return request


def _target_of(host: Host, matrix: Matrix, report: Callable[[str], None]) -> str:
    if host.gpu is None or not host.gpu.target:
        raise RocenvError(
            f"found no GPU to create an env for: {host.why}",
            hints=_without_gpu(host, matrix),
            code="no-gpu",
        )
    require_target(host.gpu.target)
    report(f"target {host.gpu.target}: {f'{host.gpu.short_name}, ' if host.gpu.name else ''}{host.why}")
    return host.gpu.target


def _without_gpu(host: Host, matrix: Matrix) -> tuple[str, ...]:
    """List what a user can do on a machine without a usable GPU."""
    rows = [row for gpu in host.gpus if (row := unsupported(gpu.pci_id, matrix))]
    here = [gpu.target for gpu in host.gpus if gpu.target]
    hints = [row.instead for row in rows]
    if here:
        hints.append("to find out how to fix it: `rocenv doctor`")
        hints.append(f"to create the env anyway, add `--target {here[0]}`")
    elif host.driver.wsl and host.remedies:  # Windows did not list the GPUs, so there may be one
        hints += host.remedies
    else:
        hints += [
            "to plan a set for another machine's GPU, for example: "
            '`rocenv resolve --torch --target "RX 9070 XT"`; '
            "`create` installs it here, where it can be verified up to `compile`",
            "to find the cause of a crash on any machine: pass the log to `rocenv diagnose`",
        ]
    return (*hints, "list the GPUs on this machine: `rocenv gpus`")


def _machine_for(
    request: Request, host: Host, report: Callable[[str], None]
) -> tuple[Machine, tuple[EnvChange, ...]]:
    """Describe the machine that the set must run on; less is known if it is not this machine."""
    if request.platform != host.platform:
        return Machine(platform=host.platform), ()
    glibc = "" if examined_elsewhere() else ".".join(map(str, glibc_version() or ()))
    machine = Machine(platform=host.platform, glibc=glibc, wsl=host.driver.wsl, display=host.driver.display)
    if all(gpu.target not in request.targets for gpu in host.gpus):
        # The GPU is in another machine, or Windows did not report WSL's GPU.
        return machine, ()
    # A three-part version (6.10.5) is the module's own and does not identify a ROCm release.
    kernel_driver = host.driver.amdgpu if host.driver.amdgpu.count(".") > 3 else ""
    driver = kernel_driver if host.platform == "linux" else host.driver.release
    # With AMD's own driver, and on WSL, the kernel's version does not matter.
    kernel = "" if host.driver.amdgpu or host.driver.wsl else host.driver.kernel
    return replace(machine, kernel=kernel, driver=driver), visible_gpus(host, request.targets, report)


def visible_gpus(host: Host, targets: Sequence[str], report: Callable[[str], None]) -> tuple[EnvChange, ...]:
    """Make an env's programs use the GPUs that the env is for, if this machine has others too."""
    indices = host.visible_devices(*targets)
    if not indices:
        return ()
    used = host.devices_for(*targets)
    hidden = [gpu for gpu in host.gpus if gpu.hip_index is not None and gpu not in used]
    effect = f"puts {used[0].short_name or used[0].target} first"
    if hidden:
        igpu = "the iGPU: " if all(gpu.integrated for gpu in hidden) else ""
        effect = f"hides {igpu}{', '.join(gpu.short_name or gpu.target for gpu in hidden)}"
    report(f"{VISIBLE}={indices} in the env {effect}")
    return (EnvChange(action="set", name=VISIBLE, value=indices),)

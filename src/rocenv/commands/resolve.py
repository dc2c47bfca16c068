"""`rocenv resolve`: the plan alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from rocenv.commands import candidates
from rocenv.commands.output import json_option, note, print_json, short_enough
from rocenv.commands.plan_view import plan_json, plan_text
from rocenv.context import Context
from rocenv.core.errors import DataError, RocenvError
from rocenv.core.model import EnvChange, Machine, Request
from rocenv.core.variables import VISIBLE
from rocenv.system.files import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.core.model import Lock
    from rocenv.host import Host

DEFAULTS = ("rocm", "zluda", "torch", "python", "target", "channel")
_NAMES = (
    "rocm",
    "zluda",
    "torch",
    "no_torch",
    "python",
    "target",
    "channel",
    "platform",
    "driver",
    "app",
    "dev",
    "no_guard",
)


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is asked for; they arrive as one `request`."""

    @functools.wraps(function)
    def gather(*args: Any, **options: Any) -> Any:
        from rocenv.resolve.request import NO_TORCH

        given: dict[str, Any] = {name: options.pop(name) for name in _NAMES}
        if given.pop("no_torch"):
            if given["torch"] is not None:
                raise click.UsageError("--torch and --no-torch exclude each other")
            given["torch"] = NO_TORCH
        values: dict[str, Any] = {name: "" if value is None else value for name, value in given.items()}
        request = Request(**values)
        return function(*args, request=request, **options)

    for option in reversed(
        (
            click.option(
                "--rocm",
                metavar="SPEC",
                callback=short_enough,
                shell_complete=candidates.rocm_versions,
                help="Version (5.7) or range ('>=6.1,<6.3') of ROCm.",
            ),
            click.option(
                "--zluda",
                metavar="[SPEC]",
                is_flag=False,
                flag_value="*",
                callback=short_enough,
                shell_complete=candidates.zluda_versions,
                help="Windows: CUDA programs on ZLUDA, with the HIP SDK; without SPEC the best build.",
            ),
            click.option(
                "--torch",
                metavar="[SPEC]",
                is_flag=False,
                flag_value="*",
                callback=short_enough,
                shell_complete=candidates.torch_versions,
                help="Install PyTorch too; without SPEC the newest that goes with the set.",
            ),
            click.option("--no-torch", is_flag=True, help="No PyTorch: the default, but for --zluda."),
            click.option(
                "--python",
                metavar="SPEC",
                callback=short_enough,
                shell_complete=candidates.pythons,
                help="Python for the venv of PyTorch.",
            ),
            click.option(
                "--target",
                metavar="GFX[,GFX]",
                callback=short_enough,
                shell_complete=candidates.targets,
                help="GPU target, say gfx1100, or several. Default: this machine's.",
            ),
            click.option(
                "--channel",
                metavar="CH",
                callback=short_enough,
                shell_complete=candidates.channels,
                help="Take the set from this channel only.",
            ),
            click.option(
                "--platform",
                type=click.Choice(["linux", "windows"]),
                help="The system that the set is for. Default: this one.",
            ),
            click.option(
                "--driver",
                metavar="VER",
                callback=short_enough,
                help="Driver of the machine that the set is for: of the kernel, or Windows' display driver.",
            ),
            click.option("--dev", is_flag=True, help="Compilers and headers too, where they come apart."),
            click.option(
                "--no-guard", is_flag=True, help="Let pip and uv replace the env's own builds for ROCm."
            ),
            click.option(
                "--app",
                metavar="APP",
                callback=short_enough,
                shell_complete=candidates.apps,
                help="Choose a set that this app works with. The app itself comes along only where the "
                "channel of that set has it; the plan says so, and which channel has it.",
            ),
        )
    ):
        gather = option(gather)
    return gather


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request made whole, and what is known of the machine that the set is for."""

    request: Request
    machine: Machine
    changes: tuple[EnvChange, ...] = ()  # to the environment, for this machine's sake
    said: tuple[str, ...] = ()  # of what an app needs


def completed(request: Request, context: Context) -> Asked:
    """Return the request with what was not asked for: the user's `[defaults]`, the app's needs, this machine.

    Raises:
        DataError: `[defaults]` has a name that stands for no option.
        RocenvError: No target is named, and there is no GPU that programs could use; or there is no such app.
    """
    from rocenv.host import detect
    from rocenv.resolve.apps import narrowed
    from rocenv.resolve.request import NO_TORCH

    request = _with_defaults(request, context)
    host = detect(context.matrix)
    request = structs.replace(request, platform=request.platform or host.platform)
    request, said = narrowed(request, context.matrix)
    if request.torch == NO_TORCH:
        request = structs.replace(request, torch="")
    elif request.zluda and not request.torch:
        request = structs.replace(request, torch="*")
    if request.target:
        named = filter(None, (each.strip() for each in request.target.split(",")))
        first, *more = dict.fromkeys(named) or [request.target]
        for target in (first, *more):
            require_target(target)
        request = structs.replace(request, target=first, more_targets=tuple(more))
    elif request.platform == host.platform:
        request = structs.replace(request, target=_target_of(host))
    else:
        raise RocenvError(
            f"this machine does not run {request.platform}, so the target must be named",
            hints=("add `--target gfx1100`, with the target of the GPU that the env is for",),
            code="no-gpu",
        )
    return replace(_on(host, request), said=said)


def _with_defaults(request: Request, context: Context) -> Request:
    for name, value in context.config.defaults.items():
        if name not in DEFAULTS:
            raise DataError(
                f"unknown key `defaults.{name}` in `{context.home.config_file}`; "
                f"known keys: {', '.join(DEFAULTS)}",
                hints=(f"rocenv config unset defaults.{name}",),
            )
        if not getattr(request, name):
            note(f"{name} {value}: the default in `{context.home.config_file}`")
            request = structs.replace(request, **{name: str(value)})
    return request


def _on(host: Host, request: Request) -> Asked:
    """Return a request with the facts of this machine, where the set is for it."""
    if request.platform != host.platform:
        return Asked(request=request, machine=Machine(platform=host.platform))
    from rocenv.system.machine import examined_elsewhere, glibc_version

    glibc = "" if examined_elsewhere() else ".".join(map(str, glibc_version() or ()))
    machine = Machine(platform=host.platform, glibc=glibc, wsl=host.driver.wsl, display=host.driver.display)
    if all(gpu.target not in request.targets for gpu in host.gpus):
        # It is for another machine's GPU, or Windows did not say which one WSL has.
        return Asked(request=request, machine=machine)
    # A version of three parts (6.10.5) is the module's own, and does not say which ROCm it came with.
    kernel_driver = host.driver.amdgpu if host.driver.amdgpu.count(".") > 3 else ""
    driver = kernel_driver if host.platform == "linux" else host.driver.release
    # Of AMD's own driver, and below Windows, the kernel's number says nothing.
    kernel = "" if host.driver.amdgpu or host.driver.wsl else host.driver.kernel
    machine = structs.replace(machine, kernel=kernel, driver=driver)
    return Asked(request=request, machine=machine, changes=visible_gpus(host, request.targets))


def plan_of(asked: Asked, context: Context, *, unlisted: bool = False) -> Lock:
    """Return the plan for what is asked; see `make_plan`."""
    from rocenv.plan import make_plan

    return make_plan(
        asked.request, context, asked.machine, asked.changes, notes=asked.said, unlisted=unlisted
    )


def visible_gpus(host: Host, targets: Sequence[str]) -> tuple[EnvChange, ...]:
    """Make programs of an env take the GPUs that it is for, where this machine has others too."""
    shown = host.visible_devices(*targets)
    if not shown:
        return ()
    seen = host.devices_for(*targets)
    hidden = [gpu for gpu in host.gpus if gpu.hip_index is not None and gpu not in seen]
    does = f"puts {seen[0].name or seen[0].target} first"
    if hidden:
        igpu = "the iGPU: " if all(gpu.integrated for gpu in hidden) else ""
        does = f"hides {igpu}{', '.join(gpu.name or gpu.target for gpu in hidden)}"
    note(f"{VISIBLE}={shown} in the env {does}")
    return (EnvChange(action="set", name=VISIBLE, value=shown),)


def require_target(target: str) -> None:
    """Raise RocenvError for what is no name of a target; features like `:xnack-` are no part of it."""
    from rocenv.host.gpu import is_target, split_target

    if is_target(target):
        return
    name, features = split_target(target)
    hint = "a target is called gfx and a number, like gfx1100 (RX 7900) or gfx1030 (RX 6800)"
    if features and is_target(name):
        hint = f"leave out `{features}`: `--target {name}`"
    raise RocenvError(f"`{target}` is no target", hints=(hint,), code="target-unknown")


def _target_of(host: Host) -> str:
    """Return the target of the GPU that is used."""
    if host.gpu is None or not host.gpu.target:
        raise RocenvError(
            f"no GPU to make an env for: {host.why}",
            hints=(
                "name the target of the GPU that the env is for: `--target gfx1100`",
                "see what is here: `rocenv gpus`",
            ),
            code="no-gpu",
        )
    require_target(host.gpu.target)
    note(f"target {host.gpu.target}: {f'{host.gpu.name}, ' if host.gpu.name else ''}{host.why}")
    return host.gpu.target


@click.command()
@request_options
@click.option("--offline", is_flag=True, help="Use only what was fetched before.")
@json_option
def command(request: Request, offline: bool, as_json: bool) -> None:
    """Show the set that `create` would take for the same options, and why."""
    from rocenv.resolve.apps import lacking
    from rocenv.resolve.drivers import lacking_on_wsl

    context = Context(offline=offline)
    with storage_errors(context.home.path):
        asked = completed(request, context)
        lock = plan_of(asked, context, unlisted=True)
    missing = (
        *lacking(lock, asked.machine, context.matrix, "rocenv resolve"),
        *lacking_on_wsl(lock, asked.machine, context.matrix),
    )
    if as_json:
        print_json(plan_json(lock, missing))
    else:
        click.echo(plan_text(lock, missing))

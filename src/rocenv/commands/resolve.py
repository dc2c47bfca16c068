"""`rocenv resolve`: show the plan without carrying it out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.output import json_option, note, print_json, print_text, short_enough
from rocenv.commands.plan_view import plan_json, plan_text
from rocenv.context import Context
from rocenv.core.model import Request
from rocenv.system.files import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Lock
    from rocenv.request import CompleteRequest


def _option(name: str, **settings: Any) -> Callable[..., Any]:
    if not settings.get("is_flag"):
        settings.setdefault("callback", short_enough)
    return click.option(name, **settings)


_OPTIONS = (
    _option(
        "--rocm",
        metavar="SPEC",
        shell_complete=candidates.rocm_versions,
        help="Version (5.7) or range ('>=6.1,<6.3') of ROCm.",
    ),
    _option(
        "--zluda",
        metavar="[SPEC]",
        is_flag=False,
        flag_value="*",
        shell_complete=candidates.zluda_versions,
        help="On Windows: run CUDA programs with ZLUDA and the HIP SDK. Without SPEC: the best build.",
    ),
    _option(
        "--torch",
        metavar="[SPEC]",
        is_flag=False,
        flag_value="*",
        shell_complete=candidates.torch_versions,
        help="Also install PyTorch. Without SPEC: the newest compatible release.",
    ),
    _option("--no-torch", is_flag=True, help="Do not install PyTorch (default, except with --zluda)."),
    _option(
        "--python",
        metavar="SPEC",
        shell_complete=candidates.pythons,
        help="Version of Python for PyTorch.",
    ),
    _option(
        "--target",
        metavar="GPU[,GPU]",
        shell_complete=candidates.targets,
        help="The GPU: a target (gfx1100) or a product ('RX 6750 XT'). Default: this machine's.",
    ),
    _option(
        "--channel",
        metavar="CH",
        shell_complete=candidates.channels,
        help="Use only sets from this channel (source of packages).",
    ),
    click.option(
        "--platform",
        type=click.Choice(["linux", "windows"]),
        help="The operating system that the set is for. Default: this one.",
    ),
    _option(
        "--driver",
        metavar="VER",
        help="Driver on the machine that the set is for: the kernel driver, or Windows' display driver.",
    ),
    _option("--dev", is_flag=True, help="Also install compilers and headers if they are separate packages."),
    _option("--no-guard", is_flag=True, help="Allow pip and uv to replace the env's builds for ROCm."),
    _option(
        "--app",
        metavar="APP",
        shell_complete=candidates.apps,
        help="Choose a set that this app works with. The plan shows whether the app itself is included, and "
        "which channel has it.",
    ),
)
_NAMES = (
    *("rocm", "zluda", "torch", "no_torch", "python", "target", "channel", "platform", "driver"),
    *("dev", "no_guard", "app"),
)


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a request to a command, which receives them as one `request`."""

    @functools.wraps(function)
    def with_request(*args: Any, **options: Any) -> Any:
        from rocenv.resolve.request import NO_TORCH

        given: dict[str, Any] = {name: options.pop(name) for name in _NAMES}
        if given.pop("no_torch"):
            if given["torch"] is not None:
                raise click.UsageError("use either --torch or --no-torch")
            given["torch"] = NO_TORCH
        values: dict[str, Any] = {name: "" if value is None else value for name, value in given.items()}
        return function(*args, request=Request(**values), **options)

    for option in reversed(_OPTIONS):
        with_request = option(with_request)
    return with_request


def plan_for(
    complete: CompleteRequest, context: Context, *, unlisted: bool = False, fallback: bool = True
) -> Lock:
    """Plan a complete request; see `make_plan`."""
    from rocenv.plan import make_plan

    with context.progress.wait("Reading package lists"):
        return make_plan(
            complete.request,
            context,
            complete.machine,
            complete.changes,
            notes=complete.notes,
            unlisted=unlisted,
            fallback=fallback,
        )


def requirements(lock: Lock, complete: CompleteRequest, context: Context, command: str) -> tuple[str, ...]:
    """List what the user must provide or decide before the set works; `command` would be run again."""
    from rocenv.resolve.apps import lacking
    from rocenv.resolve.drivers import lacking_on_wsl

    machine, matrix = complete.machine, context.matrix
    return (*lacking(lock, machine, matrix, command), *lacking_on_wsl(lock, machine, matrix))


@click.command()
@request_options
@click.option("--offline", is_flag=True, help="Use only files that are already on this machine.")
@json_option
def command(request: Request, offline: bool, as_json: bool) -> None:
    """Show the set that `create` would install with the same options, and why."""
    from rocenv.request import complete_request

    context = Context(offline=offline)
    with storage_errors(context.home.path):
        complete = complete_request(request, context, note)
        lock = plan_for(complete, context, unlisted=True)
    missing = requirements(lock, complete, context, "rocenv resolve")
    if as_json:
        print_json(plan_json(lock, missing))
    else:
        print_text(plan_text(lock, missing))

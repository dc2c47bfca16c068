"""`rocenv resolve`: show the plan without installing it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from rocenv.commands import candidates
from rocenv.commands.options import PLATFORM, json_option, offline_option, text_option
from rocenv.commands.output import note, print_json, print_text
from rocenv.commands.plan_view import plan_json, plan_text
from rocenv.context import Context
from rocenv.core.model import Request
from rocenv.system.files import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Lock
    from rocenv.request import CompleteRequest


_OPTIONS = (
    text_option(
        "--rocm",
        "SPEC",
        candidates.rocm_versions,
        help="Version (5.7) or range ('>=6.1,<6.3') of ROCm.",
    ),
    text_option(
        "--zluda",
        "[SPEC]",
        candidates.zluda_versions,
        is_flag=False,
        flag_value="*",
        help="On Windows: run CUDA programs with ZLUDA and the HIP SDK. Without SPEC: the best build.",
    ),
    text_option(
        "--torch",
        "[SPEC]",
        candidates.torch_versions,
        is_flag=False,
        flag_value="*",
        help="Also install PyTorch. Without SPEC: the newest compatible release.",
    ),
    click.option("--no-torch", is_flag=True, help="Do not install PyTorch (the default without --zluda)."),
    text_option("--python", "SPEC", candidates.pythons, help="Python version for PyTorch."),
    text_option(
        "--target",
        "GPU[,GPU]",
        candidates.targets,
        help="The GPU: a target (gfx1100) or a product ('RX 6750 XT'). Default: this machine's.",
    ),
    text_option(
        "--channel",
        "CH",
        candidates.channels,
        help="Use only sets from this channel (package source).",
    ),
    click.option(
        "--platform",
        type=PLATFORM,
        help="The operating system for which to choose a set. Default: this one.",
    ),
    text_option(
        "--driver",
        "VER",
        help="The driver to assume: the kernel driver or, on Windows, the display driver.",
    ),
    click.option(
        "--dev", is_flag=True, help="Also install compilers and headers if they are separate packages."
    ),
    click.option("--no-guard", is_flag=True, help="Allow pip and uv to replace the env's ROCm builds."),
    text_option(
        "--app",
        "APP",
        candidates.apps,
        help="Choose a set that works with this app. The plan shows whether the app itself is included, and "
        "which channel provides it.",
    ),
)
_NAMES = (
    *("rocm", "zluda", "torch", "no_torch", "python", "target", "channel", "platform", "driver"),
    *("dev", "no_guard", "app"),
)


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a request to a command, which receives them as a single `request`."""

    @functools.wraps(function)
    def with_request(*args: Any, **options: Any) -> Any:
        from rocenv.resolve.request import NO_TORCH

        given: dict[str, Any] = {name: options.pop(name) for name in _NAMES}
        if given.pop("no_torch"):
            if given["torch"]:
                raise click.UsageError("use either --torch or --no-torch")
            given["torch"] = NO_TORCH
        given["platform"] = given["platform"] or ""
        return function(*args, request=Request(**given), **options)

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
    """List what the user must provide or decide before the set works, with variants of `command` to run."""
    from rocenv.resolve.apps import lacking
    from rocenv.resolve.drivers import lacking_on_wsl

    machine, matrix = complete.machine, context.matrix
    return (*lacking(lock, machine, matrix, command), *lacking_on_wsl(lock, machine, matrix))


@click.command()
@request_options
@offline_option
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
        return
    print_text(plan_text(lock, missing))
    if lock.platform == complete.machine.platform:
        from rocenv.resolve.request import options

        torch = complete.request.torch if request.zluda else request.torch
        words = options(replace(request, torch=torch, platform=lock.platform), lock.platform)
        line = f"rocenv create {words}".rstrip()
        note(f"create the env: `{line}`")

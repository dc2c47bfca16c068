"""`rocenv resolve`: the plan alone."""

from __future__ import annotations

import functools
import os
import re
import shutil
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.world import World, json_option, note, print_json
from rocenv.errors import DataError, RocenvError
from rocenv.model import Request
from rocenv.system.files import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.model import Lock


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is asked for; they arrive as one `request`."""

    @functools.wraps(function)
    def gather(*args: Any, **options: Any) -> Any:
        names = ("rocm", "torch", "no_torch", "python", "target", "channel", "platform")
        given = {name: options.pop(name) for name in names}
        if given.pop("no_torch"):
            if given["torch"] is not None:
                raise click.UsageError("--torch and --no-torch exclude each other")
            given["torch"] = NO_TORCH
        request = Request(**{name: value or "" for name, value in given.items()})
        return function(*args, request=request, **options)

    for option in reversed(
        (
            click.option("--rocm", metavar="SPEC", help="Version (5.7) or range ('>=6.1,<6.3') of ROCm."),
            click.option(
                "--torch",
                metavar="[SPEC]",
                is_flag=False,
                flag_value="*",
                help="Install PyTorch too; without SPEC the newest that goes with the set.",
            ),
            click.option("--no-torch", is_flag=True, help="No PyTorch, which is the default."),
            click.option("--python", metavar="SPEC", help="Python for the venv of PyTorch."),
            click.option("--target", metavar="GFX", help="GPU target, say gfx1100. Default: this machine's."),
            click.option("--channel", metavar="CH", help="Take the set from this channel only."),
            click.option(
                "--platform",
                type=click.Choice(["linux", "windows"]),
                default="linux",
                show_default=True,
                help="The system that the set is for.",
            ),
        )
    ):
        gather = option(gather)
    return gather


NO_TORCH = "none"  # asked for, where the default may be another
DEFAULTS = ("rocm", "torch", "python", "target", "channel")
_TARGET = re.compile(r"gfx[0-9a-f]+")


def completed(request: Request, world: World) -> Request:
    """Return the request with what was not asked for: the user's `[defaults]`, then this machine's target.

    Raises:
        DataError: `[defaults]` has a name that stands for no option.
        RocenvError: No target is named, and there is no GPU that the kernel's driver knows.
    """
    for name, value in world.config.defaults.items():
        if name not in DEFAULTS:
            raise DataError(
                f"unknown key `defaults.{name}` in `{world.home.config_file}`, known: {', '.join(DEFAULTS)}",
                hints=(f"rocenv config unset defaults.{name}",),
            )
        if not getattr(request, name):
            note(f"{name} {value}: the default in `{world.home.config_file}`")
            request = replace(request, **{name: str(value)})
    if request.torch == NO_TORCH:
        request = replace(request, torch="")
    return _with_target(request)


def require_target(target: str) -> None:
    """Raise RocenvError for what is no name of a target; features like `:xnack-` are no part of it."""
    if not _TARGET.fullmatch(target):
        raise RocenvError(
            f"`{target}` is no target",
            hints=("a target is called gfx and a number, like gfx1100 (RX 7900) or gfx1030 (RX 6800)",),
            code="target-unknown",
        )


def _with_target(request: Request) -> Request:
    from rocenv.host import chosen_gpu, detect_gpus

    if request.target:
        require_target(request.target)
        return request
    gpus = detect_gpus()
    gpu = chosen_gpu(gpus)
    if gpu is None:
        raise RocenvError(
            "no AMD GPU found here, so the target must be named",
            hints=(
                "add `--target gfx1100`, with the target of the GPU that the env is for",
                "with a GPU in the machine: is the `amdgpu` driver loaded? `ls /dev/kfd` shows it",
            ),
            code="no-gpu",
        )
    require_target(gpu.target)
    if "ROCENV_TARGET" in os.environ:
        note(f"target {gpu.target}: named by ROCENV_TARGET")
    else:
        note(f"target {gpu.target}: the GPU of KFD node {gpu.node}, {gpu.compute_units} compute units")
    return replace(request, target=gpu.target)


def plan_json(lock: Lock) -> dict[str, Any]:
    """Return a plan as `resolve --json` prints it."""
    from rocenv.activate.changes import apply
    from rocenv.codec import to_plain

    return {
        "request": to_plain(lock.request),
        "platform": lock.platform,
        "target": lock.target,
        "components": [
            {
                "kind": part.kind,
                "name": part.name,
                "version": part.version,
                "channel": part.channel,
                "why": part.why,
                "glibc": part.glibc,
                "own_glibc": bool(part.loader),
                "artifacts": [
                    {
                        "name": artifact.name,
                        "version": artifact.version,
                        "url": artifact.url,
                        "sha256": artifact.sha256,
                        "size_bytes": artifact.size_bytes,
                    }
                    for artifact in part.artifacts
                ],
            }
            for part in lock.components
        ],
        "environment": apply(lock.environment, {}),
        "notes": list(lock.notes),
    }


def plan_text(lock: Lock) -> str:
    """Return a plan for people to read."""
    from rocenv.progress import size_text

    lines = [f"Plan for {lock.target} on {lock.platform}"]
    for part in lock.components:
        download = sum(artifact.size_bytes for artifact in part.artifacts)
        installed = sum(artifact.installed_bytes for artifact in part.artifacts)
        lines.append(f"  {part.kind} {part.version} from {part.channel}: {part.why}")
        size = f"    {len(part.artifacts)} packages, {size_text(download)}"
        lines.append(size + (f", {size_text(installed)} once unpacked" if installed else ""))
    width = max(60, min(120, shutil.get_terminal_size((110, 24)).columns - 1))
    for text in lock.notes:
        lines += textwrap.wrap(
            text,
            width,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


@click.command()
@request_options
@click.option("--offline", is_flag=True, help="Use only what was fetched before.")
@json_option
def command(request: Request, offline: bool, as_json: bool) -> None:
    """Show the set that `create` would take for the same options, and why."""
    from rocenv.plan import make_plan

    world = World(offline=offline)
    with storage_errors(world.home.path):
        lock = make_plan(completed(request, world), world.planning())
    if as_json:
        print_json(plan_json(lock))
    else:
        click.echo(plan_text(lock))

"""`rocenv kernels`: compile GPU kernels for apps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.options import FILE, FOLDER, json_option, offline_option, target_option, text_option
from rocenv.commands.output import fields, fields_or_none, note, print_json
from rocenv.context import Context

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.kernels.build import BuildResult
    from rocenv.kernels.placed import PlaceName


@click.group()
def command() -> None:
    """Compile an app's GPU kernels for a target, from the app's own source."""


@command.group(name="build", short_help="Compile an app's kernels.")
def build_group() -> None:
    """Compile an app's GPU kernels and install them for the app."""


@build_group.command(short_help="Compile Cycles kernels.")
@click.option(
    "--blender",
    "path",
    metavar="PATH",
    type=click.Path(),
    default="",
    help="Blender's program or installation folder. Default: `blender` in the env, or else on PATH.",
)
@target_option(
    "GFX|PRODUCT",
    "The GPU target. Default: the env's target (after its override), or the target of the GPU in use.",
)
@click.option("--hip", is_flag=True, help="Compile the HIP kernel (default).")
@click.option("--hiprt", is_flag=True, help="Compile the HIP-RT kernel.")
@click.option(
    "--hiprt-include",
    metavar="DIR",
    type=FOLDER,
    help="The folder that contains `hiprt/impl/hiprt_device_impl.h`; implies `--hiprt`.",
)
@text_option(
    "--env",
    "NAME",
    candidates.env_names,
    help="The env that provides the compiler. Default: the active env, or else the app's.",
)
@click.option(
    "--place",
    type=click.Choice(["overlay", "in-place"]),
    help="Where to put the kernel. Default: overlay.",
)
@click.option("--output", metavar="FILE", type=FILE, help="Only write the kernel to this file.")
@click.option("--undo", is_flag=True, help="Remove kernels and restore the originals.")
@text_option("--app-version", "VERSION", help="The app's version, if rocenv cannot detect it.")
@offline_option
@json_option
def blender(
    path: str,
    target: str,
    hip: bool,
    hiprt: bool,
    hiprt_include: Path | None,
    env: str,
    place: PlaceName | None,
    output: Path | None,
    undo: bool,
    app_version: str,
    offline: bool,
    as_json: bool,
) -> int:
    """Compile Blender's Cycles kernels from the source that comes with it (Linux only).

    This creates an overlay: links to Blender's resources plus the new kernel, and a script that starts
    Blender with them. `rocenv launch` uses it automatically. The installation itself stays unchanged unless
    you specify `--place in-place`.
    """
    is_hiprt = hiprt or hiprt_include is not None
    if hip and is_hiprt:
        raise click.UsageError("use only one of --hip and --hiprt")
    if output is not None and (undo or place is not None):
        raise click.UsageError(f"use either `--output` or `{'--undo' if undo else '--place'}`")
    if undo:
        from rocenv.kernels import placement

        kind = "hiprt" if is_hiprt else "hip" if hip else ""
        done = placement.undo(
            Context().home, note, path=path, kind=kind, target=target, place=place or "", env=env
        )
        if as_json:
            undone = [{"file": each.file, "place": each.place, "what": what} for each, what in done]
            print_json({"undone": undone})
        return 0
    from rocenv.kernels.build import BuildRequest, build

    context = Context(offline=offline)
    context.require_home()
    request = BuildRequest(
        kind="hiprt" if is_hiprt else "hip",
        path=path,
        target=target,
        env=env,
        include=hiprt_include,
        version=app_version,
        place=place or "overlay",
        output=output,
    )
    result = build(request, context, os.environ, note)
    if as_json:
        print_json(_as_json(result, output))
    else:
        _print(result, output)
    return 0


def _print(result: BuildResult, output: Path | None) -> None:
    from rocenv.core.progress import size_text
    from rocenv.system.quoting import shell_join

    entry, placed = result.kernel.entry, result.placed
    how = f"compiled in {entry.seconds:.0f} s" if result.kernel.fresh else "already compiled"
    expected = result.job.recipe.kernels
    count = f"{entry.kernels} kernels" + (
        f" (expected {expected})" if expected not in (0, entry.kernels) else ""
    )
    click.echo(f"{result.job.title}: {count}, {size_text(len(result.kernel.content))}, {how}")
    if placed is None:
        click.echo(f"wrote {output}")
        return
    click.echo(f"placed in {placed.file}")
    if placed.start:
        click.echo(f"start Blender with {shell_join(placed.start)}; `rocenv launch` does so automatically")
    else:
        click.echo(
            f"the original is in {placed.original}" if placed.original else "Blender had no such file before"
        )
    click.echo(f"to undo: {shell_join(*placed.undo_words())}")


def _as_json(result: BuildResult, output: Path | None) -> dict[str, Any]:
    from rocenv.kernels.installation import RESOURCES

    entry, placed = result.kernel.entry, result.placed
    where = placed and {
        **fields(placed, "place", "file"),
        **fields_or_none(placed, "start", "original"),
        "environment": {RESOURCES: placed.resources} if placed.resources else {},
    }
    return {
        **fields(entry, "app", "kind", "target", "compiler", "kernels", "sha256"),
        "version": result.job.version,
        "source": str(result.job.installation.source),
        "compiler_env": result.toolchain.env,
        "kernels_expected": result.job.recipe.kernels or None,
        "elf_flags": entry.flags,
        "size_bytes": len(result.kernel.content),
        "compiled_now": result.kernel.fresh,
        "elapsed_s": entry.seconds,
        "kept_in": str(result.kernel.path),
        "output": str(output) if output is not None else None,
        "placed": where,
    }

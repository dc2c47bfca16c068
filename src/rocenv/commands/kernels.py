"""`rocenv kernels`: compile the GPU kernels of apps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.options import FILE, FOLDER, json_option, offline_option, target_option, text_option
from rocenv.commands.output import fields, fields_or_none, note, print_json
from rocenv.context import Context
from rocenv.kernels.placement import PLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rocenv.data.recipes import KernelRecipe, KernelSource
    from rocenv.kernels.build import BuildRequest, BuildResult


@click.group()
def command() -> None:
    """Compile an app's GPU kernels for a target, from the app's own source."""


class _Apps(click.Group):
    """One command for each app with recipes in the data."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        matrix = Context().matrix
        with_recipe = {row.app for row in matrix.kernel_recipe}
        return sorted(row.app for row in matrix.kernel_source if row.app in with_recipe)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        context = Context()
        row = next((row for row in context.matrix.kernel_source if row.app == cmd_name), None)
        return _command_for(row, context) if row is not None and cmd_name in self.list_commands(ctx) else None


@command.command(cls=_Apps, name="build", short_help="Compile an app's kernels.")
def build_group() -> None:
    """Compile an app's GPU kernels and put them where the app finds them."""


def _command_for(row: KernelSource, context: Context) -> click.Command:
    """Create an app's command: the options for its kinds of kernels, and those that all apps have."""
    from rocenv.kernels.recipe import kinds

    recipes = list(kinds(row.app, context.matrix).values())

    def run(**options: Any) -> int:
        flags = [each.kind for each in recipes if options.pop(each.kind.replace("-", "_"))]
        includes = {each.kind: options.pop(f"{each.kind}_include", None) for each in recipes}
        named = dict.fromkeys((*flags, *(kind for kind, folder in includes.items() if folder is not None)))
        if len(named) > 1:
            raise click.UsageError(f"use only one of {' and '.join(f'--{kind}' for kind in named)}")
        kind = next(iter(named), "")
        return _run(context, row, kind, recipes[0].kind, includes.get(kind), **options)

    for option in reversed([*_options_of(row, recipes), *_OPTIONS]):
        run = option(run)
    return click.command(
        row.app,
        help=f"Compile the {row.title} kernels of {row.app} from the source that ships with it, on Linux.\n\n"
        f"The kernel goes into a linked copy of {row.app}'s resources, and a script starts {row.app} with "
        "that copy. `rocenv launch` uses it automatically. The installation stays unchanged unless you ask "
        "for `--place in-place`.",
        short_help=f"The kernels of {row.title}.",
    )(run)


def _options_of(row: KernelSource, recipes: list[KernelRecipe]) -> Iterator[Callable[..., Any]]:
    yield click.option(
        *(f"--{row.app}", "path"),
        metavar="PATH",
        type=click.Path(),
        default="",
        help=f"Its program or installation folder. Default: the `{row.app}` of the env, else on PATH.",
    )
    for number, recipe in enumerate(recipes):
        text = f"Compile the {recipe.title} kernel{'' if number else ' (default)'}."
        yield click.option(f"--{recipe.kind}", is_flag=True, help=text)
        if recipe.headers:
            text = f"The folder with `{recipe.headers}`; implies `--{recipe.kind}`."
            yield click.option(f"--{recipe.kind}-include", metavar="DIR", type=FOLDER, help=text)


_OPTIONS = (
    target_option(
        "GFX", "The GPU target. Default: the env's target with its override, or the target of the GPU in use."
    ),
    text_option(
        "--env",
        "NAME",
        candidates.env_names,
        help="The env whose compiler to use. Default: the active env, else the app's.",
    ),
    click.option("--place", type=click.Choice(PLACES), help="Where to put the kernel. Default: overlay."),
    click.option("--output", metavar="FILE", type=FILE, help="Write the kernel to this file only."),
    click.option("--undo", is_flag=True, help="Remove kernels and restore the originals."),
    text_option("--app-version", "VERSION", help="The app's version, if rocenv cannot detect it."),
    offline_option,
    json_option,
)


def _run(
    context: Context,
    row: KernelSource,
    kind: str,
    default_kind: str,
    include: Path | None,
    *,
    path: str,
    target: str,
    env: str,
    place: Any,
    output: Path | None,
    undo: bool,
    app_version: str,
    offline: bool,
    as_json: bool,
) -> int:
    if output is not None and (undo or place is not None):
        raise click.UsageError(f"use either `--output` or `{'--undo' if undo else '--place'}`")
    if undo:
        from rocenv.kernels import placement

        done = placement.undo(
            row, context.home, note, path=path, kind=kind, target=target, place=place or "", env=env
        )
        if as_json:
            undone = [{"file": each.file, "place": each.place, "what": what} for each, what in done]
            print_json({"undone": undone})
        return 0
    from rocenv.kernels.build import BuildRequest, build

    if offline:
        context = Context(offline=True)
    context.require_home()
    request = BuildRequest(
        row=row,
        kind=kind or default_kind,
        path=path,
        target=target,
        env=env,
        include=include,
        version=app_version,
        place=place or "overlay",
        output=output,
    )
    result = build(request, context, os.environ, note)
    if as_json:
        print_json(_as_json(result, request))
    else:
        _print(result, request)
    return 0


def _print(result: BuildResult, request: BuildRequest) -> None:
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
        click.echo(f"wrote {request.output}")
        return
    click.echo(f"placed in {placed.file}")
    if placed.start:
        click.echo(
            f"start {placed.app} with {shell_join(placed.start)}; `rocenv launch` does so automatically"
        )
    else:
        click.echo(
            f"the original is in {placed.original}" if placed.original else "the app had no such file before"
        )
    click.echo(f"to undo this: {shell_join(*placed.undo_words())}")


def _as_json(result: BuildResult, request: BuildRequest) -> dict[str, Any]:
    entry, placed = result.kernel.entry, result.placed
    where = placed and {
        **fields(placed, "place", "file"),
        **fields_or_none(placed, "start", "original"),
        "environment": {request.row.resources_variable: placed.resources} if placed.resources else {},
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
        "output": str(request.output) if request.output is not None else None,
        "placed": where,
    }

"""`rocenv kernels`: GPU kernels of apps, compiled for a target."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.output import note, print_json, short_enough
from rocenv.context import Context
from rocenv.kernels.places import PLACES

if TYPE_CHECKING:
    from rocenv.data.recipes import KernelRecipe, KernelSource
    from rocenv.kernels.build import Done, Wish
    from rocenv.kernels.placed import Placed


@click.group()
def command() -> None:
    """Compile the GPU kernels of an app, from its own source, for a target."""


class _Apps(click.Group):
    """A command for each app that has kernels to compile: they are rows of the data."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        matrix = Context().matrix
        made = {row.app for row in matrix.kernel_recipe}
        return sorted(row.app for row in matrix.kernel_source if row.app in made)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        context = Context()
        row = next((row for row in context.matrix.kernel_source if row.app == cmd_name), None)
        return _command_of(row, context) if row is not None and cmd_name in self.list_commands(ctx) else None


@command.command(cls=_Apps, name="build", short_help="Compile an app's kernels.")
def build_group() -> None:
    """Compile the GPU kernels of an app, and put them where the app finds them."""


def _command_of(row: KernelSource, context: Context) -> click.Command:
    from rocenv.kernels.recipe import kinds

    found = kinds(row.app, context.matrix)
    names = list(found)
    options = [
        click.Option(
            [f"--{row.app}", "path"],
            metavar="PATH",
            type=click.Path(),
            default="",
            help=f"Its program or its folder. Default: the `{row.app}` of the env, or on PATH.",
        ),
        click.Option(
            ["--target"],
            metavar="GFX",
            default="",
            callback=short_enough,
            shell_complete=candidates.targets,
            help="The GPU target. Default: what the env makes the GPU run as, else that of the GPU in use.",
        ),
        *_options_of_kinds(list(found.values())),
        *_COMMON,
    ]

    def run(**given: Any) -> int:
        flags = [name for number, name in enumerate(names) if given.pop(f"kind{number}", False)]
        folders = {name: given.pop(f"include{number}", None) for number, name in enumerate(names)}
        includes = {name: folder for name, folder in folders.items() if folder is not None}
        asked = list(dict.fromkeys((*flags, *includes)))
        if len(asked) > 1:
            raise click.UsageError(f"one kind of kernel at a time, not {' and '.join(asked)}")
        kind = asked[0] if asked else ""
        return _run(context, row, kind, names[0], includes.get(kind), **given)

    return click.Command(
        row.app,
        params=list(options),
        callback=run,
        help=f"Compile the {row.title} kernels of {row.app} from the source that came with it, on Linux.\n\n"
        "Unless another place is asked for, the kernel goes to where the app looks for kernels that it "
        "compiled itself, or, where it came with one for this target, into a copy of its resources that is "
        "made of links.",
        short_help=f"The kernels of {row.title}.",
    )


def _options_of_kinds(rows: list[KernelRecipe]) -> list[click.Option]:
    options = []
    for number, row in enumerate(rows):
        help_text = f"The {row.title} kernel." if number else f"The {row.title} kernel: the default."
        options.append(click.Option([f"--{row.kind}", f"kind{number}"], is_flag=True, help=help_text))
        if row.headers:
            options.append(
                click.Option(
                    [f"--{row.kind}-include", f"include{number}"],
                    metavar="DIR",
                    type=click.Path(file_okay=False, path_type=Path),
                    help=f"Where `{row.headers}` lies; implies `--{row.kind}`.",
                )
            )
    return options


_COMMON = (
    click.Option(
        ["--env"],
        metavar="NAME",
        default="",
        shell_complete=candidates.env_names,
        help="The env whose compiler and cache are used. Default: the app's, or the active one.",
    ),
    click.Option(["--place"], type=click.Choice(list(PLACES)), help="Where to put it. Default: see above."),
    click.Option(
        ["--output"],
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write it to a file, and nowhere else.",
    ),
    click.Option(["--undo"], is_flag=True, help="Take away what was placed, and put originals back."),
    click.Option(
        ["--app-version"],
        metavar="VERSION",
        default="",
        callback=short_enough,
        help="The app's version, where it cannot be asked.",
    ),
    click.Option(["--offline"], is_flag=True, help="Use only what is here."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document on stdout."),
)


def _run(
    context: Context,
    row: KernelSource,
    kind: str,
    usual: str,
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
    from rocenv.kernels.build import Wish, build

    if undo and output is not None:
        raise click.UsageError("`--undo` and `--output` do not go together")
    if place is not None and output is not None:
        raise click.UsageError("`--place` and `--output` do not go together")
    if target:
        from rocenv.commands.resolve import require_target

        require_target(target)
    if offline:
        context = Context(offline=True)
    wish = Wish(
        row=row,
        path=path,
        kind=kind or usual,
        target=target,
        env=env,
        include=include,
        version=app_version,
        place=place,
        output=output,
    )
    if undo:
        return _undo(wish, context, kind, as_json=as_json)
    context.require_home()
    done = build(wish, context, os.environ, note)
    if as_json:
        print_json(_as_json(done, wish))
    else:
        _tell(done, wish)
    return 0


def _undo(wish: Wish, context: Context, kind: str, *, as_json: bool) -> int:
    from rocenv.kernels.undo import undo

    done = undo(wish, context, kind, note)
    if as_json:
        print_json(
            {"undone": [{"file": each.file, "place": each.place, "what": what} for each, what in done]}
        )
    return 0


def _tell(done: Done, wish: Wish) -> None:
    from rocenv.core.progress import size_text

    entry = done.made.entry
    how = f"in {entry.seconds:.0f} s" if done.made.fresh else "before, and kept since"
    number = done.job.recipe.kernels
    odd = f" (expected {number})" if number and number != entry.kernels else ""
    click.echo(
        f"{done.job.title}: {entry.kernels} kernels{odd}, {size_text(len(done.made.content))}, compiled {how}"
    )
    if done.placed is None:
        click.echo(f"written to {wish.output}")
        return
    for line in _placed_lines(done.placed, done.why):
        click.echo(line)


def _placed_lines(placed: Placed, why: str) -> list[str]:
    from rocenv.system.quoting import shell_join

    lines = [f"put into {placed.file}"]
    if placed.place == "cache":
        whose = f"the cache of the env `{placed.env}`" if placed.env else "your own cache"
        lines.append(f"that is {whose}: {why}")
        if placed.on_path:
            lines.append(
                f"{placed.app} takes it only with a compiler on PATH: `rocenv launch` sees to that, else put "
                f"{placed.on_path} on PATH"
            )
    elif placed.place == "overlay":
        lines.append(f"a copy made of links: {why}")
        lines.append(f"start it with {shell_join(placed.start)}; `rocenv launch` does so by itself")
    else:
        kept = f"the original is kept as {placed.original}" if placed.original else "there was none before"
        lines.append(kept)
    lines.append(f"to take it back: {shell_join(*placed.undo_words())}")
    return lines


def _as_json(done: Done, wish: Wish) -> dict[str, Any]:
    entry, placed = done.made.entry, done.placed
    document: dict[str, Any] = {
        "app": entry.app,
        "version": done.job.version,
        "kind": entry.kind,
        "target": entry.target,
        "source": str(done.job.installation.source),
        "compiler": entry.compiler,
        "compiler_env": done.toolchain.env,
        "kernels": entry.kernels,
        "kernels_expected": done.job.recipe.kernels or None,
        "elf_flags": entry.flags,
        "size_bytes": len(done.made.content),
        "sha256": entry.sha256,
        "compiled_now": done.made.fresh,
        "elapsed_s": entry.seconds,
        "kept_in": str(done.made.path),
        "output": str(wish.output) if wish.output is not None else None,
        "placed": None,
    }
    if placed is not None:
        document["placed"] = {
            "place": placed.place,
            "why": done.why,
            "file": placed.file,
            "start": placed.start or None,
            "environment": {placed.variable: placed.resources} if placed.variable else {},
            "path": [placed.on_path] if placed.on_path else [],
            "cache_home": placed.cache_home or None,
            "env": placed.env if placed.place == "cache" and placed.env else None,
            "original": placed.original or None,
        }
    return document

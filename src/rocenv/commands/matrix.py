"""`rocenv matrix`: show matching rows of the compatibility matrix, or a one-page overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.explain import FULL_OPTION, text_width
from rocenv.commands.options import PLATFORM, json_option, named_target, target_option, text_option
from rocenv.commands.output import columns, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.core.wrap import wrapped
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.data.known import Platform
    from rocenv.data.rows import Matrix
    from rocenv.explain.selection import Filters


@click.command()
@click.argument(
    "gpu",
    nargs=-1,
    metavar="[GFX|PRODUCT]",
    callback=lambda context, parameter, words: named_target(context, parameter, " ".join(words)),
    shell_complete=candidates.targets,
)
@text_option("--rocm", "SPEC", candidates.rocm_versions, help="Only rows about this ROCm release or HIP SDK.")
@target_option("GFX|PRODUCT", "Only rows about this GPU target.")
@text_option("--zluda", "SPEC", candidates.zluda_versions, help="Only rows about this ZLUDA build.")
@text_option("--torch", "SPEC", candidates.torch_versions, help="Only rows about this PyTorch release.")
@click.option("--platform", type=PLATFORM, help="Only rows about this system.")
@FULL_OPTION
@json_option
def command(
    gpu: str, rocm: str, target: str, zluda: str, torch: str, platform: str | None, full: bool, as_json: bool
) -> None:
    """Show which versions work together: matching rows of the compatibility matrix.

    If you specify no GPU (a target or a product, as in `--target`) and no options, show an overview of which
    GPUs each release supports on this system. SPEC is a version (6.1) or a range ('>=6.1,<6.3').
    """
    from msgspec.structs import replace

    from rocenv.core.codec import to_plain
    from rocenv.explain.selection import Filters, select

    if gpu and target:
        raise click.UsageError(f"{gpu} and `--target {target}` are different GPUs; specify only one")
    matrix = Context().matrix
    filters = Filters(rocm=rocm, target=gpu or target, zluda=zluda, torch=torch, platform=platform or "")
    found = select(matrix, filters)
    if not found:
        raise _nothing(matrix, filters)
    if as_json:
        tables = {table: [to_plain(row) for row in rows] for table, rows in found.items()}
        print_json({"filters": to_plain(filters), "tables": tables})
    elif filters.narrow:
        from rocenv.explain.page import SCREEN, Explanation, rendered, shortened
        from rocenv.explain.rows import table_sections

        page = Explanation(thing="", kind="rows", title="", sections=table_sections(found, filters.target))
        width = text_width(80, 140)
        lines = rendered(page, width=width)
        if not full and len(lines) > SCREEN:
            options = _as_options(replace(filters, target=target))
            again = shell_join("rocenv", "matrix", *filter(None, [gpu]), *options, "--full")
            lines = shortened(page, width=width, command=again)
        click.echo("\n".join(lines))
    else:
        _show_overview(matrix, filters.platform, full=full)


def _show_overview(matrix: Matrix, platform: str, *, full: bool) -> None:
    from rocenv.explain.selection import RUNS_AS, full_overview, legend, overview
    from rocenv.host import detect

    both: tuple[Platform, ...] = ("linux", "windows")
    shown = platform or ("" if full else detect(matrix).platform)
    platforms = [each for each in both if shown in ("", each)]
    tables = [(full_overview if full else overview)(matrix, each) for each in platforms]
    click.echo("\n\n".join(map(columns, tables)))
    lines = wrapped(legend(tables), text_width(80, 140))
    if full:
        lines = ["", *lines, *([RUNS_AS] if "linux" in platforms else [])]
    click.echo("\n".join(lines).replace("\u00a0", " "))
    if not full:
        click.echo("To see every target and other systems: `rocenv matrix --full`")


def _as_options(filters: Filters) -> list[str]:
    given = {name: getattr(filters, name) for name in filters.__struct_fields__}
    return [word for name, value in given.items() if value for word in (f"--{name}", value)]


def _nothing(matrix: Matrix, filters: Filters) -> RocenvError:
    """Explain why no row matches: a value is unknown, or no row covers the combination."""
    from rocenv.explain.selection import known_versions, select

    given: dict[str, Any] = {name: getattr(filters, name) for name in ("rocm", "zluda", "torch", "target")}
    asked = " ".join(f"--{name} {value}" for name, value in given.items() if value)
    hints = []
    for name, value in given.items():
        if not value or select(matrix, type(filters)(**{name: value})):
            continue
        known = list(matrix.targets) if name == "target" else known_versions(matrix, name)
        hints.append(f"unknown {name} {value}; known: {', '.join(known)}")
    if not hints:
        hints = [f"rocenv matrix --{name} {value}" for name, value in given.items() if value]
    return RocenvError(f"no row of the matrix matches {asked}", hints=tuple(hints), code="no-row")

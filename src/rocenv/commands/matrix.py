"""`rocenv matrix`: the rows of the compatibility matrix that match, or all of it on one page."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.output import columns, json_option, note, print_json, short_enough
from rocenv.context import Context
from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from rocenv.data.known import Platform
    from rocenv.data.rows import Matrix
    from rocenv.explain.selection import Filters

_WIDTH = 100  # where stdout is no terminal


@click.command()
@click.option(
    "--rocm",
    metavar="SPEC",
    default="",
    callback=short_enough,
    shell_complete=candidates.rocm_versions,
    help="Rows about this ROCm release or HIP SDK.",
)
@click.option(
    "--target",
    metavar="GFX",
    default="",
    callback=short_enough,
    shell_complete=candidates.targets,
    help="Rows about this GPU target.",
)
@click.option(
    "--zluda",
    metavar="SPEC",
    default="",
    callback=short_enough,
    shell_complete=candidates.zluda_versions,
    help="Rows about this ZLUDA build.",
)
@click.option(
    "--torch",
    metavar="SPEC",
    default="",
    callback=short_enough,
    shell_complete=candidates.torch_versions,
    help="Rows about this release of PyTorch.",
)
@click.option("--platform", type=click.Choice(["linux", "windows"]), help="Rows about this system only.")
@json_option
def command(rocm: str, target: str, zluda: str, torch: str, platform: str | None, as_json: bool) -> None:
    """Show what goes with what: the rows of the compatibility matrix that match, with their sources.

    Without options: what each release does for each target, on one page. SPEC is a version (6.1) or a range
    ('>=6.1,<6.3').
    """
    from rocenv.core.codec import to_plain
    from rocenv.explain.selection import Filters, select

    matrix = Context().matrix
    target = target.partition(":")[0]
    filters = Filters(rocm=rocm, target=target, zluda=zluda, torch=torch, platform=platform or "")
    found = select(matrix, filters)
    if not found:
        raise _nothing(matrix, filters)
    if as_json:
        tables = {table: [to_plain(row) for row in rows] for table, rows in found.items()}
        print_json({"filters": to_plain(filters), "tables": tables})
    elif filters.narrow:
        from rocenv.explain.tables import tables_text

        room = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
        click.echo("\n".join(tables_text(found, width=max(80, min(140, room)))))
    else:
        _show_overview(matrix, filters.platform)


def _show_overview(matrix: Matrix, platform: str) -> None:
    from rocenv.explain.overview import LEGEND, overview

    both: tuple[Platform, ...] = ("linux", "windows")
    platforms = tuple(each for each in both if platform in ("", each))
    click.echo(columns(overview(matrix, platforms)))
    click.echo("\n".join(("", *LEGEND)))
    note("hint: `rocenv explain gfx1031` tells all about a target, `rocenv matrix --target gfx1031` its rows")


def _nothing(matrix: Matrix, filters: Filters) -> RocenvError:
    """Return why no row matches: a part that is not known, or a combination that no row is about."""
    from rocenv.explain.selection import known_versions, select

    given: dict[str, Any] = {name: getattr(filters, name) for name in ("rocm", "zluda", "torch", "target")}
    asked = " ".join(f"--{name} {value}" for name, value in given.items() if value)
    hints = []
    for name, value in given.items():
        if not value or select(matrix, type(filters)(**{name: value})):
            continue
        known = list(matrix.targets) if name == "target" else known_versions(matrix, name)
        hints.append(f"nothing is known about {name} {value}; known are {', '.join(known)}")
    if not hints:
        hints = [f"rocenv matrix --{name} {value}" for name, value in given.items() if value]
    return RocenvError(f"no row of the matrix matches {asked}", hints=tuple(hints), code="no-row")

"""`rocenv verify`: the ladder."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands.world import World, colour, json_option, note, print_json
from rocenv.probe.ladder import RUNGS

if TYPE_CHECKING:
    from rocenv.model import RungResult
    from rocenv.verify import Verdict

_COLOURS = {"passed": "green", "failed": "red", "crashed": "red", "timeout": "red", "skipped": "yellow"}


def print_ladder(result: RungResult, *, err: bool = False) -> None:
    """Print one rung as soon as it is known."""
    status = "no GPU" if result.no_device else result.status
    shown = colour(f"{status:8}", _COLOURS[result.status], err=err)
    detail = textwrap.shorten(result.detail, 400, placeholder=" …")
    click.echo(f"  {result.rung:8} {shown} {result.elapsed_s:7.2f} s  {detail}", err=err)
    if result.status in ("failed", "crashed", "timeout") and result.stderr_tail:
        click.echo(textwrap.indent(result.stderr_tail.rstrip(), "    | "), err=err)


def verdict_text(verdict: Verdict) -> str:
    """Return the ladder's meaning in a sentence or two."""
    if verdict.broken:
        worst = verdict.broken[0]
        return f"env `{verdict.env}` does not work here: `{worst.rung}` {worst.status}"
    proved = f"proved up to `{verdict.level}`" if verdict.level else "nothing could be proved"
    if verdict.no_device:
        return (
            f"nothing is wrong with env `{verdict.env}`, {proved}; only the rungs that need a GPU could not "
            "run: there is no usable AMD GPU here"
        )
    return f"env `{verdict.env}` is {proved}"


@click.command()
@click.argument("name")
@click.option("--upto", type=click.Choice(RUNGS), default=RUNGS[-1], help="The last rung to run.")
@click.option("--target", metavar="GFX", default="", help="Instead of the target of the set.")
@click.option(
    "--save-artifacts",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the GEMM source, the code objects and the logs.",
)
@click.option("--timeout", "timeout_s", metavar="S", type=click.FloatRange(min=0.1), help="For each rung.")
@json_option
def command(
    name: str, upto: str, target: str, save_artifacts: Path | None, timeout_s: float | None, as_json: bool
) -> int:
    """Prove the env NAME: each rung of the ladder in a process of its own, so that a crash is a result.

    The exit code is 0 if all rungs passed, 1 if one did not, 4 if only a GPU to run on is missing.
    """
    from rocenv.verify import TIMEOUT_S, verify
    from rocenv.verify import as_json as verdict_json

    world = World()
    verdict = verify(
        world.prefix(name),
        world.matrix.c_libraries[0],
        world.progress,
        upto=upto,
        target=target,
        save_dir=save_artifacts,
        timeout_s=timeout_s or TIMEOUT_S,
        report=(lambda result: None) if as_json else print_ladder,
    )
    if as_json:
        print_json(verdict_json(verdict))
    note(verdict_text(verdict))
    return verdict.exit_code

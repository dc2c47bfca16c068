"""`rocenv verify`: run the verification ladder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from rocenv.commands import candidates
from rocenv.commands.options import FILE, FOLDER, env_argument, json_option, target_option, text_option
from rocenv.commands.output import color, note, print_json, print_text, terminal_width
from rocenv.context import Context
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import WrongUsage
from rocenv.core.model import APP_RUNG
from rocenv.core.progress import sanitized
from rocenv.core.wrap import wrapped
from rocenv.prefix import prefix_of
from rocenv.probe.ladder import RUNGS
from rocenv.probe.wire import CALLING
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.core.model import RungResult, Verification
    from rocenv.prefix import Prefix
    from rocenv.verify import Level

# What these checks test; shown if one is skipped, because its result does not say that.
_SKIPPED = {"gemm": "matrix multiplication", "blas": "matrix multiplication with AMD's library"}
_COLORS = {"passed": "green", "failed": "red", "crashed": "red", "timeout": "red", "skipped": "yellow"}


def print_rung(result: RungResult, *, err: bool = False) -> None:
    """Print the result of a rung."""
    status = "no GPU" if result.no_device else result.status
    colored = color(f"{status:8}", _COLORS[result.status], err=err)
    about = f"{_SKIPPED[result.rung]}: " if result.status == "skipped" and result.rung in _SKIPPED else ""
    start, detail = (
        f"  {result.rung:8} {colored} {result.elapsed_s:7.2f} s  ",
        about + sanitized(result.detail),
    )
    width = terminal_width(err=err)
    lines = wrapped(detail, width, start, " " * 31) if width else []
    print_text("\n".join(lines or [start + " ".join(detail.split())]), err=err, verbatim=True)
    if result.status in ("failed", "crashed", "timeout"):
        for line in result.stderr_tail.splitlines():
            if not line.startswith(CALLING):  # the detail already names the call that did not return
                print_text(f"    | {sanitized(line)}", err=err)
        for code in result.findings:
            click.echo(f"    known cause: `rocenv explain {code}`", err=err)


def verdict_text(verdict: Verification, app: str = "") -> str:
    """Summarize a verification in one or two sentences, followed by advice about the set.

    Args:
        verdict: The results.
        app: The app that was also started, or "".
    """
    return "\n".join([_summary(verdict, app), *verdict.advice])


def _summary(verdict: Verification, app: str) -> str:
    target = f" for {verdict.target}" if verdict.target else ""  # an env with only a compiler has none
    level = f"OK up to `{verdict.level}`{target}" if verdict.level else f"Nothing was verified{target}"
    if verdict.broken:
        worst = verdict.broken[0]
        status = "timed out" if worst.status == "timeout" else worst.status
        text = f"env `{verdict.env}` does not work here{target}: `{worst.rung}` {status}"
        if worst.rung == "files":
            return text
        if worst.rung == APP_RUNG:
            text = f"{level}, but {app} does not work in env `{verdict.env}`: `{APP_RUNG}` {status}"
            if not worst.stderr_tail:  # there is no log, and the detail contains the advice
                return text
        again = shell_join("rocenv", "verify", verdict.env, *(("--app", app) if app else ()))
        return f"{text}; `{again} --save-artifacts {shell_join(f'verify-{verdict.env}')}` keeps the logs"
    if verdict.no_device:
        return f"{level}. The remaining checks need a usable AMD GPU, and this machine has none"
    app_unknown = app and all(each.status != "passed" for each in verdict.results if each.rung == APP_RUNG)
    return f"{level}. Whether {app} works in this env is unknown" if app_unknown else level


def _app_check(
    context: Context, prefix: Prefix, app: str, target: str, timeout_s: int, save_dir: Path | None
) -> Callable[[tuple[RungResult, ...]], RungResult]:
    """Return a check that lists the GPUs that an app finds; raise RocenvError if the app cannot list them."""
    from rocenv.apps.rung import app_rung
    from rocenv.host import detect

    rung = app_rung(
        prefix,
        context.matrix,
        detect(context.matrix),
        app,
        environ=os.environ,
        target=target,
        timeout_s=timeout_s,
        save_dir=save_dir,
    )

    def ask(results: tuple[RungResult, ...]) -> RungResult:
        with context.progress.wait(f"Querying {app}"):
            return rung.result(results)

    return ask


@click.command()
@env_argument
@click.option("--upto", type=click.Choice(RUNGS), default=RUNGS[-1], help="The last check to run.")
@target_option("GFX|PRODUCT", "Verify for this target instead of the env's.")
@text_option(
    "--app", "APP", candidates.apps, help="Also start this app in the env and check which GPUs it finds."
)
@click.option(
    "--save-artifacts",
    metavar="DIR",
    type=FOLDER,
    help="Save the GEMM source, the code objects and the logs in DIR.",
)
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    type=FILE,
    help="Describe this machine, the set and the results in FILE, for an issue; omits personal names.",
)
@click.option(
    *("--timeout", "timeout_s"),
    metavar="S",
    type=click.IntRange(1, 86_400),
    help="Time limit for each check in seconds. With --node: for all checks together (default: 50).",
)
@click.option(
    "--node",
    is_flag=True,
    help="Check this cluster node within a time limit, print a reason to drain it, and exit with 0 or 1.",
)
@click.option(
    "--level",
    type=click.Choice(["quick", "full"]),
    help="With --node: all checks, or only those that take seconds (default: full).",
)
@json_option
def command(
    name: str,
    upto: str,
    target: str,
    app: str,
    save_artifacts: Path | None,
    report_file: Path | None,
    timeout_s: int | None,
    node: bool,
    level: Level | None,
    as_json: bool,
) -> int:
    """Test the env NAME: run the checks one by one, each in its own process.

    The checks `gemm` (matrix multiplication) and `blas` (the same with AMD's library) prove that the GPU
    computes correctly. The exit code is 0 if all checks passed, 1 if one failed, and 4 if the remaining
    checks need a GPU and this machine has none.
    """
    if node:
        if target or app or save_artifacts or report_file or upto != RUNGS[-1]:
            raise WrongUsage("`--node` can be combined only with `--level`, `--timeout` and `--json`")
        return _check_node(name, level or "full", timeout_s, as_json=as_json)
    if level:
        raise WrongUsage("`--level` needs `--node`", hints=(f"choose the last check: `--upto {RUNGS[3]}`",))
    from rocenv.verify import verify

    if report_file is not None:
        from rocenv.commands.field_report import require_place

        require_place(report_file)
    context = Context()
    prefix = prefix_of(context.home, name)
    verdict = verify(
        prefix,
        context.matrix,
        context.progress,
        upto=upto,
        target=target,
        save_dir=save_artifacts,
        timeout_s=timeout_s or 0,
        report=(lambda result: None) if as_json else print_rung,
        last=_app_check(context, prefix, app, target, timeout_s or 0, save_artifacts) if app else None,
    )
    if as_json:
        print_json(verification_to_plain(verdict))
    note(verdict_text(verdict, app))
    if report_file is not None:
        from rocenv.commands.field_report import write_report
        from rocenv.host import detect

        write_report(report_file, prefix, verdict, detect(context.matrix))
        note(f"wrote `{report_file}`; read it, then attach it to an issue (docs/field-tests.md)")
    return verdict.exit_code


def _check_node(name: str, level: Level, timeout_s: int | None, *, as_json: bool) -> int:
    from rocenv.fleet.node import TIMEOUT_S, watch

    found = watch(name, level, timeout_s or TIMEOUT_S)
    if as_json:
        print_json(found)
    else:
        print_text(found["reason"], verbatim=True)
    if found["detail"]:
        note(f"{found['node']}: {found['detail']}")
    return 0 if found["healthy"] else 1

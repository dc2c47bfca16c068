"""`rocenv fleet`: verify and compare the nodes of a cluster."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.options import env_argument, json_option
from rocenv.commands.output import columns, fields, fields_or_none, note, print_json, print_text
from rocenv.context import Context
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.progress import sanitized
from rocenv.fleet.node import PREFIX
from rocenv.fleet.results import folded
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.fleet.compare import Finding
    from rocenv.fleet.results import Result, Results
    from rocenv.fleet.run import SlurmNode
    from rocenv.verify import Level

_HEADER = ("RESULT", "NODES", "TARGET", "GPUS", "DRIVER", "GFLOP/S", "NAMES")
_TIMEOUT_S = 300  # the first use of a GPU may trigger a long compilation
_BAD = ("down", "unresponsive", "not-started")
_SHOWN = 20
_COLUMN = 16


@click.group()
def command() -> None:
    """Verify the nodes of a cluster and compare them. See docs/fleet.md."""


@command.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def report(folder: Path, as_json: bool) -> int:
    """Compare nodes based on the `*.json` files in DIR that `verify --node --json` wrote.

    The exit code is 0 if all nodes are healthy, and 1 if one is not.
    """
    from rocenv.fleet.compare import commands, findings, to_drain
    from rocenv.fleet.results import read_results

    results = read_results(folder)
    if not results.newest and not results.silent and not results.unreadable:
        raise RocenvError(
            f"there are no `*.json` files in `{folder}`",
            hints=("collect them on the nodes with `rocenv verify --node --json`: docs/fleet.md",),
            code="no-results",
        )
    found = findings(results, results.gpus_before, {})
    _print(results, found, commands(to_drain(found)), as_json=as_json)
    return _exit_code(results, found)


@command.command()
@env_argument
@click.option(
    "--slurm", "partition", metavar="PARTITION", default="", help="Check the idle nodes of PARTITION."
)
@click.option("--nodes", "listed", metavar="LIST", default="", help="Check these nodes with ClusterShell.")
@click.option(
    "--level",
    type=click.Choice(["quick", "full"]),
    default="full",
    help="All checks, or only those that take seconds.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="S",
    type=click.IntRange(1, 86_400),
    default=_TIMEOUT_S,
    help=f"Time limit for each node in seconds (default: {_TIMEOUT_S}).",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Drain broken nodes in Slurm. With --level full, also resume healthy nodes that rocenv drained.",
)
@json_option
def verify(
    name: str, partition: str, listed: str, level: Level, timeout_s: int, drain: bool, as_json: bool
) -> int:
    """Run `verify NAME --node` on the nodes of a cluster, and compare them.

    The exit code is 0 if all nodes are healthy, and 1 if one is not.
    """
    from rocenv.fleet import run
    from rocenv.fleet.compare import commands, findings, to_drain
    from rocenv.prefix import prefix_of

    if bool(partition) == bool(listed):
        raise WrongUsage("specify the nodes with either `--slurm PARTITION` or `--nodes LIST`")
    context = Context()
    prefix_of(context.home, name)  # rejects invalid names
    record = run.read_record(context.home)
    if partition:
        slurm = run.partition_nodes(partition)
        asked = [node for node, each in slurm.items() if each.state == "idle"]
        states = {node: each.state for node, each in slurm.items()}
    else:
        asked = run.listed_nodes(listed)
        slurm = _known_to_slurm(asked, needed=drain)
        states = {}
    words = ("verify", name, "--node", "--json", "--level", level, "--timeout", str(timeout_s))
    with context.progress.wait(f"Checking {folded(asked)}"):
        results, unstarted = _results(asked, slurm if partition else None, words, timeout_s)
    if unstarted:
        # Slurm ends a step on all nodes if one cannot start it, so healthy nodes can look faulty.
        note("Slurm could not start a step, so no nodes are drained or resumed; repeat the command")
        drain = False
    with run.keeping_record(context.home) if drain else nullcontext():
        # Others may have drained or resumed nodes during the check, which takes minutes.
        record = run.read_record(context.home)
        if drain:
            slurm = run.partition_nodes(partition) if partition else _known_to_slurm(asked, needed=True)
        states |= dict.fromkeys(asked, "silent") | dict.fromkeys(unstarted, "not-started")
        found = findings(results, record.gpus, states)
        bad = {each.node for each in found if each.reason}
        # Only `full` resumes nodes, because `quick` might skip the check that a node failed.
        healthy = results.newest.keys() - bad if level == "full" else ()
        resumed = run.own_drains(record, slurm, healthy)
        in_use = [
            each for each in found if each.node in slurm and slurm[each.node].state not in ("drained", "down")
        ]
        drained = to_drain(in_use)
        if drain:
            run.update_nodes(context.home, record, slurm, drained, resumed)
    _remember(context, results)
    _print(results, found, commands(drained, resumed), as_json=as_json, done=drain)
    return _exit_code(results, found)


def _known_to_slurm(nodes: Sequence[str], *, needed: bool) -> dict[str, SlurmNode]:
    """Look up ClusterShell's nodes in Slurm; without Slurm, fail only if it is `needed`."""
    from rocenv.fleet import run

    try:
        return run.slurm_nodes(f"--nodes={folded(nodes)}")
    except RocenvError:
        if needed:
            raise
        return {}


def _results(
    asked: Sequence[str], slurm: Mapping[str, SlurmNode] | None, words: Sequence[str], timeout_s: int
) -> tuple[Results, list[str]]:
    """Run the check on nodes, with ClusterShell if `slurm` is None.

    Returns the results, and the nodes on which Slurm could not start the check.
    """
    from rocenv.fleet import run
    from rocenv.fleet.results import read_results

    with tempfile.TemporaryDirectory(prefix="rocenv-fleet-") as name:
        folder = Path(name)
        if slurm is None:
            said, unstarted = run.check_with_clush(asked, words, folder, timeout_s)
        else:
            gpus = {node: slurm[node].gpus for node in asked}
            said, unstarted = run.check_with_slurm(gpus, words, folder, timeout_s)
        results = read_results(folder, named_by_file=slurm is None)
        # If no node responds or has the env, a path or name may be wrong, so do not drain them all.
        if asked and all(each.reason == f"{PREFIX}no env" for each in results.newest.values()):
            what = "has the env" if results.newest else "responded"
            raise RocenvError(
                f"none of the nodes {what}{': ' if said else ''}{said}",
                hints=(f"run on a node: `{shell_join('rocenv', *words)}`",),
                code="no-results",
            )
    results.silent.clear()  # srun's files are not named after nodes
    for node in results.newest.keys() - set(asked):
        del results.newest[node]
        results.unreadable[node] = "a result from a node that was not checked"
    return results, unstarted


def _remember(context: Context, results: Results) -> None:
    """Record how many GPUs each node has. Without write access, the next run cannot compare the counts."""
    from rocenv.fleet import run

    counts = {node: len(each.gpus) for node, each in results.newest.items() if each.gpus}
    before = run.read_record(context.home).gpus
    if all(count <= before.get(node, 0) for node, count in counts.items()):
        return
    try:
        with run.keeping_record(context.home):
            record = run.read_record(context.home)
            most = {node: max(count, record.gpus.get(node, 0)) for node, count in counts.items()}
            run.write_record(context.home, run.FleetRecord(drained=record.drained, gpus=record.gpus | most))
    except RocenvError as error:
        note(error.message)


def _exit_code(results: Results, found: Sequence[Finding]) -> int:
    return 1 if results.unreadable or any(each.reason or each.code in _BAD for each in found) else 0


# ---------------------------------------------------------------- output


def _print(
    results: Results, found: Sequence[Finding], commands: Sequence[str], *, as_json: bool, done: bool = False
) -> None:
    if as_json:
        print_json(_json(results, found, commands, done=done))
        return
    print_text(sanitized(columns(_table(results, found))), verbatim=True)
    lines = list(_lines(results, found))
    if lines:
        print_text("\n" + sanitized("\n".join(lines)))
    if commands:
        title = "Done:" if done else "To drain and resume these nodes in Slurm:"
        print_text("\n".join(["", title, *(f"  {command}" for command in commands)]), verbatim=True)


def _table(results: Results, found: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Build the table; nodes with the same values share a row."""
    labels = {each.node: each.code for each in reversed(found) if each.node not in results.newest}
    labels |= {each.node: each.reason.removeprefix(PREFIX) for each in reversed(found) if each.reason}
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in sorted(results.newest.keys() | labels.keys()):
        result = results.newest.get(node)
        driver = _one_line(result.driver.text)[:_COLUMN] if result else ""
        gpus = str(len(result.gpus)) if result and result.gpus is not None else ""
        target = _one_line(result.target) if result else ""
        rows[labels.get(node, "ok"), target, gpus, driver].append(node)
    from rocenv.fleet.compare import rate_text

    table: list[tuple[str, ...]] = [_HEADER]
    for (label, target, gpus, driver), nodes in sorted(
        rows.items(), key=lambda row: (row[0][0] != "ok", row)
    ):
        rates = [rate for node in nodes for rate in _best_rate(results.newest.get(node))]
        speed = rate_text(statistics.median_high(rates)) if rates else ""
        table.append((label, str(len(nodes)), target[:_COLUMN], gpus, driver, speed, folded(nodes)))
    return table


def _one_line(text: str) -> str:
    """Remove line breaks, which a node could use to forge lines in the report, such as commands."""
    return " ".join(text.split())


def _best_rate(result: Result | None) -> list[float]:
    return [max(rate for _, rate in result.gflops)] if result and result.gflops else []


def _lines(results: Results, found: Sequence[Finding]) -> Iterator[str]:
    alike: dict[str, list[str]] = defaultdict(list)
    for each in found:
        alike[each.detail].append(each.node)
    texts = [f"{folded(nodes)}: {detail}" for detail, nodes in alike.items()]
    texts += [
        f"{name}: not a result of `rocenv verify --node`: {why}" for name, why in results.unreadable.items()
    ]
    yield from map(_one_line, texts[:_SHOWN])
    if texts[_SHOWN:]:
        yield f"and {len(texts) - _SHOWN} more; use `--json` to list them all"


def _json(
    results: Results, found: Sequence[Finding], commands: Sequence[str], *, done: bool
) -> dict[str, Any]:
    nodes = [
        {
            **fields(each, "node", "when", "healthy", "reason", "elapsed_s"),
            **fields_or_none(each, "target", "lock_sha256"),
            "gpus": None if each.gpus is None else len(each.gpus),
            "driver": fields(each.driver, "kernel", "amdgpu", "display"),
            "gflops": dict(each.gflops),
        }
        for _, each in sorted(results.newest.items())
    ]
    return {
        "nodes": nodes,
        "findings": [
            {**fields(each, "node", "code", "detail"), "reason": each.reason or None} for each in found
        ],
        "unreadable": [{"file": name, "why": why} for name, why in results.unreadable.items()],
        "commands": list(commands),
        "done": done,
    }

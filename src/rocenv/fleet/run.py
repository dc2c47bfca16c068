"""Run `verify --node` on the nodes of a cluster, and drain or resume nodes in Slurm."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.foreign import load_json
from rocenv.core.model import Value
from rocenv.fleet.node import PREFIX
from rocenv.fleet.results import folded, is_node_name
from rocenv.system import process
from rocenv.system.files import storage_errors, write_atomic
from rocenv.system.locks import locked
from rocenv.system.programs import program_on_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocenv.home import Home

_QUERY_S = 60.0
_START_S = 90  # until all nodes have started, or Slurm gives up on the rest
# How long the step may wait for its nodes: longer than 60 s, Slurm's default scheduler interval.
# Source: slurm.conf(5), sched_interval
_IMMEDIATE_S = 90
_STOP_S = 15.0  # if srun is killed, the nodes stay allocated
_NODES_AT_ONCE = 100  # per scontrol call
_PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]*")
_ATTEMPTS = 3
_MAX_BYTES = 64 << 10  # of error messages
# A step that scancel, preemption or its time limit ended; srun or slurmstepd reports it, whichever is first.
_ENDED = re.compile(r"Job step aborted|\*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED")
_LAUNCH_FAILED = re.compile(r"Task launch for \S+ failed on node ([A-Za-z0-9._-]+)")
_GPUS = re.compile(r"\bgpu(?::[^,:()]+)?:(\d+)")
_STATES = {"drained": "drained", "draining": "drained", "down": "down", "fail": "down", "error": "down"}
# Source: sinfo(1), "NODE STATE CODES"
_SUFFIXES = {"*": "unresponsive"} | dict.fromkeys("~#!%", "powered-down")
# Variables that would add the step to the job that rocenv runs in.
_OF_JOB = re.compile(r"SLURM_(?!CONF$)|SRUN_")


class SlurmNode(NamedTuple):
    """A node in Slurm."""

    # `idle`, `planned` (idle, but reserved for a pending job), `busy`, `drained`, `down`, `powered-down`,
    # or `unresponsive` (to Slurm)
    state: str
    gpus: int
    reason: str  # why it is drained


def slurm_nodes(*options: str) -> dict[str, SlurmNode]:
    """Return the Slurm nodes that sinfo selects with `options`.

    Raises:
        RocenvError: Slurm is unavailable.
    """
    done = _ask("sinfo", "--noheader", "--Node", "--format=%N|%T|%G|%E", *options)
    found = {}
    for line in done.lines:
        name, state, gres, reason = (line.split("|", 3) + [""] * 3)[:4]
        if is_node_name(name):
            gpus = sum(map(int, _GPUS.findall(gres)))
            found[name] = SlurmNode(_state(state), gpus, reason)
    return found


def _state(text: str) -> str:
    """Simplify a Slurm state such as `mixed` or `idle~`; `idle` means that a step can start."""
    word = re.sub(r"[^a-z].*", "", text)
    return _STATES.get(word) or _SUFFIXES.get(text[-1:]) or (text if text in ("idle", "planned") else "busy")


def partition_nodes(partition: str) -> dict[str, SlurmNode]:
    """Return the nodes of a partition; raise RocenvError if it has none."""
    if not _PARTITION.fullmatch(partition):
        raise WrongUsage(f"`{partition}` is not a valid partition name")
    nodes = slurm_nodes(f"--partition={partition}")
    if not nodes:
        raise RocenvError(
            f"partition `{partition}` does not exist in Slurm, or it has no nodes",
            hints=("list the partitions: `sinfo`",),
            code="no-nodes",
        )
    return nodes


def listed_nodes(text: str) -> list[str]:
    """Expand a node list or group, such as `n[1-4]` or `@gpu`, with ClusterShell."""
    names = _ask("nodeset", "--expand", "--separator=\n", "--", text).lines
    wrong = next((name for name in names if not is_node_name(name)), None)
    if wrong is not None or not names:
        raise WrongUsage(f"`{wrong or text}` is not a valid node name")
    return names


def _ask(program: str, *arguments: str) -> process.Completed:
    path = program_on_path(program)
    if path is None:
        hint = "run this on a machine with Slurm's commands, such as a login node"
        if program in ("clush", "nodeset"):
            hint = "install ClusterShell, or use `--slurm PARTITION`"
        raise RocenvError(f"`{program}` is not on PATH", hints=(hint,), code="no-scheduler")
    done = process.run([path, *arguments], environ=_environ(), timeout_s=_QUERY_S)
    if not done.ok:
        said = done.error_text.strip().splitlines()[-1:] or [done.end]
        raise RocenvError(f"`{program}` failed: {said[0]}", code="no-scheduler")
    return done


def _environ() -> dict[str, str]:
    in_job = "SLURM_JOB_ID" in os.environ
    return {name: value for name, value in os.environ.items() if not (in_job and _OF_JOB.match(name))}


def _own_command() -> list[str]:
    """Return the command that starts this rocenv on nodes, which must have it at the same path."""
    path = os.path.abspath(sys.argv[0])
    return [path] if os.path.basename(path) == "rocenv" else [sys.executable, "-m", "rocenv"]


def check_with_slurm(
    nodes: Mapping[str, int], words: Sequence[str], folder: Path, timeout_s: int
) -> tuple[str, list[str]]:
    """Run `rocenv WORDS` on nodes with srun, one step for all nodes with the same number of GPUs.

    If Slurm cannot start a step on one node, it ends the step on all nodes, so the others get another step.

    Args:
        nodes: Node -> its number of GPUs, all of which are allocated to the step.
        words: Arguments for rocenv, which prints JSON.
        folder: The folder for the nodes' output.
        timeout_s: The time limit of each check.

    Returns:
        The last line of stderr from the first node that wrote any, and the nodes in steps that Slurm could
        not start despite several attempts; they have no result, so their health is unknown.

    Raises:
        RocenvError: srun could not start a step, or the step was canceled; the nodes' health is unknown.
    """
    srun = program_on_path("srun")
    if srun is None:
        raise RocenvError("`srun` is not on PATH", code="no-scheduler")
    by_gpus: dict[int, list[str]] = defaultdict(list)
    for node, gpus in nodes.items():
        by_gpus[gpus].append(node)
    unstarted: list[str] = []
    for gpus, every in by_gpus.items():
        group = every
        for attempt in range(_ATTEMPTS):
            step = [
                *(srun, f"--nodelist={folded(group)}", f"--nodes={len(group)}", "--ntasks-per-node=1"),
                *("--exclusive", "--mem=0", *((f"--gres=gpu:{gpus}",) if gpus else ())),
                *(f"--immediate={_IMMEDIATE_S}", f"--time={-(-(timeout_s + _START_S) // 60)}", "--wait=0"),
                *("--no-kill", "--kill-on-bad-exit=0", "--mpi=none", "--cpu-bind=none"),
                *("--job-name=rocenv-verify", "--input=none", "--chdir=/"),
                f"--output={folder}/{gpus}-{attempt}-%n.json",
                f"--error={folder}/{gpus}-{attempt}-%n.err",
            ]
            start = time.monotonic()
            limit_s = timeout_s + _START_S + _IMMEDIATE_S
            command = [*step, *_own_command(), *words]
            done = process.run(command, environ=_environ(), timeout_s=limit_s, stop_s=_STOP_S)
            sizes = [path.stat().st_size for path in folder.glob(f"{gpus}-{attempt}-*.json")]
            failed = set(_LAUNCH_FAILED.findall(done.error_text))
            group = [node for node in group if node not in failed]
            if sum(size > 0 for size in sizes) >= len(group):
                break  # all nodes responded
            if not failed:
                _require_whole(done, bool(sizes), time.monotonic() - start < timeout_s + _START_S)
                break
        else:
            unstarted += every
    return _first_error(folder) or ("Slurm could not start the step" if unstarted else ""), unstarted


def _require_whole(done: process.Completed, started: bool, in_time: bool) -> None:
    """Raise RocenvError if a step ended early, because nodes that did not respond may be healthy."""
    said = (done.error_text.strip().splitlines() or [done.end])[-1]
    if not started:
        raise RocenvError(f"srun could not start the check: {said}", code="no-scheduler")
    if in_time and _ENDED.search(done.error_text):
        raise RocenvError(
            "the check was canceled in Slurm, so nodes that did not respond may be healthy",
            hints=("repeat the command",),
            code="no-scheduler",
        )


def _first_error(folder: Path) -> str:
    for path in sorted(folder.glob("*.err")):
        for line in reversed(path.read_text(errors="replace").splitlines()):
            return line
    return ""


def check_with_clush(
    nodes: Sequence[str], words: Sequence[str], folder: Path, timeout_s: int
) -> tuple[str, list[str]]:
    """Run `rocenv WORDS` on nodes with ClusterShell, which names the output files after the nodes.

    The arguments and the result are the same as for `check_with_slurm`.
    """
    clush = program_on_path("clush")
    if clush is None:
        raise RocenvError("`clush` is not on PATH", hints=("install ClusterShell",), code="no-scheduler")
    home = os.environ.get("ROCENV_HOME")
    command = shlex.join(
        [*(["env", f"ROCENV_HOME={os.path.abspath(home)}"] if home else []), *_own_command(), *words]
    )
    options = ["--nostdin", "--quiet", "--fanout=256", "--connect_timeout=15", f"--outdir={folder}"]
    with tempfile.TemporaryFile() as errors:
        process.run(
            [clush, *options, f"--command_timeout={timeout_s + 15}", "-w", folded(nodes), command],
            stdout=process.DROP,
            stderr=errors,
            timeout_s=timeout_s + _START_S + timeout_s * (len(nodes) // 256),
        )
        errors.seek(0)
        lines = errors.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if not line.startswith("clush:")), ""), []


class FleetRecord(Value, frozen=True, kw_only=True):
    """What rocenv remembers about nodes, in `fleet.json` in its home."""

    drained: dict[str, str] = msgspec.field(default_factory=dict)  # node -> the drain reason that rocenv set
    gpus: dict[str, int] = msgspec.field(default_factory=dict)  # node -> the most GPUs that it has had


def read_record(home: Home) -> FleetRecord:
    """Read the record; raise DataError if it is damaged."""
    try:
        return from_plain(FleetRecord, load_json(home.fleet_record), str(home.fleet_record))
    except FileNotFoundError:
        return FleetRecord()
    except OSError as error:
        raise RocenvError(f"cannot read `{home.fleet_record}`: {error.strerror}") from error


@contextlib.contextmanager
def keeping_record(home: Home) -> Iterator[None]:
    """Keep other processes from changing the record; raise PrefixError if there is no write access."""
    with storage_errors(home.path), locked(home.lock("fleet", "nodes")):
        yield


def write_record(home: Home, record: FleetRecord) -> None:
    """Write the record; raise RocenvError if that fails."""
    try:
        write_atomic(home.fleet_record, msgspec.json.encode(to_plain(record)))
    except OSError as error:
        raise RocenvError(
            f"cannot write `{home.fleet_record}`: {error.strerror}",
            hints=("without this file, rocenv cannot tell which nodes it drained",),
        ) from error


def own_drains(record: FleetRecord, nodes: Mapping[str, SlurmNode], healthy: Iterable[str]) -> list[str]:
    """List the healthy nodes that rocenv drained and that nobody has drained for another reason since."""
    return sorted(node for node in healthy if _is_own(record, nodes, node))


def _is_own(record: FleetRecord, nodes: Mapping[str, SlurmNode], node: str) -> bool:
    reason = record.drained.get(node, "")
    return reason.startswith(PREFIX) and node in nodes and nodes[node][::2] == ("drained", reason)


def update_nodes(
    home: Home,
    record: FleetRecord,
    nodes: Mapping[str, SlurmNode],
    drain: Mapping[str, Sequence[str]],
    resume: Sequence[str],
) -> FleetRecord:
    """Drain and resume nodes; `drain` maps reasons to nodes. Write the new record, and return it.

    Raises:
        RocenvError: Slurm rejected a change, or the record cannot be written.
    """
    # Forget nodes that someone else has resumed, or has drained for another reason.
    kept = {
        node: why for node, why in record.drained.items() if node not in nodes or _is_own(record, nodes, node)
    }
    write_record(home, replace(record, drained=kept))  # first, so that nothing is drained if this fails
    for reason, names in drain.items():
        _update(names, "State=DRAIN", f"Reason={reason}")
        kept |= dict.fromkeys(names, reason)
        write_record(home, replace(record, drained=kept))
    if resume:
        _update(resume, "State=RESUME")
    record = replace(record, drained={node: why for node, why in kept.items() if node not in resume})
    write_record(home, record)
    return record


def _update(nodes: Sequence[str], *words: str) -> None:
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        _ask("scontrol", "update", f"NodeName={','.join(nodes[start : start + _NODES_AT_ONCE])}", *words)

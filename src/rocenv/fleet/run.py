"""Run `verify --node` on the nodes of a cluster, and drain or resume nodes in Slurm."""

from __future__ import annotations

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
from rocenv.system.files import write_atomic
from rocenv.system.programs import program_on_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rocenv.home import Home

_QUERY_S = 60.0
_START_S = 90  # until all nodes have started, or Slurm gives up on some of them
_IMMEDIATE_S = 60
_NODES_AT_ONCE = 100  # in one call of scontrol
_PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]*")
_ATTEMPTS = 3
_MOST_BYTES = 64 << 10  # of error messages
_ENDED = "Job step aborted"  # by scancel, by preemption, or because its time is over
_LAUNCH_FAILED = re.compile(r"Task launch for \S+ failed on node ([A-Za-z0-9._-]+)")
_GPUS = re.compile(r"\bgpu(?::[^,:()]+)?:(\d+)")
_STATES = {"drained": "drained", "draining": "drained", "down": "down", "fail": "down", "error": "down"}
# Source: sinfo(1), "NODE STATE CODES"
_SUFFIXES = {"*": "unresponsive"} | dict.fromkeys("~#!%", "powered-down")
# Variables that would turn a step into one of the job in which rocenv runs.
_OF_JOB = re.compile(r"SLURM_(?!CONF$)|SRUN_")


class SlurmNode(NamedTuple):
    """A node as Slurm sees it."""

    # `idle`, `busy`, `drained`, `down`, `powered-down`, or `unresponsive`: Slurm gets no answer.
    state: str
    gpus: int
    reason: str  # why it is drained


def slurm_nodes(*options: str) -> dict[str, SlurmNode]:
    """Ask Slurm for its nodes; `options` of sinfo select them.

    Raises:
        RocenvError: Slurm does not answer.
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
    """Translate a state, such as `mixed` or `idle~`; Slurm can start a step only on nodes that are `idle`."""
    word = re.sub(r"[^a-z].*", "", text)
    return _STATES.get(word) or _SUFFIXES.get(text[-1:]) or ("idle" if text == "idle" else "busy")


def partition_nodes(partition: str) -> dict[str, SlurmNode]:
    """Ask Slurm for the nodes of a partition; raise RocenvError if it has none."""
    if not _PARTITION.fullmatch(partition):
        raise WrongUsage(f"`{partition}` is not the name of a partition")
    nodes = slurm_nodes(f"--partition={partition}")
    if not nodes:
        raise RocenvError(
            f"Slurm has no partition `{partition}`, or it has no nodes",
            hints=("list the partitions: `sinfo`",),
            code="no-nodes",
        )
    return nodes


def listed_nodes(text: str) -> list[str]:
    """Expand a node list or group with ClusterShell: `n[1-4]`, `@gpu`."""
    names = _ask("nodeset", "--expand", "--separator=\n", "--", text).lines
    wrong = next((name for name in names if not is_node_name(name)), None)
    if wrong is not None or not names:
        raise WrongUsage(f"`{wrong or text}` is not a node")
    return names


def _ask(program: str, *arguments: str) -> process.Completed:
    path = program_on_path(program)
    if path is None:
        hint = "run this where the commands of Slurm are, such as a login node"
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
    """Return the command that starts this rocenv, on a node where it has the same path."""
    path = os.path.abspath(sys.argv[0])
    return [path] if os.path.basename(path) == "rocenv" else [sys.executable, "-m", "rocenv"]


def check_with_slurm(nodes: Mapping[str, int], words: Sequence[str], folder: Path, timeout_s: int) -> str:
    """Run `rocenv WORDS` on nodes with srun, one step for all nodes with the same number of GPUs.

    If Slurm cannot start the step on a node, it ends it everywhere, so the other nodes get another step.

    Args:
        nodes: Node -> the number of its GPUs, all of which the step gets.
        words: Arguments for rocenv, which prints JSON.
        folder: Gets the nodes' outputs.
        timeout_s: When a check ends.

    Returns:
        The last line that a node wrote to stderr; "" = none did.

    Raises:
        RocenvError: srun could not start a step, or someone ended it, which says nothing about the nodes.
    """
    srun = program_on_path("srun")
    if srun is None:
        raise RocenvError("`srun` is not on PATH", code="no-scheduler")
    by_gpus: dict[int, list[str]] = defaultdict(list)
    for node, gpus in nodes.items():
        by_gpus[gpus].append(node)
    for gpus, group in by_gpus.items():
        for attempt in range(_ATTEMPTS):
            step = [
                *(srun, f"--nodelist={folded(group)}", f"--nodes={len(group)}", "--ntasks-per-node=1"),
                *(
                    "--exclusive",
                    "--mem=0",
                    *((f"--gres=gpu:{gpus}",) if gpus else ()),
                    "--job-name=rocenv-verify",
                ),
                *(f"--immediate={_IMMEDIATE_S}", f"--time={-(-(timeout_s + _START_S) // 60)}", "--wait=0"),
                *("--no-kill", "--kill-on-bad-exit=0", "--mpi=none", "--cpu-bind=none"),
                *("--job-name=rocenv-verify", "--input=none", "--chdir=/"),
                f"--output={folder}/{gpus}-{attempt}-%n.json",
                f"--error={folder}/{gpus}-{attempt}-%n.err",
            ]
            start = time.monotonic()
            limit_s = timeout_s + _START_S + _IMMEDIATE_S
            done = process.run([*step, *_own_command(), *words], environ=_environ(), timeout_s=limit_s)
            sizes = [path.stat().st_size for path in folder.glob(f"{gpus}-{attempt}-*.json")]
            failed = set(_LAUNCH_FAILED.findall(done.error_text))
            group = [node for node in group if node not in failed]
            if sum(size > 0 for size in sizes) >= len(group):
                break  # all have answered
            if not failed:
                _require_whole(done, bool(sizes), time.monotonic() - start < timeout_s)
                break
        else:
            raise RocenvError(f"Slurm cannot start a step on {folded(failed)}", code="no-scheduler")
    return _first_error(folder)


def _require_whole(done: process.Completed, started: bool, in_time: bool) -> None:
    """Raise RocenvError if a step did not run to its end, so nodes without an answer may be healthy."""
    said = (done.error_text.strip().splitlines() or [done.end])[-1]
    if not started:
        raise RocenvError(f"srun could not start the check: {said}", code="no-scheduler")
    if in_time and _ENDED in done.error_text:
        raise RocenvError(
            "the check was cancelled in Slurm, so nodes without an answer may be healthy",
            hints=("repeat the command",),
            code="no-scheduler",
        )


def _first_error(folder: Path) -> str:
    for path in sorted(folder.glob("*.err")):
        for line in reversed(path.read_text(errors="replace").splitlines()):
            return line
    return ""


def check_with_clush(nodes: Sequence[str], words: Sequence[str], folder: Path, timeout_s: int) -> str:
    """Run `rocenv WORDS` on nodes with ClusterShell; arguments and result as of `check_with_slurm`.

    The files with the nodes' outputs have the nodes' names.
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
        lines = errors.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if not line.startswith("clush:")), "")


class FleetRecord(Value, frozen=True, kw_only=True):
    """What rocenv remembers about nodes: `fleet.json` in its home."""

    drained: dict[str, str] = msgspec.field(default_factory=dict)  # node -> the reason that rocenv gave
    gpus: dict[str, int] = msgspec.field(default_factory=dict)  # node -> the most GPUs that it had


def read_record(home: Home) -> FleetRecord:
    """Read the record; raise DataError if it is damaged."""
    try:
        return from_plain(FleetRecord, load_json(home.fleet_record), str(home.fleet_record))
    except FileNotFoundError:
        return FleetRecord()
    except OSError as error:
        raise RocenvError(f"cannot read `{home.fleet_record}`: {error.strerror}") from error


def write_record(home: Home, record: FleetRecord) -> None:
    """Write the record; raise RocenvError if that fails."""
    try:
        write_atomic(home.fleet_record, msgspec.json.encode(to_plain(record)))
    except OSError as error:
        raise RocenvError(
            f"cannot write `{home.fleet_record}`: {error.strerror}",
            hints=("rocenv needs it to resume only nodes that it drained itself",),
        ) from error


def own_drains(record: FleetRecord, nodes: Mapping[str, SlurmNode], healthy: Iterable[str]) -> list[str]:
    """List healthy nodes that rocenv drained, and that nobody drained for another reason since."""
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
    """Drain nodes, by reason, and resume nodes; return the new record, which is already written.

    Raises:
        RocenvError: Slurm refused, or the record cannot be written.
    """
    # Forget nodes that someone else resumed, or drained again.
    kept = {
        node: why for node, why in record.drained.items() if node not in nodes or _is_own(record, nodes, node)
    }
    write_record(home, replace(record, drained=kept))  # if that is impossible, drain nobody
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

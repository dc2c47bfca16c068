"""Find the nodes of a cluster that are broken or differ from their peers."""

from __future__ import annotations

import datetime
import re
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rocenv.fleet.node import PREFIX
from rocenv.fleet.results import folded
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rocenv.fleet.results import Driver, Result, Results

K = TypeVar("K")
T = TypeVar("T", str, "tuple[tuple[str, str], ...]")

_SLOW = 0.8  # as a fraction of the peers' usual rate
_SMALL = re.compile(r" \d{1,3}x")  # matrices too small to measure the GPU's speed
_STALE = datetime.timedelta(days=1)
# A GPU count below the usual one means a lost GPU if only one node, or at most this share of nodes, has it.
_FEW = 0.25


class Finding(NamedTuple):
    """A problem with a node, or a difference from its peers."""

    node: str
    code: str
    detail: str
    reason: str = ""  # the reason to drain the node, or "" to keep it in use


def findings(results: Results, gpus_before: Mapping[str, int], states: Mapping[str, str]) -> list[Finding]:
    """List problems with nodes and differences from their peers, sorted by node.

    Args:
        results: The nodes' results.
        gpus_before: Node -> the most GPUs that it has had.
        states: Node -> its state in Slurm if that is why it was not checked, `not-started` if Slurm could
            not start the step, or `silent` if it was checked just now (used only if it has no result).
            Empty if the results were collected earlier.
    """
    answers = results.newest.values()
    found = [
        Finding(each.node, "unhealthy", each.detail or each.reason.removeprefix(PREFIX), each.reason)
        for each in answers
        if not each.healthy
    ]
    found += _silent(results, states)
    healthy = [each for each in answers if each.healthy]
    found += _slow(healthy)
    found += _fewer_gpus(healthy, gpus_before)
    found += _different(answers)
    return sorted(found)


def _silent(results: Results, states: Mapping[str, str]) -> Iterator[Finding]:
    # A single node with a wrong clock must not make all other nodes' results look old.
    latest = datetime.datetime.now(datetime.timezone.utc) + _STALE
    times = {node: datetime.datetime.fromisoformat(each.when) for node, each in results.newest.items()}
    newest = max((when for when in times.values() if when <= latest), default=latest)
    for node, each in results.newest.items():
        if node not in states and times[node] < newest - _STALE:
            yield Finding(node, "no-answer", f"no response since {each.when}", f"{PREFIX}no response")
    for node in {*results.silent, *states} - results.newest.keys():
        state = states.get(node, "silent")
        if state == "silent":
            yield Finding(node, "no-answer", "no response", f"{PREFIX}no response")
        elif state == "not-started":
            yield Finding(node, state, "not checked, because Slurm could not start the step")
        else:
            yield Finding(node, state, f"not checked, because Slurm lists it as {state.replace('-', ' ')}")


def _slow(answers: Iterable[Result]) -> Iterator[Finding]:
    peers: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for each in answers:
        for name, rate in each.gflops:
            if not _SMALL.search(name):
                peers[each.target, name].append((rate, each.node))
    seen = set()
    for (target, name), rates in sorted(peers.items()):
        usual = statistics.median_high(rate for rate, _ in rates)
        for rate, node in rates:
            if rate <= _SLOW * usual and node not in seen:
                seen.add(node)
                slower = f"{100 - 100 * rate / usual:.0f} % slower than other {target}"
                detail = f"{name}: {rate_text(rate)} GFLOP/s, {slower} ({rate_text(usual)} GFLOP/s)"
                yield Finding(node, "slow", detail, f"{PREFIX}slow")


def rate_text(rate: float) -> str:
    """Format a rate in GFLOP/s, such as `0.5123` or `23910`."""
    return f"{rate:.0f}" if rate >= 1000 else f"{rate:.4g}"


def _fewer_gpus(answers: Iterable[Result], before: Mapping[str, int]) -> Iterator[Finding]:
    peers: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for each in answers:
        if each.gpus is not None:
            peers[each.target].append((each.node, len(each.gpus)))
    for target, nodes in peers.items():
        counts = Counter(count for _, count in nodes)
        usual = max(counts, key=lambda count: (counts[count], count))
        for node, count in nodes:
            once = before.get(node, 0)
            few = counts[count] == 1 or counts[count] <= _FEW * len(nodes)
            if count < once:
                detail = f"it has {_gpus(count)} but used to have {once}"
            elif count < usual and few:
                detail = f"it has {_gpus(count)}, but most nodes with {target} have {usual}"
            else:
                continue
            yield Finding(node, "gpus", detail, f"{PREFIX}lost GPU")


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _different(answers: Collection[Result]) -> Iterator[Finding]:
    drivers: dict[str, dict[str, str]] = defaultdict(dict)
    for each in answers:
        drivers[each.target][each.node] = _versions(each.driver)
    for versions in drivers.values():
        for node, text, usual in _minority(versions):
            yield Finding(node, "driver", f"{text}; most nodes have {usual}")
    for node, text, usual in _minority({each.node: each.lock_sha256 for each in answers}):
        yield Finding(node, "lock", f"its env has the lock {text[:12]}; most nodes have {usual[:12]}")
    yield from dict.fromkeys(_different_firmware(answers))


def _versions(driver: Driver) -> str:
    names = {"kernel": driver.kernel, "amdgpu": driver.amdgpu, "display driver": driver.display}
    return ", ".join(f"{name} {version}" for name, version in names.items() if version)


def _different_firmware(answers: Iterable[Result]) -> Iterator[Finding]:
    models: dict[tuple[str, str], dict[tuple[str, int], tuple[tuple[str, str], ...]]] = defaultdict(dict)
    for each in answers:
        for number, gpu in enumerate(each.gpus or ()):
            models[gpu.target, gpu.pci_id][each.node, number] = gpu.firmware
    for (target, pci_id), versions in models.items():
        for (node, _), own_versions, usual_versions in _minority(versions):
            own, usual = dict(own_versions), dict(usual_versions)
            parts = [
                f"{name} {own.get(name)}, not {usual[name]}" for name in usual if own.get(name) != usual[name]
            ]
            yield Finding(node, "firmware", f"firmware of its {target} ({pci_id}): {'; '.join(parts[:3])}")


def _minority(values: Mapping[K, T]) -> Iterator[tuple[K, T, T]]:
    """Yield each key whose known value is not the usual one, with its value and the usual one."""
    counts = Counter(value for value in values.values() if value)
    if len(counts) > 1:
        usual = max(counts, key=lambda value: (counts[value], value))
        for key, value in values.items():
            if value and value != usual:
                yield key, value, usual


def to_drain(found: Iterable[Finding]) -> dict[str, list[str]]:
    """Group the nodes to drain by reason; only the first reason of each node counts."""
    reasons: dict[str, str] = {}
    for each in found:
        if each.reason:
            reasons.setdefault(each.node, each.reason)
    groups: dict[str, list[str]] = {}
    for node, reason in sorted(reasons.items(), key=lambda item: item[1]):
        groups.setdefault(reason, []).append(node)
    return groups


def commands(drain: Mapping[str, Sequence[str]], resume: Sequence[str] = ()) -> list[str]:
    """Return the commands that drain nodes, grouped by reason, and those that resume nodes."""
    words: list[tuple[Sequence[str], tuple[str, ...]]]
    words = [(nodes, ("State=DRAIN", f"Reason={reason}")) for reason, nodes in drain.items()]
    words += [(resume, ("State=RESUME",))] if resume else []
    return [shell_join("scontrol", "update", f"NodeName={folded(nodes)}", *rest) for nodes, rest in words]

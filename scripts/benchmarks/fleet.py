"""The time it takes to check a node and to compare many nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.measure import MB, at_most, middle, run

if TYPE_CHECKING:
    from benchmarks.measure import Bench, Figure

_NODES = 10_000


def figures(bench: Bench) -> list[Figure]:
    """Measure `verify --node` and `fleet report`; the env `first` must exist."""
    output = bench.folder / "answer.json"
    # Exit code 1 means that this machine has no GPU.
    script = '"$0" verify first --node --level quick --json || test $? = 1'
    checks = [
        run(("sh", "-c", script, bench.rocenv), bench.environ, output) for _ in range(1 + bench.repetitions)
    ]
    answer = json.loads(output.read_text()) | {"healthy": True, "reason": "rocenv:ok"}
    results = bench.folder / "results"
    results.mkdir()
    for number in range(_NODES):
        (results / f"n{number}.json").write_text(json.dumps(answer | {"node": f"n{number}"}))
    report = (bench.rocenv, "fleet", "report", str(results))
    compared = middle([bench.run(*report) for _ in range(bench.repetitions)])
    return [
        at_most("rocenv verify ENV --node --level quick", middle(checks[1:]).seconds, "s", 3),
        at_most(f"rocenv fleet report, {_NODES} nodes", compared.seconds, "s", 3),
        at_most("its peak memory", compared.peak_bytes / MB, "MB", 300),
    ]

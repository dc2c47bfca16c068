"""The time it takes to read the data and resolve requests in a single process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, NotMeasured, at_most
from rocenv.context import Context
from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Request
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.measure import Bench

PROFILES = Path(__file__).resolve().parents[2] / "profiles"
POSSIBLE = (
    Request(target="gfx1100"),
    Request(target="gfx1031", torch="*"),
    Request(target="gfx1201", rocm="6.4", torch="*", python="3.12"),
    Request(target="gfx1031", rocm="5.7", zluda="*", torch="*", platform="windows"),
    Request(target="gfx1031", rocm="6.1", zluda="*", torch="*", platform="windows"),
    Request(target="gfx803", zluda="*", torch="*", platform="windows"),
    Request(target="gfx1151", torch="*", platform="windows"),
)
IMPOSSIBLE = (
    Request(target="gfx1201", rocm="6.2"),
    Request(target="gfx906", rocm="6.4", torch="*"),
    Request(target="gfx803", torch="*"),
    Request(target="gfx1031", rocm="6.1", zluda="3.8.3", torch="*", platform="windows"),
    Request(target="gfx1100", rocm="6.2", zluda="3.9.6", torch="*", platform="windows"),
    Request(target="gfx1100", zluda="<=3.9.4", torch="*", platform="windows", driver="25.6.1"),
    Request(target="gfx942", zluda="*", torch="*", platform="windows"),
)


def figures(bench: Bench) -> list[Figure]:
    """Measure the slowest request with a matching set, and the slowest without one."""
    data = load(PROFILES)
    home = Home(bench.home)

    def first_set(request: Request) -> None:
        next(resolve(request, data))

    def explanation(request: Request) -> None:
        try:
            first_set(request)
        except ResolutionImpossible:
            return
        raise NotMeasured(f"a set matches {request}, so there is no explanation to measure")

    resolved = max(milliseconds(lambda each=each: first_set(each), 25) for each in POSSIBLE)  # type: ignore[misc]
    explained = max(milliseconds(lambda each=each: explanation(each), 15) for each in IMPOSSIBLE)  # type: ignore[misc]
    return [
        at_most("reading the data", milliseconds(lambda: Context(home).matrix, 15), "ms", 10),
        at_most(f"resolve, the slowest of {len(POSSIBLE)}", resolved, "ms", 25),
        at_most(f"explanation with suggestions, the slowest of {len(IMPOSSIBLE)}", explained, "ms", 150),
    ]


def milliseconds(work: Callable[[], object], repetitions: int) -> float:
    """Return the shortest time of several runs, because other programs can only add time."""
    times = []
    for _ in range(1 + repetitions):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return min(times)

"""The overhead of `rocenv kernels build` over the bare compiler, and how many steps `rocenv mem probe` takes.

This uses the ROCENV_HOME from `scripts/apps-lane`, with its Blender env and compiler, and clears the kernel
cache there. The memory search is not timed: its steps are counted on simulated cards of several sizes,
some of whose memory is in use.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, NotMeasured, ratio, run
from rocenv.compilers import newest_for, toolchain_of
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.kernels.compile import command
from rocenv.kernels.installation import find, version_of, with_source_of
from rocenv.kernels.recipe import job_for
from rocenv.memory.probe import largest_working, resolution_of
from rocenv.prefix import prefix_of

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.measure import Bench

APP, ENV, KIND, TARGET = "blender", "art", "hip", "gfx1201"
GIB = 1 << 30
CARDS = (8, 12, 16, 24, 48)  # GiB
CASES = 200  # for each card


def figures(bench: Bench, place: Path) -> list[Figure]:
    """Measure compilation, and count the steps in the memory search."""
    environ = {**bench.environ, "ROCENV_HOME": str(place)}
    output = bench.folder / "by rocenv"
    target = ("--target", TARGET, "--output", str(output))
    build = (bench.rocenv, "kernels", "build", APP, "--env", ENV, *target, "--offline")
    # The first run writes bytecode and finds the compiler. Clear its result, so that the second run compiles.
    run(build, environ)
    run((bench.rocenv, "cache", "clear", "kernels"), environ)
    plain = run(compiler_command(place, bench.folder / "by hand"), environ)
    ours = run(build, environ)
    what, by_hand = f"kernels build blender for {TARGET}", "the compiler alone"
    most, least = steps()
    return [
        ratio(f"{what}, elapsed time", ours.seconds, "s", by_hand, plain.seconds, 1.1),
        ratio(f"{what}, processor time", ours.cpu_seconds, "s", by_hand, plain.cpu_seconds, 1.1),
        ratio(
            f"mem probe, maximum number of allocations in {CASES * len(CARDS):,} cases",
            most,
            "steps",
            "log2 of the number of distinguishable sizes",
            least,
            1.25,
        ),
    ]


def compiler_command(place: Path, output: Path) -> tuple[str, ...]:
    """Build the compiler command for the same kernel."""
    matrix, home = load(), Home(place)
    app = find(str(prefix_of(home, ENV).bin / APP), home)
    version = version_of(app, matrix.launcher)
    app = with_source_of(app, version)
    job = job_for(app, version, KIND, TARGET, None, matrix.kernel_recipe, to_be_loaded=False)
    own, newest = prefix_of(home, ENV), newest_for(TARGET, matrix)
    envs = (own, prefix_of(home, newest.name)) if newest else (own,)
    toolchain = next(filter(None, (toolchain_of(each, TARGET) for each in envs)), None)
    if toolchain is None:
        raise NotMeasured(f"`{place}` has no compiler for {TARGET}")
    return tuple(command(toolchain, job, output))


def steps() -> tuple[int, float]:
    """Return the maximum number of allocations in a search, and the minimum for bisection (log2)."""
    chance = random.Random(0)
    most = 0
    for size in CARDS:
        bound = size * GIB
        for _ in range(CASES):
            free = bound - chance.randrange(bound)
            most = max(most, asked_for(bound, free))
    finest = max(size * GIB / resolution_of(size * GIB) for size in CARDS)
    return most, math.log2(finest)


def asked_for(bound: int, free: int) -> int:
    """Count the allocations in a search."""
    tried: list[int] = []

    def works(size: int) -> bool:
        tried.append(size)
        return size <= free

    largest_working(bound, works)
    return len(tried)

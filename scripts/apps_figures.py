"""What `rocenv kernels build` costs beside the compiler's own command, and the steps of `rocenv mem --probe`.

JSON on stdout. Takes the ROCENV_HOME that `scripts/apps-lane` has made, with its env of Blender and its
compiler; kernels in its cache are cleared. The steps are those of the search alone, on cards of several sizes
of which a part is gone.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rocenv.compilers import newest_for, toolchain_of
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.install.prefix import prefix_of
from rocenv.kernels.compile import command
from rocenv.kernels.installation import find, fitting
from rocenv.kernels.program import program_of
from rocenv.kernels.recipe import job_for
from rocenv.kernels.version import version_of
from rocenv.memory.bisection import largest, resolution_of

APP, ENV, KIND, TARGET = "blender", "art", "hip", "gfx1201"
GIB = 1 << 30
CARDS = (8, 12, 16, 24, 48)  # GiB
CASES = 200  # of each


def main() -> int:
    """Measure and print."""
    home = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        found = compiling(home, Path(folder)) | {"probe": steps()}
    json.dump(found, sys.stdout)
    return 0


def compiling(place: Path, folder: Path) -> dict[str, Any]:
    """Return seconds of the clock and of the processor: by the compiler's own command, and by rocenv."""
    output = folder / "by rocenv"
    rocenv = str(Path(sys.executable).with_name("rocenv"))
    words = (rocenv, "kernels", "build", APP, "--env", ENV, "--target", TARGET, "--output", str(output))
    environ = {**os.environ, "ROCENV_HOME": str(place)}
    # The first start compiles bytecode and finds the compiler, and what it makes is wanted anew.
    ran((*words, "--offline"), environ)
    ran((rocenv, "cache", "clear", "kernels"), environ)
    plain = ran(compiler_command(place, folder / "by hand"), environ)
    ours = ran((*words, "--offline"), environ)
    return {"compiler": plain, "rocenv": ours, "target": TARGET}


def compiler_command(place: Path, output: Path) -> tuple[str, ...]:
    """Return the compiler's command for the same kernel."""
    matrix, home = load(), Home(place)
    row = next(row for row in matrix.kernel_source if row.app == APP)
    app = find(str(prefix_of(home, ENV).bin / APP), row, home)
    version = version_of(app)
    app = fitting(app, version) or app
    job = job_for(app, program_of(app), version, KIND, TARGET, None, matrix.kernel_recipe, to_be_loaded=False)
    own, newest = prefix_of(home, ENV), newest_for(TARGET, matrix)
    envs = (own, prefix_of(home, newest.name)) if newest else (own,)
    toolchain = next(filter(None, (toolchain_of(each, TARGET) for each in envs)), None)
    if toolchain is None:
        raise SystemExit(f"there is no compiler for {TARGET} in {place}")
    return tuple(command(toolchain, job, output))


def ran(argv: tuple[str, ...], environ: dict[str, str]) -> dict[str, float]:
    """Run a command; return its seconds: of the clock, and of the processor with those of its children."""
    start = time.perf_counter()
    child = subprocess.Popen(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = child.stderr.read() if child.stderr else b""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(
            f"`{argv[0]}` exited with {child.returncode}: {said.decode(errors='replace')[-800:]}"
        )
    return {"clock_s": time.perf_counter() - start, "processor_s": usage.ru_utime + usage.ru_stime}


def steps() -> dict[str, float]:
    """Return the most allocations that the search takes, and what bisection takes: log2 of the sizes."""
    chance = random.Random(0)
    most = 0
    for size in CARDS:
        bound = size * GIB
        for _ in range(CASES):
            free = bound - chance.randrange(bound)
            most = max(most, asked_for(bound, free))
    finest = max(size * GIB / resolution_of(size * GIB) for size in CARDS)
    return {"steps": most, "least": math.log2(finest), "cases": CASES * len(CARDS)}


def asked_for(bound: int, free: int) -> int:
    """Return how many allocations the search takes."""
    tried: list[int] = []

    def works(size: int) -> bool:
        tried.append(size)
        return size <= free

    largest(bound, works)
    return len(tried)


if __name__ == "__main__":
    sys.exit(main())

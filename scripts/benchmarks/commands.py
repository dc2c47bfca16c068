"""The time that short commands take, compared with starting a minimal click program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.measure import SET, by_turns, ratio

if TYPE_CHECKING:
    from benchmarks.measure import Bench, Figure, Run


def figures(bench: Bench) -> list[Figure]:
    """Measure short commands; the env `first` must exist."""
    windows = ("--platform", "windows", "--target", "gfx1031", "--rocm", "5.7", "--zluda")
    commands = {
        "python -c 'import click'": (sys.executable, "-c", "import click"),
        "rocenv --version": (bench.rocenv, "--version"),
        "rocenv run ENV -- true": (bench.rocenv, "run", "first", "--", "true"),
        "rocenv resolve, a set for Linux, index already downloaded": (
            *(bench.rocenv, "resolve", *SET, "--offline"),
        ),
        "rocenv resolve, a set with ZLUDA": (bench.rocenv, "resolve", *windows),
    }

    def runner(argv: tuple[str, ...]) -> Run:
        return bench.run(*argv)

    found = by_turns(
        {name: lambda argv=argv: runner(argv) for name, argv in commands.items()},  # type: ignore[misc]
        max(21, 7 * bench.repetitions),
    )
    click, *ours = ((name, 1000 * one.seconds) for name, one in found.items())
    return [
        ratio(name, took_ms, "ms", *click, times)
        for (name, took_ms), times in zip(ours, (1.5, 3, 6, 6), strict=True)
    ]

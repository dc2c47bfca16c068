"""Figures, and measurements of the time and memory that commands use."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MB = 1e6
SET = ("--rocm", "5.7", "--target", "gfx1100")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A row in the table of results."""

    what: str
    ours: float
    unit: str
    reference: str = ""  # the name of the reference, if any
    reference_value: float = 0
    goal: str = ""  # as text, if any
    limit: float = 0  # the goal, as a value for `ours`

    def row(self) -> tuple[str, ...]:
        """Format the row for the table."""
        value = f"{self.reference_value:.2f} {self.unit}" if self.reference else ""
        ratio = f"{self.ours / self.reference_value:.2f} x" if self.reference else ""
        met = ("yes" if self.ours <= self.limit else "NO") if self.goal else ""
        return self.what, self.reference, value, f"{self.ours:.2f} {self.unit}", ratio, self.goal, met


def ratio(what: str, ours: float, unit: str, reference: str, value: float, times: float = 0) -> Figure:
    """Compare a figure with a reference; `times` sets the goal as a multiple of the reference."""
    goal = f"<= {times:g} x" if times else ""
    return Figure(
        what=what,
        ours=ours,
        unit=unit,
        reference=reference,
        reference_value=value,
        goal=goal,
        limit=times * value,
    )


def at_most(what: str, ours: float, unit: str, limit: float) -> Figure:
    """Compare a figure with a limit."""
    return Figure(what=what, ours=ours, unit=unit, goal=f"<= {limit:g} {unit}", limit=limit)


class NotMeasured(Exception):
    """Raised if a figure could not be measured; the message contains the reason."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The resources that a command used."""

    seconds: float
    cpu_seconds: float  # including its children
    peak_bytes: int  # of the largest process: the command or a child


def run(argv: Sequence[str], environ: Mapping[str, str], output: Path | None = None) -> Run:
    """Run a command; raise NotMeasured if it fails.

    Args:
        argv: The command.
        environ: All of its environment variables.
        output: The file for its standard output, which is discarded by default.
    """
    with open(output or os.devnull, "wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE
        )
        errors = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        text = errors.decode(errors="replace").strip()
        raise NotMeasured(f"`{' '.join(argv[:4])} …` exited with {process.returncode}: {text[-800:]}")
    return Run(
        seconds=seconds, cpu_seconds=usage.ru_utime + usage.ru_stime, peak_bytes=usage.ru_maxrss * 1024
    )


def by_turns(commands: Mapping[str, Callable[[], Run]], rounds: int, warm_up: int = 1) -> dict[str, Run]:
    """Run commands in turn, and return the median times and highest peak of each.

    Args:
        commands: Name -> function that runs the command once.
        rounds: Number of measured runs per command.
        warm_up: Number of unmeasured rounds before that, to write bytecode and fill caches.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(warm_up + rounds):
        for name, command in commands.items():
            one = command()
            if number >= warm_up:
                runs[name].append(one)
    return {name: middle(row) for name, row in runs.items()}


def middle(runs: Sequence[Run]) -> Run:
    """Return the median times and the highest peak."""
    return Run(
        seconds=statistics.median(each.seconds for each in runs),
        cpu_seconds=statistics.median(each.cpu_seconds for each in runs),
        peak_bytes=max(each.peak_bytes for each in runs),
    )


class Bench:
    """The program to measure, with its own home."""

    def __init__(self, folder: Path, repetitions: int) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.rocenv = str(Path(sys.executable).with_name("rocenv"))
        self.repetitions = repetitions
        self.environ = {**os.environ, "ROCENV_HOME": str(self.home)}
        self.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # because users run with cached bytecode

    def run(self, *argv: str) -> Run:
        """Run a command in the home; raise NotMeasured if it fails."""
        return run(argv, self.environ)

    def create(self, name: str, *options: str) -> Run:
        """Create an env with the set from the downloaded packages."""
        return self.run(self.rocenv, "create", name, *SET, "--offline", "--yes", *options)


def progress(times: Mapping[str, Sequence[Run]]) -> None:
    """Print the measurements so far."""
    shown = "; ".join(
        f"{name} {' '.join(f'{each.seconds:.2f}' for each in row)} s" for name, row in times.items()
    )
    print(f"  {shown}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)


def remove(path: Path) -> None:
    """Remove a tree, including read-only folders."""
    subprocess.run(["rm", "-rf", str(path)], check=True)


def settle(files: Sequence[Path]) -> None:
    """Write pending data to disk and read the files into memory, so that runs do not affect each other."""
    os.sync()
    for path in files:
        with path.open("rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass

"""Run the targets with atheris, several at a time; `scripts/fuzz` installs the dependencies."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOUND = Path(__file__).parents[2] / "build" / "fuzz"
INSTRUMENTED = ["rocenv", "py7zr", "elftools"]  # not pefile, which would be ten times slower
SECONDS = 60
MOST_SECONDS = 10  # per input
LAST_LINES = 40


@dataclass(frozen=True)
class Outcome:
    """The result for one target."""

    name: str
    ok: bool
    took_s: float
    output: str


def fuzz(name: str, limit: list[str]) -> None:
    """Feed the seeds and libFuzzer's mutations to a target in this process, then exit."""
    import atheris

    from tests.fuzz.reading import read

    folder = FOUND / name
    # A parser must not start programs, so hide all of them.
    os.environ["PATH"] = str(folder)
    options = [
        *(str(folder / "corpus"), *limit, f"-artifact_prefix={folder}/"),
        *(f"-timeout={MOST_SECONDS}", "-rss_limit_mb=2048", "-max_len=16384"),
    ]

    def one_input(data: bytes) -> None:
        read(name, data)

    atheris.Setup([sys.argv[0], *options], one_input)
    atheris.Fuzz()


def begin(name: str, limit: list[str], *, anew: bool) -> int:
    """Start a process that fuzzes a target."""
    from tests.fuzz.targets import TARGETS

    folder = FOUND / name
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds()):
        (folder / "corpus" / f"seed-{number}").write_bytes(seed)
    sys.stdout.flush()
    child = os.fork()  # so that instrumented modules are imported once
    if child:
        return child
    try:
        output = os.open(folder / "output.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        fuzz(name, limit)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def outcomes(names: list[str], limit_of: Callable[[str], list[str]], *, anew: bool) -> Iterator[Outcome]:
    """Fuzz some targets, one per core at a time."""
    waiting = list(names)
    running: dict[int, tuple[str, float]] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            name = waiting.pop(0)
            running[begin(name, limit_of(name), anew=anew)] = (name, time.monotonic())
        child, status = os.wait()
        name, since = running.pop(child)
        output = (FOUND / name / "output.log").read_text(encoding="utf-8", errors="replace")
        yield Outcome(name, status == 0, time.monotonic() - since, output)


def require_known(names: list[str], parser: argparse.ArgumentParser) -> None:
    """Exit with an error if any name is not a target."""
    from tests.fuzz.targets import TARGETS

    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")


def main() -> int:
    """Run the named targets, or all of them; exit with 1 if any fails."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Feed broken input to every parser of untrusted input."
    )
    parser.add_argument("target", nargs="*", help="default: all targets")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target (default: %(default)s)")
    parser.add_argument(
        "--short", action="store_true", help="run at most 300 inputs per target, with a fixed seed"
    )
    parser.add_argument(
        "--input", type=Path, help="run TARGET only on this file, for example from an earlier run"
    )
    options = parser.parse_args()
    if options.input:
        if not options.target:
            parser.error("--input needs a TARGET")
        require_known(options.target, parser)
        from tests.fuzz.reading import read

        for name in options.target:
            print(f"{name}: {read(name, options.input.read_bytes()) or 'accepted'}")
        return 0

    import atheris

    os.environ["RUST_BACKTRACE"] = "0"  # a backtrace takes a hundred times as long as parsing
    with atheris.instrument_imports(include=INSTRUMENTED):
        import py7zr  # noqa: F401 -- readers import these three on demand

        from tests.fuzz.targets import TARGETS

    require_known(options.target, parser)
    names = options.target or list(TARGETS)

    def limit_of(name: str) -> list[str]:
        if options.short:
            return [f"-runs={TARGETS[name].short_runs}", "-seed=1"]
        return [f"-max_total_time={options.seconds}"]

    failed = 0
    for outcome in outcomes(names, limit_of, anew=options.short):
        failed += not outcome.ok
        print(f"{'ok' if outcome.ok else 'FOUND':8}{outcome.name:14}{outcome.took_s:6.1f} s", flush=True)
        if not outcome.ok:
            print(*outcome.output.splitlines()[-LAST_LINES:], sep="\n")
            print(f"again: scripts/fuzz {outcome.name} --input FILE  (FILE is named above)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Times of `rocenv diagnose` as a whole command, and its memory; JSON on stdout. Takes a folder to work in.

What is compared runs by turns, on files that are in memory; the median counts. The noise is that of `noise`,
which holds literals of many clues in each stretch, and one line that a rule knows stands in the middle.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noise import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROFILES = Path(__file__).resolve().parents[1] / "profiles"
SIZE = 200_000_000
SMALL_LINES = 1000
TIMES = 4  # as many rules
LINE = (
    b"Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f00. Reason: Page not present\n"
)
SPECIAL = ".[]{}()*+?|^$\\"  # in what `grep -E` takes
ROUNDS, SMALL_ROUNDS = 3, 21


def main() -> int:
    """Measure and print."""
    folder = Path(sys.argv[1]) / "diagnose"
    folder.mkdir(parents=True)
    try:
        json.dump(measured(folder), sys.stdout)
    finally:
        shutil.rmtree(folder)
    return 0


def measured(folder: Path) -> dict[str, Any]:
    """Return all figures."""
    large, small = folder / "large.log", folder / "small.log"
    write_log(large, SIZE)
    noise = b"".join(blocks(1, seed=0)).splitlines(keepends=True)[:SMALL_LINES]
    small.write_bytes(b"".join((*noise[: SMALL_LINES // 2], LINE, *noise[SMALL_LINES // 2 :])))
    literals = literals_of(read_rules())
    (folder / "literals").write_text("|".join(map(escaped, literals)))
    more = folder / "profiles"
    copied = copy_profiles(more)

    rocenv = str(Path(sys.executable).with_name("rocenv"))
    environ = {**os.environ, "ROCENV_HOME": str(folder / "home")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is what users have
    with_more = {**environ, "ROCENV_HOME": str(folder / "home-more"), "ROCENV_PROFILES": str(more)}
    c_locale = {**environ, "LC_ALL": "C"}  # the faster one for grep

    def diagnose(log: Path, env: dict[str, str] = environ) -> Callable[[], tuple[float, int]]:
        return lambda: run((rocenv, "diagnose", str(log)), env)

    at_large = by_turns(
        {
            "diagnose": diagnose(large),
            "grep": lambda: run(("grep", "-cEf", str(folder / "literals"), str(large)), c_locale),
            "more": diagnose(large, with_more),
        },
        ROUNDS,
    )
    at_small = by_turns(
        {
            "diagnose": diagnose(small),
            "click": lambda: run((sys.executable, "-c", "import click"), environ),
            "more": diagnose(small, with_more),
        },
        SMALL_ROUNDS,
    )
    return {
        "large_mb": large.stat().st_size / 1e6,
        "large_s": {name: seconds for name, (seconds, _) in at_large.items()},
        "large_peak_bytes": at_large["diagnose"][1],
        "more_peak_bytes": at_large["more"][1],
        "small_s": {name: seconds for name, (seconds, _) in at_small.items()},
        "small_lines": SMALL_LINES + 1,
        "literals": len(literals),
        "rules": copied,
        "times": TIMES,
    }


# ---------------------------------------------------------------- what is read


def write_log(path: Path, size: int) -> None:
    """Write noise with one line in the middle that a rule knows."""
    written, told = 0, False
    with path.open("wb") as stream:
        for block in blocks(size, seed=1):
            written += stream.write(block)
            if not told and written >= size / 2:
                written += stream.write(LINE)
                told = True


def read_rules() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the files with rules, and what they hold."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    for path in sorted((PROFILES / "rules").glob("*.toml")):
        yield path, tomllib.loads(path.read_text(encoding="utf-8-sig"))


def literals_of(files: Iterable[tuple[Path, dict[str, Any]]]) -> list[str]:
    """Return what the rules look for in a log, each once."""
    signs = (sign for _, plain in files for rule in plain.get("rule", ()) for sign in rule["sign"])
    return list(dict.fromkeys(text for sign in signs for text in sign["text"]))


def escaped(literal: str) -> str:
    """Return a literal as `grep -E` takes it."""
    return "".join(f"\\{char}" if char in SPECIAL else char for char in literal)


def copy_profiles(target: Path) -> int:
    """Write profiles with TIMES as many rules, whose literals differ; return how many rules there were."""
    import tomlkit

    shutil.copytree(PROFILES, target)
    rules = 0
    for path, plain in read_rules():
        for rule in plain.get("rule", ()):
            rules += 1
            for step in range(1, TIMES):
                copy = {**rule, "code": f"{rule['code']}-{step}", "explains": []}
                copy["sign"] = [
                    {**sign, "text": [shifted(text, step) for text in sign["text"]]} for sign in rule["sign"]
                ]
                text = tomlkit.dumps({"schema": 1, "rule": [copy]})
                (target / "rules" / f"{path.stem}-{rules}-{step}.toml").write_text(text, encoding="utf-8")
    return rules


def shifted(literal: str, step: int) -> str:
    """Return a literal as long that no log holds: each letter is another one."""
    small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    other = small[step:] + small[:step] + large[step:] + large[:step]
    return literal.translate(str.maketrans(small + large, other))


# ---------------------------------------------------------------- measuring


def run(argv: tuple[str, ...], environ: dict[str, str]) -> tuple[float, int]:
    """Return the seconds and the peak bytes of a command that must find something."""
    said = Path(environ["ROCENV_HOME"]).with_name(
        "said"
    )  # not the null device, for which grep only looks once
    quiet = [(os.POSIX_SPAWN_OPEN, 1, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    start = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{argv} ended with {status}")
    return seconds, usage.ru_maxrss * 1024


def by_turns(
    commands: dict[str, Callable[[], tuple[float, int]]], rounds: int
) -> dict[str, tuple[float, int]]:
    """Return of each command the median time and the highest peak."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            one = command()
            if number:  # the first one writes bytecode and compiles the matrix
                found[name].append(one)
    return {
        name: (statistics.median(seconds for seconds, _ in runs), max(peak for _, peak in runs))
        for name, runs in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())

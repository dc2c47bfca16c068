"""The cost of `rocenv diagnose` for a large log, for a small log, and with more rules.

The noise comes from `diagnose_score` and contains strings that many extractors search for; only one line
matches a rule.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import MB, Figure, at_most, by_turns, ratio, run
from diagnose_score.noise import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.measure import Bench, Run

PROFILES = Path(__file__).resolve().parents[2] / "profiles"
SIZE = 200_000_000
SMALL_LINES = 1000
TIMES = 4  # as many rules
LINE = (
    b"Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f00. Reason: Page not present\n"
)
SPECIAL = ".[]{}()*+?|^$\\"  # in `grep -E` patterns
ROUNDS, SMALL_ROUNDS = 3, 21


def figures(bench: Bench) -> list[Figure]:
    """Measure on generated logs."""
    folder = bench.folder / "diagnose"
    folder.mkdir()
    large, small = folder / "large.log", folder / "small.log"
    write_log(large, SIZE)
    noise = b"".join(blocks(1, seed=0)).splitlines(keepends=True)[:SMALL_LINES]
    small.write_bytes(b"".join((*noise[: SMALL_LINES // 2], LINE, *noise[SMALL_LINES // 2 :])))
    literals = literals_of(read_rules())
    (folder / "literals").write_text("|".join(map(escaped, literals)))
    rules = copy_profiles(folder / "profiles")
    output = folder / "output"  # not the null device, because grep would then stop at the first match
    more = {"ROCENV_HOME": str(folder / "home-more"), "ROCENV_PROFILES": str(folder / "profiles")}

    def runner(*argv: str, **changes: str) -> Callable[[], Run]:
        return lambda: run(argv, {**bench.environ, **changes}, output)

    def diagnose(log: Path, **changes: str) -> Callable[[], Run]:
        return runner(bench.rocenv, "diagnose", str(log), **changes)

    grep = runner("grep", "-cEf", str(folder / "literals"), str(large), LC_ALL="C")
    at_large = by_turns(
        {"diagnose": diagnose(large), "grep": grep, "more": diagnose(large, **more)},
        ROUNDS,
    )
    click = runner(sys.executable, "-c", "import click")
    at_small = by_turns(
        {"diagnose": diagnose(small), "click": click, "more": diagnose(small, **more)},
        SMALL_ROUNDS,
    )
    shutil.rmtree(folder)
    seconds = {name: each.seconds for name, each in at_large.items()}
    ms = {name: 1000 * each.seconds for name, each in at_small.items()}
    in_large = f"diagnose, a log of {SIZE / MB:.0f} MB"
    in_small = f"diagnose, a log with {SMALL_LINES + 1:,} lines"
    few, many = f"with {rules} rules", f"with {rules * TIMES} rules"
    return [
        at_most(in_large, seconds["diagnose"], "s", 4),
        ratio(
            in_large,
            seconds["diagnose"],
            "s",
            f"grep -cE with the rules' {len(literals)} literals",
            seconds["grep"],
            4,
        ),
        at_most("its peak memory", at_large["diagnose"].peak_bytes / MB, "MB", 150),
        ratio(in_small, ms["diagnose"], "ms", "python -c 'import click'", ms["click"], 6),
        ratio(f"{in_large}, {many}", seconds["more"], "s", few, seconds["diagnose"]),
        ratio(f"{in_small}, {many}", ms["more"], "ms", few, ms["diagnose"]),
    ]


def write_log(path: Path, size: int) -> None:
    """Write noise with a matching line in the middle."""
    written, has_line = 0, False
    with path.open("wb") as stream:
        for block in blocks(size, seed=1):
            written += stream.write(block)
            if not has_line and written >= size / 2:
                written += stream.write(LINE)
                has_line = True


def read_rules() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each rule file with its contents."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    for path in sorted((PROFILES / "rules").glob("*.toml")):
        yield path, tomllib.loads(path.read_text(encoding="utf-8-sig"))


def literals_of(files: Iterable[tuple[Path, dict[str, Any]]]) -> list[str]:
    """Return the distinct literals in all rules."""
    patterns = (each for _, plain in files for rule in plain.get("rule", ()) for each in rule["pattern"])
    return list(dict.fromkeys(text for pattern in patterns for text in pattern["text"]))


def escaped(literal: str) -> str:
    """Escape a literal for `grep -E`."""
    return "".join(f"\\{char}" if char in SPECIAL else char for char in literal)


def copy_profiles(target: Path) -> int:
    """Write profiles with TIMES copies of each rule, with different literals; return the number of rules."""
    import tomlkit

    shutil.copytree(PROFILES, target)
    rules = 0
    for path, plain in read_rules():
        for rule in plain.get("rule", ()):
            rules += 1
            for step in range(1, TIMES):
                copy = {**rule, "code": f"{rule['code']}-{step}", "explains": []}
                copy["pattern"] = [
                    {**each, "text": [shifted(text, step) for text in each["text"]]}
                    for each in rule["pattern"]
                ]
                text = tomlkit.dumps({"schema": 1, "rule": [copy]})
                (target / "rules" / f"{path.stem}-{rules}-{step}.toml").write_text(text, encoding="utf-8")
    return rules


def shifted(literal: str, step: int) -> str:
    """Replace each letter to get a literal of the same length that does not occur in any log."""
    small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    other = small[step:] + small[:step] + large[step:] + large[:step]
    return literal.translate(str.maketrans(small + large, other))

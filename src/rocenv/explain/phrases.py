"""Phrases for versions, targets and support levels, and parsing of user input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from rocenv.core.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LEVELS: Mapping[str, str] = {
    "official": "supported by AMD",
    "deprecated": "supported by AMD, marked deprecated",
    "libraries": "has kernels, but is not supported by AMD",
    "runtime": "runtime only, no kernels in the libraries",
    "unsupported": "listed as unsupported by AMD",
}
NOT_LISTED = "not listed by AMD"
OVERRIDES: Mapping[str, str] = {
    "ok": "works",
    "caution": "may work",
    "block": "known to fail",
    "reject": "not needed; do not set it",
}
OUTCOMES: Mapping[str, str] = {"broken": "fails", "workaround": "needs a workaround", "works": "works"}
OUTCOME_RANK: Mapping[str, int] = {"broken": 0, "workaround": 1, "works": 2}


def plain(thing: str) -> str:
    """Normalize user input: lowercase, no quotes, single spaces."""
    return " ".join(thing.casefold().replace('"', " ").replace("'", " ").split())


def asked_version(thing: str, kinds: tuple[str, ...]) -> str:
    """Extract the version from `KIND-V`, `KIND V`, `KIND==V` or `KINDV`; return "" if no kind matches.

    The kind "" matches a version without a prefix.
    """
    for kind in kinds:
        found = re.fullmatch(rf"{re.escape(kind)}[\s=-]*v?([0-9][0-9a-z.+-]*)", thing.replace("_", "-"))
        if found:
            return found[1]
    return ""


def oldest_first(versions: Iterable[str]) -> list[str]:
    """Sort versions and drop duplicates."""
    return sorted(dict.fromkeys(versions), key=version_of)


def spans(found: Iterable[str], among: Iterable[str] = ()) -> str:
    """Format versions as ranges: `5.7, 6.0 to 6.2` if `among` has a version between 5.7 and 6.0."""
    wanted = oldest_first(found)
    return in_ranges(wanted, oldest_first([*among, *wanted]))


def in_ranges(names: Iterable[str], order: Sequence[str]) -> str:
    """Join names, with a range for three or more that are consecutive in `order`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and order.index(name) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def range_in_words(text: str) -> str:
    """Format a PEP 440 specifier in words: `>=6,<7` becomes `6 or newer, before 7`."""
    words = []
    for each in sorted(SpecifierSet(text), key=lambda each: "=!<>~".index(each.operator[0]), reverse=True):
        version = each.version.removesuffix(".*")
        words.append(
            {
                "==": version,
                "<=": f"{version} or older",
                "<": f"before {version}",
                ">=": f"{version} or newer",
                ">": f"newer than {version}",
                "!=": f"except {version}",
            }.get(each.operator, f"{each.operator}{version}")
        )
    return ", ".join(words)


def in_order(targets: Iterable[str]) -> list[str]:
    """Sort targets by number and drop duplicates."""
    return sorted(dict.fromkeys(targets), key=target_key)


def target_key(name: str) -> tuple[int, str]:
    """Sort key for targets: gfx90a comes before gfx1010."""
    bare = name.partition(":")[0].removeprefix("gfx")
    return len(bare), name


def listed(texts: Iterable[str], nothing: str = "none") -> str:
    """Join strings with commas."""
    return ", ".join(texts) or nothing


def either(texts: Iterable[str]) -> str:
    """Join strings as alternatives: `a, b or c`."""
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last

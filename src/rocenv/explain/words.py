"""Versions, targets and levels of support in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from rocenv.core.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEVELS: Mapping[str, str] = {
    "official": "AMD supports it",
    "deprecated": "AMD still supports it, and has announced the end",
    "libraries": "kernels in its libraries, without AMD's promise",
    "runtime": "AMD's runtime runs on it, the libraries have no kernels",
    "unsupported": "AMD says: not supported",
    "": "not built for it",
}
# The same in the fewest words, for a line that goes on.
SHORT_LEVELS: Mapping[str, str] = {
    "official": "supported by AMD",
    "deprecated": "still supported by AMD",
    "libraries": "kernels, without AMD's promise",
    "runtime": "AMD's runtime only, no kernels",
    "unsupported": "AMD says: not supported",
    "": "not listed by AMD",
}
OUTCOMES: Mapping[str, str] = {"broken": "fails", "workaround": "with a trick", "works": "works"}
# Best first.
OUTCOME_RANK: Mapping[str, int] = {"broken": 0, "workaround": 1, "works": 2}
VERDICTS: Mapping[str, str] = {
    "ok": "works",
    "caution": "with care",
    "block": "known to go wrong",
    "reject": "not to be used",
}


def oldest_first(versions: Iterable[str]) -> list[str]:
    """Return versions without repetition, in their order."""
    return sorted(dict.fromkeys(versions), key=version_of)


def spans(found: Iterable[str], among: Iterable[str]) -> str:
    """Return versions in words, those that are neighbours among the known ones drawn together.

    `5.7, 6.0 to 6.2` of 5.7, 6.0, 6.1 and 6.2, where 5.8 is known too.
    """
    wanted = oldest_first(found)
    order = oldest_first([*among, *wanted])
    runs: list[list[str]] = []
    for version in wanted:
        if runs and order.index(version) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    texts = []
    for run in runs:
        texts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
    return ", ".join(texts)


def range_in_words(text: str) -> str:
    """Return a range of versions in words: `>=6,<7` is `from 6 on, before 7`."""
    words = []
    for each in sorted(SpecifierSet(text), key=lambda each: "=!<>~".index(each.operator[0]), reverse=True):
        version = each.version.removesuffix(".*")
        words.append(
            {
                "==": version,
                "<=": f"up to {version}",
                "<": f"before {version}",
                ">=": f"from {version} on",
                ">": f"after {version}",
                "!=": f"not {version}",
            }.get(each.operator, f"{each.operator}{version}")
        )
    return ", ".join(words)


def targets_first(names: Iterable[str]) -> list[str]:
    """Return targets without repetition, in the order of their numbers."""
    return sorted(dict.fromkeys(names), key=target_key)


def target_key(name: str) -> tuple[int, str]:
    """Return a key that sorts targets by generation: gfx90a before gfx1010."""
    bare = name.partition(":")[0].removeprefix("gfx")
    return len(bare), name


def listed(texts: Iterable[str], nothing: str = "none") -> str:
    """Return texts with commas between."""
    return ", ".join(texts) or nothing


def either(texts: Iterable[str]) -> str:
    """Return texts as alternatives: `a, b or c`."""
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def count(number: int, what: str) -> str:
    """Return a number with its noun: `1 pack`, `3 packs`."""
    return f"{number} {what}{'' if number == 1 else 's'}"

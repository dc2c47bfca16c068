"""Combinations known to be broken, as rules of the search; and what else is known of a set, as notes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.model import Rejection
from rocenv.resolve.versions import allows, bounds, version_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rocenv.matrix.knowledge import Verdict
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules


class VersionIndex:
    """Places of a list by the version that stands there, to find those in a range without asking each."""

    def __init__(self, versions: Sequence[str]) -> None:
        found: dict[str, list[int]] = {}
        for place, version in enumerate(versions):
            found.setdefault(version, []).append(place)
        self._places = sorted(((version_of(text), text, places) for text, places in found.items()))
        self._versions = [version for version, _, _ in self._places]

    def allowed(self, text: str) -> list[int]:
        """Return the places whose version a range of the data allows."""
        lowest, highest = bounds(text)
        low = bisect_left(self._versions, lowest) if lowest else 0
        high = bisect_right(self._versions, highest) if highest else len(self._versions)
        return [
            place
            for _, version_text, places in self._places[low:high]
            if allows(text, version_text)
            for place in places
        ]


def rule_of(row: Verdict) -> str:
    """Return the name of the rule that a set breaks which the row calls broken."""
    conditions = (row.targets, row.rocm, row.project, row.zluda, row.flavour, row.torch, row.pack, row.driver)
    kind = "driver" if row.driver else "verdict"  # with another driver it would not hold
    return f"{kind}: {row.what} {conditions}"


def is_verdict(rule: str) -> bool:
    """Tell whether a rule was made by `rule_of`."""
    return rule.startswith(("verdict: ", "driver: "))


def about(case: Case) -> list[Verdict]:
    """Return the verdicts that may concern a request's target and platform, in an order of their own."""
    return sorted(_concerning(case), key=lambda row: (not row.targets, rule_of(row), row.only_if))


def _concerning(case: Case) -> Iterator[Verdict]:
    target, platform = case.request.target, case.request.platform
    for row in case.matrix.verdict:
        if row.platform == platform and (not row.targets or target in row.targets):
            yield row


def forbids(row: Verdict, driver: str) -> bool:
    """Tell whether a verdict drops the sets that it is about, with this display driver ("" = not known)."""
    if row.verdict != "broken" or row.only_if:
        return False
    return not row.driver or (bool(driver) and allows(row.driver, driver))


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The rules made from verdicts, by the options of a whole that they concern."""

    # Place and number of an option -> rules that it breaks by itself, and rules that it is one part of.
    breaks: Mapping[tuple[int, int], set[str]]
    hits: Mapping[tuple[int, int], set[str]]
    bad: Mapping[str, frozenset[int]]  # rule of several parts -> their places

    def of(self, place: int, number: int) -> tuple[Rules, Rules]:
        """Return what an option breaks and what it is a part of."""
        key = (place, number)
        return frozenset(self.breaks.get(key, ())), frozenset(self.hits.get(key, ()))


# Which options of a place meet a verdict's conditions on it: their numbers; None where it has none on it.
Finder = Callable[["Verdict"], "Collection[int] | None"]


def versions(field: str, found: Sequence[str]) -> Finder:
    """Return what finds the options whose version a verdict's range of that field allows."""
    index = VersionIndex(found)

    def find(row: Verdict) -> Collection[int] | None:
        text = getattr(row, field)
        return index.allowed(text) if text else None

    return find


def marks(case: Case, roots: int, finders: Sequence[Finder]) -> Marks:
    """Return the rules that the verdicts make, for the options of each place of a whole.

    A verdict without conditions on any place concerns every one of the `roots`.
    """
    breaks: dict[tuple[int, int], set[str]] = defaultdict(set)
    hits: dict[tuple[int, int], set[str]] = defaultdict(set)
    bad = {}
    for row in _concerning(case):
        if not forbids(row, case.driver):
            continue
        met = {place: found for place, find in enumerate(finders) if (found := find(row)) is not None}
        met = met or {0: range(roots)}
        if not all(met.values()):
            continue  # nothing here meets one of its conditions
        rule = rule_of(row)
        marked = hits if len(met) > 1 else breaks
        if len(met) > 1:
            bad[rule] = frozenset(met)
        for place, numbers in met.items():
            for number in numbers:
                marked[place, number].add(rule)
    return Marks(breaks=breaks, hits=hits, bad=bad)


def reason(rule: str, name: str, case: Case) -> Rejection:
    """Return in words what a verdict says against a set."""
    row = next(each for each in about(case) if rule_of(each) == rule)
    given = f" with driver {case.driver}" if row.driver else ""
    return Rejection(
        component=name,
        requirement="no combination that is known to fail",
        found=row.what,
        source=row.source,
        text=f"{name}{given} is known to fail: {row.what}" + (f"; {row.remedy}" if row.remedy else ""),
    )


def told(row: Verdict) -> str:
    """Return a verdict as a note."""
    sure = {"broken": "known to fail", "workaround": "known trouble", "works": "known to work"}[row.verdict]
    if row.driver:
        sure += f" with display driver {row.driver}"
    where = f" in {row.app}" if row.app else ""
    condition = f", if {row.only_if}" if row.only_if else ""
    remedy = f"; {row.remedy}" if row.remedy else ""
    return f"{sure}{where}{condition}: {row.what}{remedy} ({row.source})"

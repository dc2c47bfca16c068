"""Combinations known to be broken, as rules of the search; and what else is known of a set, as notes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.model import Rejection
from rocenv.core.versions import allows, bounds, version_of
from rocenv.resolve.engine import NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rocenv.data.knowledge import Verdict
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


# Which options of a place meet a verdict's conditions on it: their numbers; None where it has none on it.
Finder = Callable[["Verdict"], "Collection[int] | None"]


def versions(field: str, found: Sequence[str]) -> Finder:
    """Return what finds the options whose version a verdict's range of that field allows."""
    index = VersionIndex(found)

    def find(row: Verdict) -> Collection[int] | None:
        text = getattr(row, field)
        return index.allowed(text) if text else None

    return find


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The rules that verdicts make, by the options that they have conditions on."""

    at: Mapping[tuple[int, int], Sequence[str]]  # place and number of an option -> rules about it
    everywhere: Sequence[str]  # without conditions on any place
    bad: Mapping[str, frozenset[int]]  # rule about several places -> the places
    by_target: Mapping[str, Rules]  # target, "" = any -> rules that hold whatever the driver
    by_driver: Sequence[tuple[str, Verdict]]  # rules that depend on it


def placed(rows: Iterable[Verdict], platform: str, finders: Sequence[Finder]) -> Placed:
    """Return the verdicts on a platform by what they have conditions on."""
    at: dict[tuple[int, int], list[str]] = defaultdict(list)
    by_target: dict[str, set[str]] = defaultdict(set)
    everywhere, by_driver, bad = [], [], {}
    for row in rows:
        if row.platform != platform or row.verdict != "broken" or row.only_if:
            continue
        met = {place: found for place, find in enumerate(finders) if (found := find(row)) is not None}
        if not all(met.values()):
            continue  # nothing here meets one of its conditions
        rule = rule_of(row)
        if not met:
            everywhere.append(rule)
        if len(met) > 1:
            bad[rule] = frozenset(met)
        for place, numbers in met.items():
            for number in numbers:
                at[place, number].append(rule)
        if row.driver:
            by_driver.append((rule, row))
        else:
            for target in row.targets or ("",):
                by_target[target].add(rule)
    return Placed(
        at=at,
        everywhere=everywhere,
        bad=bad,
        by_target={target: frozenset(rules) for target, rules in by_target.items()},
        by_driver=by_driver,
    )


class Marks:
    """The rules that verdicts make for one request."""

    def __init__(self, placed: Placed, case: Case) -> None:
        target = case.request.target
        self._placed = placed
        self._for_all = placed.by_target.get("", NOTHING)
        self._for_target = placed.by_target.get(target, NOTHING)
        self._for_driver = frozenset(
            rule
            for rule, row in placed.by_driver
            if (not row.targets or target in row.targets) and forbids(row, case.driver)
        )
        self._everywhere = frozenset(self._applying(placed.everywhere))

    @property
    def bad(self) -> Mapping[str, frozenset[int]]:
        """The rules about several places, and the places."""
        return self._placed.bad

    def of(self, place: int, number: int) -> tuple[Rules, Rules]:
        """Return the rules that an option breaks by itself, and those that it is one part of."""
        found = frozenset(self._applying(self._placed.at.get((place, number), ())))
        hits = frozenset(rule for rule in found if rule in self._placed.bad)
        breaks = found - hits if hits else found
        return breaks | self._everywhere if place == 0 else breaks, hits

    def _applying(self, rules: Iterable[str]) -> Iterator[str]:
        for rule in rules:
            if rule in self._for_all or rule in self._for_target or rule in self._for_driver:
                yield rule


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

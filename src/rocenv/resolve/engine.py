"""The search: over a finite product of parts, the best whole that breaks no rule, or why there is none.

A `Problem` has *roots* (say, the ROCm sets) and *slots* (say, the wheels of torch). A whole is one root
with one option of each slot. It breaks

- the rules that its parts break by themselves (`Option.breaks`),
- the joint rule of a slot whose option does not fit the root's key (`Slot.rule`),
- where all its parts fit together, the *bad combinations* whose conditions on the parts are all met.

An option that does not fit the root is thought of only where it meets a wish that none does which fits:
nobody means the archive for another release where there is one for this. A whole that breaks nothing fits.
Order: by the root's rank, then by that of the option of each slot in turn; ranks of one slot differ pairwise.
Where nothing fits, the sets of rules that wholes break are enough for everything else: a set of rules
explains the failure if every whole breaks one of them, and giving up a set of rules helps if some whole
breaks no others. Both are found without walking the whole product: options that break the same are one.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Rules = frozenset[str]
Whole = tuple["Option", ...]  # the root, then one option of each slot
NOTHING: Rules = frozenset()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Option:
    """One choice for a root or a slot."""

    part: Any
    rank: tuple[Any, ...] = ()
    breaks: Rules = NOTHING
    hits: Rules = NOTHING  # bad combinations whose conditions on this slot it meets
    keys: Mapping[str, Any] = field(default_factory=dict)  # of a root: what the options of each slot must fit
    fits: frozenset[Any] = frozenset()  # of an option: keys that it fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The options for one part, and the rule that an option breaks that does not fit the root's key."""

    name: str
    rule: str
    options: Sequence[Option]
    # The options that fit a key, where they can be had without asking each; else `Option.fits` is asked.
    joined: Callable[[Any], Iterable[Option]] | None = None
    # Ranks an option where that depends on what was chosen before; else `Option.rank` counts.
    rank: Callable[[Option, Whole], tuple[Any, ...]] | None = None


class Made(Sequence[Option]):
    """Options that are made when they are first looked at: most never are."""

    def __init__(self, count: int, make: Callable[[int], Option]) -> None:
        self._made: list[Option | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, number: Any) -> Any:
        option = self._made[number]
        if option is None:
            option = self._made[number] = self._make(number)
        return option


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What can be chosen, and which combinations are bad."""

    roots: tuple[Option, ...]
    slots: tuple[Slot, ...] = ()
    wishes: Rules = NOTHING  # the rules that are somebody's wish, and no fact
    # rule -> places it is about; 0 = the root
    bad: Mapping[str, frozenset[int]] = field(default_factory=dict)


class Search:
    """A problem with what has been found out about it so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._fitting: dict[tuple[int, Any], list[Option]] = {}  # by slot and key, best first
        self._groups: dict[tuple[int, Any], tuple[list[Option], Counter[Rules]]] = {}

    @cached_property
    def roots(self) -> list[Option]:
        """All roots, best first."""
        return sorted(self.problem.roots, key=_rank)

    @cached_property
    def _ranked(self) -> list[list[Option]]:
        """The options of each slot, best first."""
        return [sorted(slot.options, key=_rank) for slot in self.problem.slots]

    @cached_property
    def _counts(self) -> list[list[tuple[Rules, int]]]:
        """Of each slot what how many options break, those first that break least."""
        counts = [Counter(option.breaks for option in options) for options in self._ranked]
        return [sorted(each.items(), key=lambda item: len(item[0])) for each in counts]

    @cached_property
    def _least(self) -> list[list[tuple[Rules, int]]]:
        """Of each slot those counts whose rules hold no other's."""
        return [
            [(rules, count) for rules, count in counts if not any(other < rules for other, _ in counts)]
            for counts in self._counts
        ]

    @cached_property
    def _by_key(self) -> list[dict[Any, list[Option]]]:
        found: list[dict[Any, list[Option]]] = []
        for slot in self.problem.slots:
            index: dict[Any, list[Option]] = defaultdict(list)
            for option in () if slot.joined else slot.options:
                for key in option.fits:
                    index[key].append(option)
            found.append(index)
        return found

    def wholes(self) -> Iterator[Whole]:
        """Yield the best whole that fits of each root that has one, best first."""
        for root in sorted((root for root in self.problem.roots if not root.breaks), key=_rank):
            whole = self._complete((root,))
            if whole is not None:
                yield whole

    def broken(self) -> dict[Rules, Whole]:
        """Return the minimal sets of rules that wholes break, each with a whole that breaks just these."""
        found: dict[Rules, Whole] = {}
        for root in self.roots:
            for rules, whole in self._broken_by(root).items():
                found.setdefault(rules, whole)
        return _minimal(found)

    def best(self, allowed: Rules) -> Whole | None:
        """Return the best whole that breaks none but the allowed rules, of those whose parts fit together."""
        for root in self.roots:
            if root.breaks <= allowed:
                whole = self._complete((root,), allowed)
                if whole is not None:
                    return whole
        return None

    def rules_of(self, whole: Whole) -> Rules:
        """Return everything that a whole breaks."""
        root, *options = whole
        rules = frozenset().union(*(option.breaks for option in whole))
        apart = [
            slot.rule
            for slot, option in zip(self.problem.slots, options, strict=True)
            if root.keys.get(slot.name) not in option.fits
        ]
        return rules | frozenset(apart) if apart else rules | self._bad(whole)

    def _complete(self, chosen: Whole, allowed: Rules = NOTHING) -> Whole | None:
        place = len(chosen) - 1
        if place == len(self.problem.slots):
            return chosen if self._bad(chosen) <= allowed else None
        slot = self.problem.slots[place]
        options = [each for each in self._joined(chosen[0], place) if each.breaks <= allowed]
        if slot.rank is not None:
            rank = slot.rank
            options.sort(key=lambda option: rank(option, chosen))
        for option in options:
            whole = self._complete((*chosen, option), allowed)
            if whole is not None:
                return whole
        return None

    def _joined(self, root: Option, place: int) -> list[Option]:
        """Return the options that fit a root, best first."""
        slot = self.problem.slots[place]
        key = root.keys.get(slot.name)
        if (place, key) not in self._fitting:
            found = slot.joined(key) if slot.joined else self._by_key[place].get(key, ())
            self._fitting[place, key] = sorted(found, key=_rank)
        return self._fitting[place, key]

    def _bad(self, whole: Whole) -> Rules:
        """Return the bad combinations that a whole, or as much of it as is chosen, is one of."""
        met: dict[str, int] = defaultdict(int)
        for option in whole:
            for rule in option.hits:
                met[rule] += 1
        return frozenset(rule for rule, count in met.items() if count == len(self.problem.bad[rule]))

    def _broken_by(self, root: Option) -> dict[Rules, Whole]:
        """Return sets of rules that wholes of this root break, the minimal ones among them."""
        together: list[list[Option]] = []
        apart: list[list[Option]] = []
        for place in range(len(self.problem.slots)):
            joined, here = self._group(root, place)
            together.append(_distinct(joined, root.hits, self.problem.bad))
            apart.append(self._apart(root, place, here))
        found: dict[Rules, Whole] = {}
        for options in itertools.product(*together):
            whole = (root, *options)
            found.setdefault(self.rules_of(whole), whole)
        for place, strangers in enumerate(apart):
            others = [
                [*_distinct(one, NOTHING, {}), *two]  # a stranger breaks its slot's rule too: it outdoes none
                for other, (one, two) in enumerate(zip(together, apart, strict=True))
                if other != place
            ]
            for stranger in strangers:
                for rest in itertools.product(*others):
                    whole = (root, *rest[:place], stranger, *rest[place:])
                    found.setdefault(self.rules_of(whole), whole)
        return _minimal(found)

    def _group(self, root: Option, place: int) -> tuple[list[Option], Counter[Rules]]:
        """Return the options that fit a root and differ in what they break, and how many break what."""
        key = root.keys.get(self.problem.slots[place].name)
        if (place, key) not in self._groups:
            joined = self._joined(root, place)
            counts = Counter(option.breaks for option in joined)
            self._groups[place, key] = (_distinct(joined, None, self.problem.bad), counts)
        return self._groups[place, key]

    def _apart(self, root: Option, place: int, here: Counter[Rules]) -> list[Option]:
        """Return options that do not fit the root, one for each set of rules that such options break."""
        granted = {rules & self.problem.wishes for rules in here}
        if NOTHING in granted:
            return []
        wanted: set[Rules] = set()
        # Those that break least come first, and make the rest needless, unless one of them is not to be had.
        least, counts = self._least[place], self._counts[place]
        for rules, count in least if all(count > here[rules] for rules, count in least) else counts:
            if count > here[rules] and not any(other <= rules for other in itertools.chain(wanted, granted)):
                wanted.add(rules)
        found: dict[Rules, Option] = {}
        if not wanted:
            return []
        key = root.keys.get(self.problem.slots[place].name)
        for option in self._ranked[place]:
            if option.breaks in wanted and key not in option.fits:
                found.setdefault(option.breaks, option)
                if len(found) == len(wanted):
                    break
        return list(found.values())


def _rank(option: Option) -> tuple[Any, ...]:
    return option.rank


def explanation(broken: Mapping[Rules, Whole], keep: Sequence[str] = ()) -> tuple[str, ...]:
    """Return rules of which every whole breaks one, none of which could be left out; sorted.

    Args:
        broken: What wholes break, from `Search.broken`.
        keep: Rules to give up last, the last one at the very last: where several explanations are minimal,
        these
            are in the one returned.
    """
    place = {rule: number for number, rule in enumerate(keep)}
    rules = sorted(frozenset().union(*broken), key=lambda rule: (place.get(rule, -1), rule))
    needed = set(rules)
    for rule in rules:
        if all((needed - {rule}) & each for each in broken):
            needed.discard(rule)
    return tuple(sorted(needed))


def witnesses(broken: Mapping[Rules, Whole], rules: Sequence[str]) -> dict[str, Whole]:
    """Return for each rule of a minimal explanation a whole that breaks no other rule of it."""
    found: dict[str, Whole] = {}
    # One that breaks nothing else at all shows it best.
    for each, whole in sorted(broken.items(), key=lambda pair: len(pair[0])):
        both = each & frozenset(rules)
        if len(both) == 1:
            found.setdefault(next(iter(both)), whole)
    return found


def _distinct(
    options: Sequence[Option], of_root: Rules | None, bad: Mapping[str, frozenset[int]]
) -> list[Option]:
    """Return the first of the options that break and hit the same, without those that another one outdoes.

    Args:
        options: To choose from.
        of_root: What the root hits: without its part a combination cannot come about. None = as yet any root.
        bad: The bad combinations that count.
    """
    first: dict[tuple[Rules, Rules], Option] = {}
    for option in options:
        hits = NOTHING
        if option.hits and bad:
            hits = frozenset(
                rule for rule in option.hits if of_root is None or 0 not in bad[rule] or rule in of_root
            )
        first.setdefault((option.breaks, hits), option)
    kept: list[tuple[Rules, Rules]] = []
    for breaks, hits in sorted(first, key=lambda pair: len(pair[0]) + len(pair[1])):
        if not any(other <= breaks and others <= hits for other, others in kept):
            kept.append((breaks, hits))
    wanted = set(kept)
    return [option for pair, option in first.items() if pair in wanted]


def _minimal(found: Mapping[Rules, Whole]) -> dict[Rules, Whole]:
    """Return the entries whose rules hold no other entry's, the order kept."""
    kept: list[Rules] = []
    for rules in sorted(found, key=len):
        if not any(other <= rules for other in kept):
            kept.append(rules)
    wanted = set(kept)
    return {rules: whole for rules, whole in found.items() if rules in wanted}

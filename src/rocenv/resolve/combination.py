"""The search: filter all combinations of parts, keeping the reasons, and sort what is left.

A kind of set (`linux`, `zluda`, `windows`) enumerates its combinations: one choice for every part. Each names
the constraints that it breaks and its rank; one that breaks none fits. There are a few thousand at most, so
nothing is pruned.

Some constraints are requirements of the user (`REQUIREMENTS`) and can be dropped. The others are facts.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from rocenv.core.model import Machine, Rejection

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from rocenv.core.model import Request
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix
    from rocenv.resolve.candidate import Candidate

Constraints = frozenset[str]
NONE: Constraints = frozenset()

# What a user can ask for and give up, the least painful first.
REQUIREMENTS = ("channel", "python", "torch", "zluda", "rocm", "driver")

# Levels of support at which a release's libraries have kernels for a target.
SERVING = ("official", "deprecated", "libraries")

UNKNOWN_TARGET = "unknown target"  # broken by every combination for a target without a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, the matrix, and the machine that the set is for."""

    request: Request
    matrix: Matrix
    machine: Machine = field(default_factory=Machine)
    only_fitting: bool = False  # no explanation is needed, so combinations that do not fit may be left out

    @property
    def driver(self) -> str:
        """The driver asked for, else the machine's; "" = unknown."""
        return self.request.driver or self.machine.driver

    @property
    def unknown_target(self) -> Constraints:
        """What every combination breaks if the matrix does not know the target."""
        return frozenset([UNKNOWN_TARGET]) if self.unknown_targets else NONE

    @property
    def unknown_targets(self) -> list[str]:
        """The targets asked for that the matrix does not know."""
        known = self.matrix.targets
        return [each for each in self.request.targets if known and each not in known]


@dataclass(slots=True, kw_only=True, eq=False)
class Option:
    """One choice for a part, with the constraints that it breaks whatever it is combined with."""

    row: Any
    rank: tuple[Any, ...]
    broken: Constraints = NONE


NOTHING = Option(row=None, rank=())  # where a set needs no such part


@dataclass(slots=True, kw_only=True, eq=False)
class Combination:
    """One choice for every part of a set; the lowest rank is best."""

    root: object  # the ROCm part and how it serves the target: users see the best set of each
    parts: Any  # of the kind's own type
    rank: tuple[Any, ...]
    broken: Constraints


class Kind(Protocol):
    """A kind of set: a module with these functions."""

    def combinations(self, case: Case) -> Iterator[Combination]:
        """Yield every combination, with its rank and what it breaks."""
        ...

    def candidate(self, parts: Any, case: Case) -> Candidate:
        """Describe a set that fits, with the reasons and notes that users should see."""
        ...

    def rejection(self, constraint: str, parts: Any, case: Case) -> Rejection:
        """Word why a combination breaks a constraint, with the source of the fact."""
        ...


# Platform, and whether the request has ZLUDA -> the kind of set; imported on first use.
KINDS: Mapping[tuple[str, bool], str] = {
    ("linux", False): "rocenv.resolve.linux",
    ("windows", True): "rocenv.resolve.zluda",
    ("windows", False): "rocenv.resolve.windows",
}


def kind_of(request: Request) -> Kind:
    """Import the module of the kind of set that a request asks for."""
    kind: Any = importlib.import_module(KINDS[request.platform, bool(request.zluda)])
    found: Kind = kind
    return found


def best_of_each_root(combinations: Iterable[Combination]) -> list[Combination]:
    """Find the best combination of each root that breaks nothing, best first."""
    best: dict[int, Combination] = {}
    for each in combinations:
        key = id(each.root)
        if not each.broken and (key not in best or each.rank < best[key].rank):
            best[key] = each
    return sorted(best.values(), key=lambda each: each.rank)


def fitting(case: Case) -> list[Combination]:
    """Find the combinations that fit a request, best first; none if no kind of set is for such a request."""
    request = case.request
    if (request.platform, bool(request.zluda)) not in KINDS:
        return []
    return best_of_each_root(kind_of(request).combinations(replace(case, only_fitting=True)))


def choices(
    options: Sequence[Option], fitting: Container[Option], constraint: str
) -> Iterator[tuple[Option, Constraints]]:
    """Yield the options that somebody could mean, with the constraints that they break here.

    Nobody means an archive for another release while one for this release meets the same requirements: an
    option that does not fit counts only if it meets a requirement that no fitting one meets.

    Args:
        options: All options for a part.
        fitting: Those that go with the other parts.
        constraint: What the others break.
    """
    missed = {requirements(each.broken) for each in options if each in fitting}
    for each in options:
        if each in fitting:
            yield each, each.broken
        elif not any(every <= requirements(each.broken) for every in missed):
            yield each, each.broken | {constraint}


def rejected(row: Known, name: str, wanted: str, found: str, text: str = "") -> Rejection:
    """Word why a part is ruled out, by default because it is not what the user asked for."""
    text = text or f"You asked for {wanted}, which rules out {name}"
    return Rejection(component=name, requirement=wanted, found=found, source=row.source, text=text)


def unmet(**constraints: bool) -> Constraints:
    """Name the constraints that do not hold."""
    return frozenset(name for name, holds in constraints.items() if not holds)


def requirements(broken: Constraints) -> Constraints:
    """Keep the constraints that are requirements of the user."""
    return broken.intersection(REQUIREMENTS)


def requirement_behind(constraint: str) -> str:
    """The requirement that a constraint is, or depends on as in `driver: …`; "" for a fact."""
    name = constraint.partition(":")[0]
    return name if name in REQUIREMENTS else ""


def closest(combinations: Iterable[Combination]) -> dict[Constraints, Combination]:
    """Find the minimal sets of constraints that combinations break, and the best combination for each."""
    best: dict[Constraints, Combination] = {}
    for each in combinations:
        if each.broken not in best or each.rank < best[each.broken].rank:
            best[each.broken] = each
    return {broken: each for broken, each in best.items() if not any(other < broken for other in best)}


def explanation(broken: Iterable[Constraints]) -> list[str]:
    """Choose constraints of which every combination breaks one, none of which could be left out.

    Where several such lists exist, this one holds as many requirements as possible, since users can change
    those; an unknown target outweighs all.
    """
    sets = list(broken)
    last = (*REQUIREMENTS, UNKNOWN_TARGET)
    places = {name: place for place, name in enumerate(last)}
    needed = sorted(frozenset().union(*sets), key=lambda name: (places.get(name, -1), name))
    for name in list(needed):
        rest = set(needed) - {name}
        if all(rest & each for each in sets):
            needed.remove(name)
    return needed


def example(constraint: str, lines: Iterable[str], found: dict[Constraints, Combination]) -> Combination:
    """Find the combination that shows best why a line is needed: it breaks no other line."""
    others = frozenset(lines) - {constraint}
    shown = [each for broken, each in found.items() if constraint in broken and not others & broken]
    return min(shown, key=lambda each: (len(each.broken), each.rank))

"""Search: enumerate combinations, record why some do not work, and sort the others.

A kind of set (`linux`, `zluda`, `windows`) enumerates its combinations, with one choice per component.
Each combination lists its violated constraints and its rank; it works if it violates none. There are at most
a few thousand, so nothing is pruned.

Some constraints are the user's requirements (`REQUIREMENTS`), which can be dropped; the others are facts.
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

# The user's requirements, easiest to give up first.
REQUIREMENTS = ("channel", "python", "torch", "zluda", "rocm", "driver")

# Support levels at which the libraries have kernels for a target.
SERVING = ("official", "deprecated", "libraries")

UNKNOWN_TARGET = "unknown target"  # violated by every combination for an unknown target


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, the matrix, and the machine."""

    request: Request
    matrix: Matrix
    machine: Machine = field(default_factory=Machine)
    only_fitting: bool = False  # skip combinations that do not work, because no explanation is needed

    @property
    def driver(self) -> str:
        """The requested driver, or else the machine's; "" if unknown or on WSL, which has none."""
        if self.machine.wsl and self.request.platform == "linux":
            return ""
        return self.request.driver or self.machine.driver

    @property
    def unknown_target(self) -> Constraints:
        """The constraint that all combinations violate if a target is unknown."""
        return frozenset([UNKNOWN_TARGET]) if self.unknown_targets else NONE

    @property
    def unknown_targets(self) -> list[str]:
        """The requested targets that are not in the matrix."""
        known = self.matrix.targets
        return [each for each in self.request.targets if known and each not in known]


@dataclass(slots=True, kw_only=True, eq=False)
class Option:
    """A choice for one component, with the constraints that it violates on its own."""

    row: Any
    rank: tuple[Any, ...]
    broken: Constraints = NONE


NOTHING = Option(row=None, rank=())  # the option for a component that a set does not include


@dataclass(slots=True, kw_only=True, eq=False)
class Combination:
    """One choice for every component in a set; the lowest rank is best."""

    root: object  # the ROCm component and its support for the target; only the best set per root is shown
    parts: Any  # its type depends on the kind
    rank: tuple[Any, ...]
    broken: Constraints


class Kind(Protocol):
    """A kind of set: a module with these functions."""

    def combinations(self, case: Case) -> Iterator[Combination]:
        """Yield every combination with its rank and violated constraints."""
        ...

    def candidate(self, parts: Any, case: Case) -> Candidate:
        """Describe a working set with reasons and notes for users."""
        ...

    def rejection(self, constraint: str, parts: Any, case: Case) -> Rejection:
        """Explain how a combination violates a constraint, citing the source of the fact."""
        ...


# (platform, whether ZLUDA is requested) -> module that resolves the set, imported on demand.
KINDS: Mapping[tuple[str, bool], str] = {
    ("linux", False): "rocenv.resolve.linux",
    ("windows", True): "rocenv.resolve.zluda",
    ("windows", False): "rocenv.resolve.windows",
}


def kind_of(request: Request) -> Kind:
    """Import the module for the requested kind of set."""
    kind: Any = importlib.import_module(KINDS[request.platform, bool(request.zluda)])
    found: Kind = kind
    return found


def best_of_each_root(combinations: Iterable[Combination]) -> list[Combination]:
    """Return the best working combination for each root, best first."""
    best: dict[int, Combination] = {}
    for each in combinations:
        key = id(each.root)
        if not each.broken and (key not in best or each.rank < best[key].rank):
            best[key] = each
    return sorted(best.values(), key=lambda each: each.rank)


def fitting(case: Case) -> list[Combination]:
    """Find the working combinations, best first; none if no kind of set handles the request."""
    request = case.request
    if (request.platform, bool(request.zluda)) not in KINDS:
        return []
    return best_of_each_root(kind_of(request).combinations(replace(case, only_fitting=True)))


def choices(
    options: Sequence[Option], fitting: Container[Option], constraint: str
) -> Iterator[tuple[Option, Constraints]]:
    """Yield the relevant options with the constraints that they violate here.

    An incompatible option is relevant only if it satisfies a requirement that no compatible option satisfies.
    For example, an archive for a different release is useless if one for this release meets the same
    requirements.

    Args:
        options: All options for a component.
        fitting: The options that are compatible with the other components.
        constraint: The constraint that the other options violate.
    """
    missed = {requirements(each.broken) for each in options if each in fitting}
    for each in options:
        if each in fitting:
            yield each, each.broken
        elif not any(every <= requirements(each.broken) for every in missed):
            yield each, each.broken | {constraint}


def rejected(row: Known, name: str, wanted: str, found: str, text: str = "") -> Rejection:
    """Describe why a component is ruled out; by default, the user requested a different one."""
    text = text or f"You asked for {wanted}, which rules out {name}"
    return Rejection(component=name, requirement=wanted, found=found, source=row.source, text=text)


def unmet(**constraints: bool) -> Constraints:
    """Return the names of the violated constraints."""
    return frozenset(name for name, holds in constraints.items() if not holds)


def requirements(broken: Constraints) -> Constraints:
    """Keep the constraints that are user requirements."""
    return broken.intersection(REQUIREMENTS)


def requirement_behind(constraint: str) -> str:
    """Return the requirement behind a constraint (`driver` for `driver: …`), or "" for a fact."""
    name = constraint.partition(":")[0]
    return name if name in REQUIREMENTS else ""


def closest(combinations: Iterable[Combination]) -> dict[Constraints, Combination]:
    """Find the minimal sets of violated constraints, and the best combination for each."""
    best: dict[Constraints, Combination] = {}
    for each in combinations:
        if each.broken not in best or each.rank < best[each.broken].rank:
            best[each.broken] = each
    return {broken: each for broken, each in best.items() if not any(other < broken for other in best)}


def explanation(broken: Iterable[Constraints]) -> list[str]:
    """Choose a minimal list of constraints such that every combination violates at least one.

    If there are several lists, choose the one with the most requirements, because users can change those. An
    unknown target takes precedence over everything.
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
    """Find the best combination that violates `constraint` but none of the other `lines`."""
    others = frozenset(lines) - {constraint}
    shown = [each for broken, each in found.items() if constraint in broken and not others & broken]
    return min(shown, key=lambda each: (len(each.broken), each.rank))

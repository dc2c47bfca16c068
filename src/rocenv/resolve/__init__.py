"""Which sets of the matrix fit a request, best first, and why none does. Pure: no I/O, no clock.

There are three kinds of sets, siblings in a literal table: `linux`, `zluda` (Windows with ZLUDA) and
`windows` (ROCm itself). Each says what there is to choose from, in which order, and puts into words what a
set breaks; the search is the same for all (`engine`). The order of rows in the files means nothing.

Whether a channel can be reached is not known here: `plan` takes the first candidate that can be had, and says
which ones could not.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Machine, Rejection, Suggestion
from rocenv.core.versions import allows, newest_first, require_version, specifier
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import UNKNOWN, WISHES, Candidate, Case, Choice, describe, options, wish_of
from rocenv.resolve.engine import Search, explanation, witnesses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.model import Request
    from rocenv.data.rows import Matrix
    from rocenv.resolve.engine import Problem, Rules, Whole

__all__ = ["Candidate", "Choice", "describe", "options", "resolve"]


class Stack(Protocol):
    """A kind of sets: a module with these functions."""

    def problem(self, case: Case) -> Problem:
        """Return what there is to choose from."""
        ...

    def candidate(self, whole: Whole, case: Case) -> Candidate:
        """Return a whole that fits, with what should be said about it."""
        ...

    def reason(self, rule: str, whole: Whole, case: Case) -> Rejection:
        """Return in words why a whole breaks a rule, with the source of the fact."""
        ...

    def remarks(self, case: Case) -> tuple[str, ...]:
        """Return what is worth telling where nothing fits."""
        ...


# Platform, and whether ZLUDA is asked for -> the kind of sets; imported when it is needed.
STACKS: Mapping[tuple[str, bool], str] = {
    ("linux", False): "rocenv.resolve.linux",
    ("windows", True): "rocenv.resolve.zluda",
    ("windows", False): "rocenv.resolve.windows",
}


def resolve(request: Request, matrix: Matrix, machine: Machine | None = None) -> Iterator[Candidate]:
    """Return the sets that fit, best first; of each ROCm release and each way to use it the best.

    They are found as they are asked for, the first one at once.

    Raises:
        RocenvError: A wish is no SPEC; exit code 2.
        ResolutionImpossible: None fits; carries a minimal explanation, and commands that do resolve.
    """
    for name in ("rocm", "zluda", "torch", "python"):
        # A slip is told even where nothing depends on it.
        specifier(getattr(request, name) or "*", f"--{name}")
    if request.driver:
        require_version(request.driver, "--driver")
    case = Case(request=request, matrix=matrix, machine=machine or Machine())
    if (request.platform, bool(request.zluda)) not in STACKS:
        raise ResolutionImpossible(
            "ZLUDA is for Windows: on Linux torch has wheels for ROCm itself",
            suggestions=_suggestions_without_zluda(case),
        )
    stack = _stack(request)
    search = Search(stack.problem(case))
    found = (stack.candidate(whole, case) for whole in search.wholes())
    first = next(found, None)
    if first is None:
        raise _impossible(stack, search, case)
    return chain((first,), found)


def _stack(request: Request) -> Stack:
    stack: Stack = importlib.import_module(STACKS[request.platform, bool(request.zluda)])
    return stack


def _impossible(stack: Stack, search: Search, case: Case) -> ResolutionImpossible:
    broken = search.broken()
    rules = explanation(broken, keep=(*WISHES, UNKNOWN))
    proof = witnesses(broken, rules)
    ranked = sorted(rules, key=lambda rule: (_place(rule), rule))
    return ResolutionImpossible(
        f"no set fits {describe(case.request)}",
        rejections=tuple(
            _unknown(case)
            if rule == UNKNOWN
            else stack.reason(rule, search.best(frozenset([rule])) or proof[rule], case)
            for rule in ranked
        ),
        suggestions=_suggestions(broken, case),
        remarks=stack.remarks(case),
    )


def _place(rule: str) -> int:
    """Return where a line stands: facts first, then wishes."""
    return WISHES.index(rule) if rule in WISHES else -1


def _unknown(case: Case) -> Rejection:
    target = case.request.target
    newest = max((row.checked for row in case.matrix.targets.values()), default="")
    return Rejection(
        component=target,
        requirement="a target of the matrix",
        found=f"not among the {len(case.matrix.targets)} targets known on {newest}",
        source="profiles/targets.toml",
        text=(
            f"{target} is none of the {len(case.matrix.targets)} targets that this rocenv knows "
            f"(as of {newest}), so no release, wheel or library pack is known to be made for it"
        ),
    )


def _suggestions(broken: Mapping[Rules, Whole], case: Case) -> tuple[Suggestion, ...]:
    """Return commands that do resolve, best first: with as few wishes given up as can be."""
    sacrifices: dict[Rules, list[tuple[Rules, Whole]]] = {}
    for rules, whole in broken.items():
        if all(map(wish_of, rules)):
            sacrifices.setdefault(frozenset(map(wish_of, rules)), []).append((rules, whole))
    ordered = sorted(sacrifices, key=lambda wishes: (len(wishes), sorted(map(WISHES.index, wishes))))
    found = [suggestion for wishes in ordered for suggestion in _without(wishes, sacrifices[wishes], case)]
    if case.request.zluda:
        found += _suggestions_without_zluda(case)
    return tuple(dict.fromkeys(found))


def _without(wishes: Rules, wholes: Sequence[tuple[Rules, Whole]], case: Case) -> Iterator[Suggestion]:
    """Yield the best set without some wishes, each of them replaced by what the set has.

    Args:
        wishes: To be given up.
        wholes: That break these wishes and nothing else, with the rules that follow from them.
        case: The request.
    """
    request = case.request
    open_wishes = {
        name: "*" if name == "zluda" or (name == "torch" and request.torch) else ""
        for name in wishes
        if name != "driver"
    }
    relaxed = replace(request, **open_wishes)
    for driver in _other_drivers(wholes, case) if "driver" in wishes else (request.driver,):
        best = _best(replace(relaxed, driver=driver), case)
        if best is None:
            continue
        exact = {name: version for name, version in best.versions if name in wishes}
        command = replace(relaxed, driver=driver, **exact)
        again = _best(command, case)
        if again is not None:
            yield _suggestion(command, again, case)
        return


def _other_drivers(wholes: Sequence[tuple[Rules, Whole]], case: Case) -> list[str]:
    """Return display drivers that rows tell from the one there is, the newest of each kind.

    Those with which one of the wholes would do come first, the newest first among them and among the others.
    """
    matrix = case.matrix
    against = {verdicts.rule_of(row): row.driver for row in matrix.verdict if row.driver}

    def helps(driver: str) -> bool:
        return any(
            all(allows(part.driver, driver) for part in _with_drivers(whole))
            and not any(allows(against[rule], driver) for rule in rules if rule in against)
            for rules, whole in wholes
        )

    ranges = sorted(
        {row.driver for rows in (matrix.zluda, matrix.verdict, matrix.rocm_wheels) for row in rows} - {""}
    )
    kinds = {tuple(allows(each, case.driver) for each in ranges)}
    found = []
    for version in sorted((row.version for row in matrix.display_driver), key=newest_first):
        kind = tuple(allows(each, version) for each in ranges)
        if kind not in kinds:
            kinds.add(kind)
            found.append(version)
    return sorted(found, key=lambda version: not helps(version))


def _with_drivers(whole: Whole) -> list[Any]:
    """Return the parts of a whole that need a certain display driver."""
    parts = [getattr(option.part, "build", option.part) for option in whole]
    return [part for part in parts if getattr(part, "driver", "")]


def _suggestions_without_zluda(case: Case) -> tuple[Suggestion, ...]:
    request = replace(case.request, zluda="", rocm="", torch="*" if case.request.torch else "")
    best = _best(request, case)
    if best is None:
        return ()
    return (_suggestion(request, best, case),)


def _suggestion(request: Request, found: Candidate, case: Case) -> Suggestion:
    command = f"rocenv resolve {options(request, case.machine.platform)}"
    return Suggestion(command=command, components=found.versions)


def _best(request: Request, case: Case) -> Candidate | None:
    stack = _stack(request)
    other = replace(case, request=request)
    whole = next(Search(stack.problem(other)).wholes(), None)
    return None if whole is None else stack.candidate(whole, other)

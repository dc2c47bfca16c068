"""The search on random abstract problems: the best whole, and the smallest reasons why there is none."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from rocenv.core.model import Machine
from rocenv.resolve import linux, windows, zluda
from rocenv.resolve.candidate import UNKNOWN, WISHES, Case
from rocenv.resolve.engine import Option, Problem, Search, Slot, explanation, witnesses
from tests.resolve import matrices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.resolve.engine import Rules, Whole

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
quick = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
at_length = settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)

# ---------------------------------------------------------------- the same, plainly


def strangers(whole: Whole, problem: Problem) -> list[int]:
    """The slots whose option does not fit the root."""
    root, *options = whole
    return [
        place
        for place, (slot, option) in enumerate(zip(problem.slots, options, strict=True))
        if root.keys.get(slot.name) not in option.fits
    ]


def rules_of(whole: Whole, problem: Problem) -> Rules:
    """What a whole breaks."""
    broken = set().union(*(option.breaks for option in whole))
    apart = strangers(whole, problem)
    if not apart:
        broken |= {
            rule
            for rule, places in problem.bad.items()
            if all(place < len(whole) and rule in whole[place].hits for place in places)
        }
    return frozenset(broken | {problem.slots[place].rule for place in apart})


def conceivable(whole: Whole, problem: Problem) -> bool:
    """Whether somebody could mean a whole: one takes a part for another root only for a wish."""
    root = whole[0]
    for place in strangers(whole, problem):
        slot, stranger = problem.slots[place], whole[place + 1]
        for other in slot.options:
            fits = root.keys.get(slot.name) in other.fits
            if fits and (other.breaks & problem.wishes) <= stranger.breaks:
                return False
    return True


def wholes_of(problem: Problem) -> Iterator[Whole]:
    yield from itertools.product(problem.roots, *(slot.options for slot in problem.slots))


def ranks_of(whole: Whole) -> tuple[Any, ...]:
    return tuple(option.rank for option in whole)


def best_of_each_root(problem: Problem) -> list[Whole]:
    fitting = sorted((whole for whole in wholes_of(problem) if not rules_of(whole, problem)), key=ranks_of)
    first: dict[int, Whole] = {}
    for whole in fitting:
        first.setdefault(id(whole[0]), whole)
    return list(first.values())


def minimal(found: set[Rules]) -> set[Rules]:
    return {rules for rules in found if not any(other < rules for other in found)}


# ---------------------------------------------------------------- random problems

KEYS = ("a", "b")
WISHED = ("wish 1", "wish 2")
FACTS = ("fact 1", "fact 2")
BAD = ("bad 1", "bad 2")


def subset(pool: tuple[str, ...], most: int = 2) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(pool), max_size=most) if pool else st.just(frozenset())


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(0, 3))
    names = tuple(f"slot {number}" for number in range(count))
    places = tuple(range(count + 1))
    bad = {
        rule: draw(st.frozensets(st.sampled_from(places), min_size=2, max_size=3))
        for rule in BAD[: draw(st.integers(0, 2)) if count else 0]
    }

    def options(place: int, most: int) -> tuple[Option, ...]:
        could_hit = tuple(rule for rule, where in bad.items() if place in where)
        return tuple(
            Option(
                part=number,
                rank=(rank,),
                breaks=draw(subset((*WISHED, *FACTS))),
                hits=draw(subset(could_hit)),
                keys={name: draw(st.sampled_from(KEYS)) for name in names} if place == 0 else {},
                fits=draw(subset(KEYS)) if place else frozenset(),
            )
            for number, rank in enumerate(draw(st.permutations(range(draw(st.integers(0, most))))))
        )

    return Problem(
        roots=options(0, 3),
        slots=tuple(
            Slot(name=name, rule=f"fit {name}", options=options(place, 4))
            for place, name in enumerate(names, start=1)
        ),
        wishes=frozenset(WISHED),
        bad=bad,
    )


# ---------------------------------------------------------------- the properties


def check_search(problem: Problem) -> None:
    search = Search(problem)
    assert list(search.wholes()) == best_of_each_root(problem)
    for whole in wholes_of(problem):
        assert search.rules_of(whole) == rules_of(whole, problem)


def check_explanation(problem: Problem, keep: tuple[str, ...] = WISHED) -> None:
    """Every whole that could be meant breaks a line; without any one line, some whole breaks none."""
    meant = {rules_of(whole, problem) for whole in wholes_of(problem) if conceivable(whole, problem)}
    if not meant or frozenset() in meant:
        return
    event("impossible")
    broken = Search(problem).broken()
    assert set(broken) == minimal(meant)
    for rules, whole in broken.items():
        assert rules_of(whole, problem) == rules
    lines = explanation(broken, keep=keep)
    assert all(rules & set(lines) for rules in meant)
    for line in lines:
        assert any(rules & set(lines) == {line} for rules in meant), f"{line} could be left out"
    proof = witnesses(broken, lines)
    assert set(proof) == set(lines)
    for line, whole in proof.items():
        assert rules_of(whole, problem) & set(lines) == {line}


@quick
@given(problem=problems())
def test_search(problem: Problem) -> None:
    check_search(problem)


@quick
@given(problem=problems())
def test_explanation(problem: Problem) -> None:
    check_explanation(problem)


@pytest.mark.slow
@at_length
@given(problem=problems())
def test_at_length(problem: Problem) -> None:
    check_search(problem)
    check_explanation(problem)


STACKS: dict[str, tuple[Any, Any]] = {
    "linux": (linux, matrices.linux_requests),
    "zluda": (zluda, matrices.zluda_requests),
    "windows": (windows, matrices.windows_requests),
}


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_explanations_of_the_stacks(stack: str, data: st.DataObject) -> None:
    """The lines that people read are minimal too: of the problems that the matrices make."""
    module, requests = STACKS[stack]
    case = Case(request=data.draw(requests), matrix=data.draw(matrices.matrices), machine=Machine())
    check_explanation(module.problem(case), keep=(*WISHES, UNKNOWN))


# ---------------------------------------------------------------- by example


def option(name: str, *breaks: str, fits: str = "", key: str = "", rank: int = 0) -> Option:
    return Option(
        part=name,
        rank=(rank,),
        breaks=frozenset(breaks),
        keys={"wheel": key},
        fits=frozenset(fits.split()),
    )


def problem_of(roots: list[Option], wheels: list[Option]) -> Problem:
    slot = Slot(name="wheel", rule="no wheel", options=tuple(wheels))
    return Problem(roots=tuple(roots), slots=(slot,), wishes=frozenset(["old wheel", "new root"]))


def test_nobody_means_a_part_for_another_root_where_there_is_one_for_this() -> None:
    problem = problem_of(
        [option("root", "new root", key="a")], [option("mine", fits="a"), option("other", fits="b")]
    )
    assert set(Search(problem).broken()) == {frozenset(["new root"])}


def test_a_wish_can_be_meant_for_another_root() -> None:
    problem = problem_of(
        [option("root", key="a")], [option("mine", "old wheel", fits="a"), option("wished", fits="b")]
    )
    assert set(Search(problem).broken()) == {frozenset(["old wheel"]), frozenset(["no wheel"])}


def test_facts_are_told_before_wishes() -> None:
    """Where a fact and a wish would each be reason enough, the wish is what can be given up: it is told."""
    broken = {frozenset(["a fact", "a wish"]): ()}
    assert explanation(broken, keep=["a wish"]) == ("a wish",)
    assert explanation(broken, keep=["a fact"]) == ("a fact",)


def test_ranks_that_depend_on_what_was_chosen() -> None:
    wheels = Slot(
        name="wheel",
        rule="no wheel",
        options=tuple(option(name, fits="a", rank=number) for number, name in enumerate("xy")),
        rank=lambda each, chosen: (each.part != chosen[0].part,),
    )
    problem = Problem(roots=(option("y", key="a", rank=1), option("x", key="a", rank=2)), slots=(wheels,))
    found = [[each.part for each in whole] for whole in Search(problem).wholes()]
    assert found == [["y", "y"], ["x", "x"]]


def test_the_best_is_found_without_the_rest() -> None:
    """A thousand wheels in each of three slots: a walk through all combinations would never end."""
    slots = tuple(
        Slot(
            name=f"wheel {place}",
            rule="no wheel",
            options=tuple(option(str(number), rank=number) for number in range(1000)),
        )
        for place in range(3)
    )
    slots = tuple(
        Slot(
            name=slot.name,
            rule=slot.rule,
            options=tuple(
                Option(part=each.part, rank=each.rank, fits=frozenset([None])) for each in slot.options
            ),
        )
        for slot in slots
    )
    whole = next(Search(Problem(roots=(Option(part="root"),), slots=slots)).wholes())
    assert [each.part for each in whole] == ["root", "0", "0", "0"]

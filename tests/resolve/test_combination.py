"""Filtering, sorting and explaining combinations, both random abstract ones and real sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from rocenv.resolve.combination import (
    REQUIREMENTS,
    UNKNOWN_TARGET,
    Case,
    Combination,
    Constraints,
    Option,
    best_of_each_root,
    choices,
    closest,
    example,
    explanation,
    kind_of,
    requirements,
)
from tests.resolve import matrices

if TYPE_CHECKING:
    from rocenv.core.model import Request

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
quick = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)

ROOTS = tuple(object() for _ in range(3))
NAMES = ("rocm", "torch", "driver", "fact 1", "fact 2", "verdict: x", UNKNOWN_TARGET)
constraints = st.frozensets(st.sampled_from(NAMES), max_size=4)
combinations = st.lists(
    st.builds(
        lambda root, rank, broken: Combination(root=ROOTS[root], parts=None, rank=(rank,), broken=broken),
        st.integers(0, 2),
        st.integers(0, 9),
        constraints,
    ),
    max_size=12,
)


@quick
@given(found=combinations)
def test_the_best_working_combination_is_found_for_each_root(found: list[Combination]) -> None:
    best = best_of_each_root(found)
    fitting = [each for each in found if not each.broken]
    assert {id(each.root) for each in best} == {id(each.root) for each in fitting}
    assert len(best) == len({id(each.root) for each in best})
    assert [each.rank for each in best] == sorted(each.rank for each in best)
    for each in best:
        assert each in fitting
        assert each.rank == min(other.rank for other in fitting if other.root is each.root)


@quick
@given(found=combinations)
def test_the_closest_combination_is_kept_for_each_minimal_set_of_violations(found: list[Combination]) -> None:
    """Of the combinations with the same violations, the best one is kept."""
    every = {each.broken for each in found}
    near = closest(found)
    assert set(near) == {each for each in every if not any(other < each for other in every)}
    for broken, each in near.items():
        assert each.broken == broken
        assert each.rank == min(other.rank for other in found if other.broken == broken)


def check_explanation(found: list[Combination]) -> None:
    """Assert that every combination violates a line, and that no line can be removed."""
    if not found or not all(each.broken for each in found):
        return
    event("impossible")
    near = closest(found)
    lines = explanation(near)
    assert all(each.broken & set(lines) for each in found)
    for line in lines:
        shown = example(line, lines, near)
        assert shown in found
        assert shown.broken & set(lines) == {line}, f"{line} could be left out"


@quick
@given(found=combinations)
def test_explanations_are_minimal(found: list[Combination]) -> None:
    check_explanation(found)


KINDS: dict[str, Any] = {
    "linux": matrices.linux_requests,
    "zluda": matrices.zluda_requests,
    "windows": matrices.windows_requests,
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_explanations_of_impossible_sets_are_minimal(kind: str, data: st.DataObject) -> None:
    """The lines that users see, for combinations from random matrices."""
    request: Request = data.draw(KINDS[kind])
    case = Case(request=request, matrix=data.draw(matrices.matrices))
    check_explanation(list(kind_of(request).combinations(case)))


def lines(*found: set[str]) -> list[str]:
    return explanation(map(frozenset, found))


def test_explanations_prefer_requirements_to_facts() -> None:
    """Users can change requirements but not facts."""
    assert lines({"a fact", "rocm"}) == ["rocm"]
    assert lines({"a fact", "channel", "driver"}) == ["driver"]
    assert lines({"rocm", UNKNOWN_TARGET}) == [UNKNOWN_TARGET]
    assert lines({"a fact"}, {"rocm"}, {"torch", "a fact"}) == ["a fact", "rocm"]


# ---------------------------------------------------------------- mismatched options


def option(name: str, *broken: str) -> Option:
    return Option(row=name, rank=(), broken=frozenset(broken))


def meant(options: list[Option], fitting: list[Option]) -> dict[str, Constraints]:
    return {each.row: broken for each, broken in choices(options, fitting, "misfit")}


def test_options_for_other_releases_are_dropped_if_an_option_for_this_release_works() -> None:
    mine, other = option("mine"), option("other")
    assert meant([mine, other], [mine]) == {"mine": frozenset()}


def test_options_for_other_releases_are_kept_if_they_meet_more_requirements() -> None:
    mine, wanted = option("mine", "torch"), option("wanted", "a fact")
    found = meant([mine, wanted], [mine])
    assert found == {"mine": {"torch"}, "wanted": {"a fact", "misfit"}}


@quick
@given(
    broken=st.lists(st.frozensets(st.sampled_from((*REQUIREMENTS[:3], "a fact"))), max_size=6),
    data=st.data(),
)
def test_mismatched_options_are_kept_only_if_they_meet_more_requirements(
    broken: list[Constraints], data: st.DataObject
) -> None:
    options = [option(str(number), *each) for number, each in enumerate(broken)]
    fitting = [each for each in options if data.draw(st.booleans())]
    found = meant(options, fitting)
    for each in options:
        if each in fitting:
            assert found[each.row] == each.broken
            continue
        outdone = any(requirements(other.broken) <= requirements(each.broken) for other in fitting)
        assert (each.row in found) is not outdone
        assert outdone or found[each.row] == each.broken | {"misfit"}

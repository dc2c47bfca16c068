"""The dependency closure, compared with an oracle that tries every combination."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.core.errors import NotAvailable
from rocenv.sources.apt.closure import closure, demands_on
from rocenv.sources.apt.control import Clause, Package, Relation, parse_clauses
from rocenv.sources.apt.version import satisfies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

NAMES = ("a", "b", "c", "d", "e")
VIRTUAL = ("v", "w")


@dataclass
class PackageList:
    """An in-memory index that fails the test if a search does not end."""

    packages: Sequence[Package]
    questions: int = field(default=0)

    def named(self, name: str) -> list[Package]:
        self.questions += 1
        assert self.questions < 20_000, "the search does not end"
        return [package for package in self.packages if package.name == name]

    def providing(self, name: str) -> list[Package]:
        return [each for each in self.packages if any(found.name == name for found in each.provides)]


def package(name: str, version: str = "1", **fields: str) -> Package:
    return Package(
        name=name,
        version=version,
        depends=parse_clauses(fields.get("depends", "")),
        conflicts=tuple(clause[0] for clause in parse_clauses(fields.get("conflicts", ""))),
        provides=tuple(clause[0] for clause in parse_clauses(fields.get("provides", ""))),
    )


def found(roots: str, *packages: Package, keep_out: Sequence[str] = ()) -> list[str]:
    return [str(each) for each in closure(parse_clauses(roots), [PackageList(packages)], keep_out)]


# ---------------------------------------------------------------- the oracle

versions = st.sampled_from(["1", "2"])
bounds = st.one_of(
    st.just(("", "")),
    st.tuples(st.sampled_from(["<<", "<=", "=", ">=", ">>"]), versions),
)
relations = st.builds(lambda name, bound: Relation(name, *bound), st.sampled_from(NAMES + VIRTUAL), bounds)
clauses = st.lists(relations, min_size=1, max_size=2).map(tuple)
provided = st.builds(
    lambda name, version: Relation(name, "=" if version else "", version),
    st.sampled_from(VIRTUAL + NAMES[:2]),
    st.sampled_from(["", "1", "2"]),
)
packages = st.builds(
    lambda name, version, depends, conflicts, provides: Package(
        name=name,
        version=version,
        depends=tuple(depends),
        conflicts=tuple(conflicts),
        provides=tuple(provides),
    ),
    st.sampled_from(NAMES),
    versions,
    st.lists(clauses, max_size=3),
    st.lists(relations, max_size=1),
    st.lists(provided, max_size=1),
)
universes = st.lists(packages, max_size=9, unique_by=lambda each: (each.name, each.version))
wishes = st.lists(clauses, min_size=1, max_size=2).map(tuple)
patterns = st.lists(st.sampled_from(["d", "[e]*", "w", "[de]"]), max_size=1).map(tuple)
exceptions = st.lists(st.sampled_from(["d", "e", "w"]), max_size=1).map(tuple)


def meets(one: Package, relation: Relation) -> bool:
    """Policy 7.5: a virtual package satisfies a bound only if it provides a version."""
    if one.name == relation.name and (
        not relation.operator or satisfies(one.version, relation.operator, relation.version)
    ):
        return True
    return any(
        provides.name == relation.name
        and (
            not relation.operator
            or (bool(provides.version) and satisfies(provides.version, relation.operator, relation.version))
        )
        for provides in one.provides
    )


def is_valid(
    chosen: Sequence[Package], roots: Sequence[Clause], keep_out: Sequence[str], keep_in: Sequence[str]
) -> bool:
    """Whether a choice of packages is complete and free of conflicts."""

    def kept_out(name: str) -> bool:
        return name not in keep_in and any(fnmatchcase(name, pattern) for pattern in keep_out)

    needs = [*roots, *(clause for each in chosen for clause in each.depends)]
    return (
        not any(kept_out(each.name) for each in chosen)
        and all(
            any(kept_out(relation.name) for relation in clause)
            or any(meets(each, relation) for relation in clause for each in chosen)
            for clause in needs
        )
        and not any(
            one is not other and meets(other, against)
            for one in chosen
            for other in chosen
            for against in one.conflicts
        )
    )


def choices(universe: Sequence[Package]) -> Iterable[list[Package]]:
    by_name = [[None, *(each for each in universe if each.name == name)] for name in NAMES]
    for choice in itertools.product(*by_name):
        yield [each for each in choice if each is not None]


@settings(max_examples=300, deadline=None)
@given(universe=universes, roots=wishes, keep_out=patterns, keep_in=exceptions)
def test_the_search_finds_a_set_if_and_only_if_one_exists(
    universe: list[Package], roots: tuple[Clause, ...], keep_out: tuple[str, ...], keep_in: tuple[str, ...]
) -> None:
    possible = any(is_valid(choice, roots, keep_out, keep_in) for choice in choices(universe))
    try:
        chosen = closure(roots, [PackageList(universe)], keep_out, keep_in)
    except NotAvailable as error:
        assert not possible
        assert "is not available" in str(error)
        return
    assert is_valid(chosen, roots, keep_out, keep_in)
    needs = [*roots, *(clause for each in chosen for clause in each.depends)]
    for each in chosen:
        assert any(meets(each, relation) for clause in needs for relation in clause), f"nobody needs {each}"


@settings(max_examples=100, deadline=None)
@given(universe=universes, roots=wishes, mixer=st.randoms(use_true_random=False))
def test_the_order_of_the_index_does_not_matter(
    universe: list[Package], roots: tuple[Clause, ...], mixer: Random
) -> None:
    def outcome(packages: list[Package]) -> object:
        try:
            return closure(roots, [PackageList(packages)], ())
        except NotAvailable as error:
            return str(error)

    shuffled = list(universe)
    mixer.shuffle(shuffled)
    assert outcome(shuffled) == outcome(universe)


# ---------------------------------------------------------------- preferences and errors


def test_the_newest_allowed_version_is_selected() -> None:
    assert found("a (<< 3)", package("a", "1"), package("a", "10"), package("a", "2")) == ["a 2"]


def test_the_first_alternative_in_a_dependency_is_preferred() -> None:
    assert found("b | a", package("a"), package("b")) == ["b 1"]


def test_an_alternative_that_is_already_selected_is_preferred() -> None:
    assert found("c, x", package("x", depends="b | c"), package("b"), package("c")) == ["c 1", "x 1"]


def test_a_real_package_is_preferred_to_a_virtual_one() -> None:
    assert found("a", package("z", "9", provides="a"), package("a")) == ["a 1"]


def test_only_a_provided_version_satisfies_a_version_bound() -> None:
    """Neither the provider's own version nor an unversioned `Provides` satisfies the bound."""
    offered = (package("a", "3", provides="v (= 1)"), package("b", provides="v"))
    assert found("v (>= 2)", *offered, package("c", provides="v (= 2)")) == ["c 1"]
    with pytest.raises(NotAvailable):
        found("v (>= 2)", *offered)


def test_equally_good_providers_are_ordered_by_name() -> None:
    providers = [package("p", provides="v"), package("q", provides="v")]
    assert found("v", *providers) == found("v", *reversed(providers)) == ["p 1"]


def test_the_first_repository_takes_precedence_over_a_newer_version_in_the_second() -> None:
    first, second = PackageList([package("a", "1")]), PackageList([package("a", "2")])
    assert [str(each) for each in closure(parse_clauses("a"), [first, second], ())] == ["a 1"]
    assert [str(each) for each in closure(parse_clauses("a (>= 2)"), [first, second], ())] == ["a 2"]


def test_the_search_backtracks() -> None:
    packages = (
        package("a", "2", depends="b, missing"),
        package("a", "1", depends="b"),
        package("b", "2", conflicts="c"),
        package("b", "1"),
        package("c"),
    )
    assert found("a, c", *packages) == ["a 1", "b 1", "c 1"]


def test_a_dependency_cycle_resolves() -> None:
    assert found("a", package("a", depends="b"), package("b", depends="a (>= 1)")) == ["a 1", "b 1"]


def test_a_package_can_conflict_with_a_name_that_it_provides() -> None:
    assert found("a", package("a", provides="mta", conflicts="mta")) == ["a 1"]


def test_dependencies_on_excluded_packages_are_satisfied() -> None:
    perl = package("perl", depends="missing")
    assert found(
        "a", package("a", depends="perl (>= 5), debconf | cdebconf"), perl, keep_out=["perl*", "debconf*"]
    ) == ["a 1"]


def test_requested_packages_are_not_excluded() -> None:
    """Blender embeds Python, so an env needs Python modules, but not Python or its dependencies."""
    modules = package("python3-numpy", depends="python3, libblas3")
    index = PackageList([package("blender"), modules, package("python3"), package("libblas3")])
    roots = parse_clauses("blender, python3-numpy")
    chosen = closure(roots, [index], ["python3*"], ["blender", "python3-numpy"])
    assert [each.name for each in chosen] == ["blender", "libblas3", "python3-numpy"]
    assert [each.name for each in closure(roots, [index], ["python3*"])] == ["blender"]


def test_an_excluded_package_is_not_installed_through_a_name_that_it_provides() -> None:
    with pytest.raises(NotAvailable, match="mta"):
        found("mta", package("perl-mta", provides="mta"), keep_out=["perl*"])


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        ("a", "`missing (>= 2)`, required by c 1, is not available: the index has no such package"),
        ("b", "`d (>= 3)`, required by b 1, is not available: the index has d 1, d 2"),
        ("nothing", "`nothing`, required by the set itself, is not available: the index has no such package"),
    ],
)
def test_the_error_shows_the_dependency_and_its_package(roots: str, said: str) -> None:
    shelf = (
        package("a", depends="c"),
        package("c", depends="missing (>= 2)"),
        package("b", depends="d (>= 3)"),
        package("d", "1"),
        package("d", "2"),
    )
    with pytest.raises(NotAvailable) as caught:
        found(roots, *shelf)
    assert str(caught.value) == said


@pytest.mark.parametrize("depth", [1, 3])
def test_the_search_fails_quickly_for_an_unsatisfiable_dependency(depth: int) -> None:
    """There are thirty packages with two versions each; trying all combinations would take years."""
    free = [package(f"x{number}", version) for number in range(30) for version in "12"]
    chain = [
        package(f"y{number}", version, depends=f"y{number + 1}")
        for number in range(depth)
        for version in "12"
    ]
    wanted = ", ".join(f"x{number}" for number in range(30))
    with pytest.raises(NotAvailable, match=f"`y{depth}`"):
        found(f"{wanted}, y0", *free, *chain)


def test_demands_on_returns_the_lower_bounds_of_all_dependencies() -> None:
    needing = (
        package("a", depends="libc6 (>= 2.34)"),
        package("b", depends="libc6 (>> 2.38) | musl, libc6 (<< 3)"),
        package("c", depends="libc6 (= 2.36-9), libcc (>= 9)"),
    )
    assert sorted(demands_on(needing, "libc6")) == ["2.34", "2.36-9", "2.38"]

"""Compute the dependency closure of packages, deterministically and without side effects.

A depth-first search with backtracking finds a set if one exists. It prefers, in this order: packages that are
already chosen; the packager's first alternative; real packages over virtual packages; the first repository;
the newest version; and the alphabetically first name.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rocenv.core.errors import NotAvailable
from rocenv.sources.apt.version import satisfies, version_key

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rocenv.sources.apt.control import Clause, Package, Relation

    _Want = tuple[Clause, Package | None]  # a dependency, and the package that declares it, if any


class Index(Protocol):
    """A repository's packages."""

    def named(self, name: str) -> Sequence[Package]:
        """List the packages with this name."""
        ...

    def providing(self, name: str) -> Sequence[Package]:
        """List packages with other names that provide this name."""
        ...


@dataclass(slots=True)
class _Search:
    indices: Sequence[Index]
    keep_out: tuple[str, ...]
    keep_in: frozenset[str] = frozenset()
    chosen: dict[str, Package] = field(default_factory=dict)
    # Packages that cannot be installed, whatever else is chosen.
    hopeless: set[Package] = field(default_factory=set)
    blame: str = ""
    deepest: int = -1


def closure(
    roots: Sequence[Clause],
    indices: Sequence[Index],
    keep_out: Sequence[str],
    keep_in: Collection[str] = (),
) -> tuple[Package, ...]:
    """Choose the packages that `roots` need, including themselves, sorted by name.

    Args:
        roots: The requested packages.
        indices: The repositories to search, in order of preference.
        keep_out: Name patterns of packages that prefixes do not need; dependencies on them are treated as
          satisfied.
        keep_in: Names of packages that are never excluded.

    Raises:
        NotAvailable: Some dependencies cannot be satisfied.
    """
    search = _Search(indices, tuple(keep_out), frozenset(keep_in))
    wanted: tuple[_Want, ...] = tuple((clause, None) for clause in roots)
    if not _solve(search, wanted):
        raise NotAvailable(search.blame)
    return tuple(search.chosen[name] for name in sorted(search.chosen))


def demands_on(packages: Sequence[Package], name: str) -> tuple[str, ...]:
    """List the minimum versions of `name` that `packages` require, unsorted."""
    return tuple(
        relation.version
        for package in packages
        for clause in package.depends
        for relation in clause
        if relation.name == name and relation.operator in (">=", ">>", "=")
    )


def _solve(search: _Search, wanted: tuple[_Want, ...]) -> bool:
    """Satisfy all wanted clauses; if this returns False, `search.chosen` is unchanged."""
    position = 0
    while position < len(wanted):
        clause, _ = wanted[position]
        if not _kept_out(clause, search) and not _met(clause, search.chosen):
            break
        position += 1
    else:
        return True
    clause, whose = wanted[position]
    offered = _offered(clause, search)
    for package in offered:
        if package in search.hopeless or not _fits(package, search.chosen):
            continue
        search.chosen[package.name] = package
        needs = tuple((need, package) for need in package.depends)
        if _solve(search, needs + wanted[position + 1 :]):
            return True
        del search.chosen[package.name]
        if not search.hopeless.isdisjoint(search.chosen.values()):
            return False
    if len(search.chosen) > search.deepest:
        search.deepest = len(search.chosen)
        search.blame = _why_not(clause, whose, search)
    if search.hopeless.issuperset(offered):
        # No other choice for earlier packages can help, so stop trying them.
        if whose is None:
            raise NotAvailable(search.blame)
        search.hopeless.add(whose)
    return False


def _kept_out(clause: Clause, search: _Search) -> bool:
    return any(_is_excluded(relation.name, search) for relation in clause)


def _is_excluded(name: str, search: _Search) -> bool:
    return name not in search.keep_in and any(
        fnmatch.fnmatchcase(name, pattern) for pattern in search.keep_out
    )


def _met(clause: Clause, chosen: dict[str, Package]) -> bool:
    return any(_meets(package, relation) for relation in clause for package in chosen.values())


def _meets(package: Package, relation: Relation) -> bool:
    if package.name == relation.name and satisfies(package.version, relation.operator, relation.version):
        return True
    for provided in package.provides:
        if provided.name != relation.name:
            continue
        # A name that is provided without a version satisfies only unversioned relations.
        if relation.operator == "":
            return True
        if provided.operator == "=" and satisfies(provided.version, relation.operator, relation.version):
            return True
    return False


def _offered(clause: Clause, search: _Search) -> list[Package]:
    """List packages that satisfy a clause and could be chosen, most preferred first."""
    return [
        package
        for relation in clause
        for packages in (
            *(index.named(relation.name) for index in search.indices),
            *(index.providing(relation.name) for index in search.indices),
        )
        for package in _in_order(packages)
        if _meets(package, relation)
        and package not in search.hopeless
        and not _is_excluded(package.name, search)
    ]


def _in_order(packages: Sequence[Package]) -> list[Package]:
    by_name = sorted(packages, key=lambda package: (package.name, package.sha256))
    return sorted(by_name, key=lambda package: version_key(package.version), reverse=True)


def _fits(package: Package, chosen: dict[str, Package]) -> bool:
    """Whether a package is compatible with the chosen packages."""
    if package.name in chosen:
        return False
    for other in chosen.values():
        if any(_meets(other, against) for against in package.conflicts):
            return False
        if any(_meets(package, against) for against in other.conflicts):
            return False
    return True


def _why_not(clause: Clause, whose: Package | None, search: _Search) -> str:
    text = " | ".join(map(str, clause))
    found = sorted(
        {
            str(package)
            for relation in clause
            for index in search.indices
            for package in (*index.named(relation.name), *index.providing(relation.name))
        }
    )
    offered = f"the index has {', '.join(found[:4])}" if found else "the index has no such package"
    return f"`{text}`, required by {whose or 'the set itself'}, is not available: {offered}"

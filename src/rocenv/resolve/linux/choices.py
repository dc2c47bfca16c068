"""What there is to choose from for Linux, and in which order.

Roots are pairs of a ROCm set and a way for the target to be served by it. Sets of a channel that is only for
who names it are none of them, unless it is named. Order, the first difference decides:

1. the way: kernels for the target itself, an override that is known to do well, one to be careful with, a
   compiler that knows the target while rocBLAS has no kernels for it;
2. a release that was tested with the machine's kernel driver, or on a kernel as old, where that is known;
3. the maker supports the target, before it is only in the libraries;
4. the maker's own channel, before a distribution's;
5. how well it is known that the release serves the target: stated by the maker or tested, reported, inferred;
6. the newest release; then the newest torch, released before a candidate for release.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.versions import allows, any_fits, newest_first, series, wish
from rocenv.data.known import STATUS_RANK
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import SERVING, UNKNOWN, WISHES
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested
from rocenv.resolve.engine import Made, Option, Problem, Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.knowledge import Override
    from rocenv.data.releases import RocmSet, TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules

_WAYS = {"native": 0, "ok": 1, "caution": 2, "compile": 3, "block": 4, "reject": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a ROCm set serves a target."""

    row: RocmSet
    runs_as: str  # the target that its kernels are made for
    kind: str  # a key of _WAYS
    override: Override | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What the matrix holds for Linux, as it is looked up."""

    wheels: tuple[TorchSet, ...]
    # release and target -> numbers of wheels with kernels
    wheels_for: Mapping[tuple[str, str], Sequence[int]]
    overrides: Mapping[str, Sequence[Override]]  # by target
    surety: Mapping[tuple[str, str], int]  # release, target -> how well it is known to serve it; 0 = best
    placed: verdicts.Placed


def problem(case: Case) -> Problem:
    """Return what there is to choose from."""
    shelf = case.matrix.kept("linux", _shelf)
    marks = verdicts.Marks(shelf.placed, case)
    untested = _untested(case)
    roots = tuple(
        _root(way, marks.of(0, number), untested, case)
        for number, row in enumerate(case.matrix.rocm)
        if _may_be_had(row, case)
        for way in _ways(row, shelf, case)
    )
    if not case.request.torch:
        return Problem(roots=roots, bad=marks.bad, wishes=frozenset(WISHES))
    options = Made(len(shelf.wheels), lambda number: _wheel(shelf.wheels[number], marks.of(1, number), case))

    def joined(key: tuple[str, str, bool]) -> Iterator[Option]:
        release, target, native = key
        for number in shelf.wheels_for.get((release, target), ()):
            if not (native and case.request.target in shelf.wheels[number].targets):
                yield options[number]

    slot = Slot(name="torch", rule="wheels", options=options, joined=joined)
    return Problem(roots=roots, slots=(slot,), bad=marks.bad, wishes=frozenset(WISHES))


def _shelf(matrix: Matrix) -> Shelf:
    wheels = tuple(row for row in matrix.torch if row.rocm)
    wheels_for: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, wheel in enumerate(wheels):
        for target in wheel.targets:
            wheels_for[series(wheel.rocm), target].append(number)
    overrides: dict[str, list[Override]] = defaultdict(list)
    for override in matrix.override:
        if override.runs_as != "*":
            overrides[override.target].append(override)
    surety: dict[tuple[str, str], int] = {}
    for row in matrix.support:
        if row.platform == "linux" and not row.channel and row.level in SERVING:
            for target in row.targets:
                known = surety.get((row.rocm, target), len(STATUS_RANK))
                surety[row.rocm, target] = min(known, STATUS_RANK[row.status])
    finders = (
        verdicts.versions("rocm", [row.version for row in matrix.rocm]),
        verdicts.versions("torch", [row.version for row in wheels]),
    )
    return Shelf(
        wheels=wheels,
        wheels_for=wheels_for,
        overrides=overrides,
        surety=surety,
        placed=verdicts.placed(matrix.verdict, "linux", finders),
    )


def _untested(case: Case) -> frozenset[str]:
    """Return the releases that were not tested with the kernel driver, or only on newer kernels."""
    matrix, kernel = case.matrix, case.machine.kernel
    driver = kernel_driver(case.driver, matrix)
    releases = {series(row.version) for row in matrix.rocm}
    if driver:
        return frozenset(release for release in releases if tested(driver, release, matrix) is False)
    if kernel and not case.driver:
        oldest = {release: oldest_kernel(release, matrix)[0] for release in releases}
        return frozenset(release for release in releases if kernel_is_older(kernel, oldest[release]))
    return frozenset()


def _root(way: Way, marks: tuple[Rules, Rules], untested: frozenset[str], case: Case) -> Option:
    row = way.row
    rules = _against_wishes(row, case)
    if way.override is not None:
        rules |= _against_override(way.override, row)
    if not case.knows_target:
        rules.add(UNKNOWN)
    if way.runs_as not in (row.compiles if way.kind == "compile" else row.blas):
        rules.add("target")
    # An override is not for a set that serves the target natively, all parts of it.
    native = way.override is not None and case.request.target in row.blas
    breaks, hits = marks
    return Option(
        part=way,
        rank=_rank(way, untested, case),
        breaks=breaks | rules,
        hits=hits,
        keys={"torch": (series(row.version), way.runs_as, native)},
    )


def _may_be_had(row: RocmSet, case: Case) -> bool:
    return case.request.channel == row.channel or not case.matrix.channels[row.channel].only_named


def _ways(row: RocmSet, shelf: Shelf, case: Case) -> Iterator[Way]:
    target = case.request.target
    has_kernels = target in row.blas
    yield Way(row=row, runs_as=target, kind="native" if has_kernels else "compile")
    if has_kernels and not case.request.torch:
        return  # nothing else would be served by an override
    for override in shelf.overrides.get(target, ()):
        yield Way(row=row, runs_as=override.runs_as, kind=override.verdict, override=override)


def _against_wishes(row: RocmSet, case: Case) -> set[str]:
    request = case.request
    rules = set()
    if not wish(request.rocm, "--rocm").meets(row.version, floating=row.floating):
        rules.add("rocm")
    if request.channel and row.channel != request.channel:
        rules.add("channel")
    return rules


def _against_override(override: Override, row: RocmSet) -> set[str]:
    rules = set()
    if override.verdict in ("block", "reject"):
        rules.add(f"override {override.value}")
    if not allows(override.rocm, row.version):
        rules.add(f"override {override.value} {override.rocm}")
    return rules


def _rank(way: Way, untested: frozenset[str], case: Case) -> tuple[object, ...]:
    row = way.row
    surety = case.matrix.kept("linux", _shelf).surety
    return (
        _WAYS[way.kind],
        series(row.version) in untested,
        way.runs_as not in row.official,
        case.matrix.channels[row.channel].by != "maker",
        surety.get((series(row.version), way.runs_as), STATUS_RANK[row.status]),
        newest_first(row.version),
        row.channel,
        way.override.value if way.override else "",
    )


def _wheel(row: TorchSet, marks: tuple[Rules, Rules], case: Case) -> Option:
    request = case.request
    rules = set()
    # A wish may name the build: `==2.5.1+rocm6.2`.
    if not wish(request.torch, "--torch").meets(row.version, floating=True, local=f"+rocm{row.rocm}"):
        rules.add("torch")
    if not any_fits(request.python, row.python):
        rules.add("python")
    if row.glibc and case.machine.glibc and not allows(f">={row.glibc}", case.machine.glibc):
        rules.add("glibc")
    release = series(row.rocm)
    fits = [(release, target, False) for target in row.targets]
    if request.target not in row.targets:
        fits += [(release, target, True) for target in row.targets]
    breaks, hits = marks
    return Option(
        part=row,
        rank=(not row.released, newest_first(row.version), newest_first(row.rocm), STATUS_RANK[row.status]),
        breaks=breaks | rules,
        hits=hits,
        fits=frozenset(fits),
    )

"""What there is to choose from for Windows with ZLUDA, and in which order.

Roots are HIP SDKs. Order, the first difference decides:

1. the SDK: one that the apps' makers name for the target, with a build that is asked for; its rocBLAS has
   kernels of its own; else a library pack for it has an address that is known; what AMD promises for the
   target; how well that is known; the newest;
2. the archive: of the build that the apps' makers take today; a whole one before a nightly, which needs
   unofficial libraries; of the fork that the apps take; how well it is known; the newest build;
3. the library pack, where the SDK's rocBLAS has no kernels for the target: one whose address is known; one
   whose hash is; for this target alone; how well it is known; then by name;
4. torch: one that the apps' makers name for the target, the SDK and the build; one that is named together
   with the build; how well it is known; the newest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rocenv.matrix.known import STATUS_RANK
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import SERVING, UNKNOWN, WISHES
from rocenv.resolve.engine import Made, Option, Problem, Slot
from rocenv.resolve.versions import allows, any_fits, newest_first, series, wish

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rocenv.matrix.knowledge import GoodSet, Verdict
    from rocenv.matrix.releases import Asset, HipSdk, Pack, Support, TorchSet, ZludaBuild
    from rocenv.matrix.rows import Matrix
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules, Whole

_LEVELS = {"official": 0, "deprecated": 1, "libraries": 2, "runtime": 3, "unsupported": 4}
_OWN = "own"  # key of the slot for packs where none is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One archive of a build."""

    build: ZludaBuild
    asset: Asset


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What the matrix holds for sets with ZLUDA, as it is looked up."""

    archives: tuple[Option, ...]  # as they are without a request
    archives_for: Mapping[str, Sequence[int]]  # release of the SDK -> numbers of archives
    wheels: tuple[TorchSet, ...]
    packs: Mapping[str, Sequence[Pack]]  # by target
    sdks: verdicts.VersionIndex
    good: Mapping[str, Sequence[tuple[GoodSet, Sequence[str]]]]  # by target, with the builds that it allows
    promises: Mapping[str, Mapping[str, Support]]  # target -> release -> what it does for it
    placed: verdicts.Placed


def problem(case: Case) -> Problem:
    """Return what there is to choose from."""
    shelf = case.matrix.kept("zluda", _shelf)
    marks = verdicts.Marks(shelf.placed, case)
    archives = Made(len(shelf.archives), lambda n: _archive(shelf.archives[n], marks.of(1, n), case))
    packs: list[Pack | None] = [None, *shelf.packs.get(case.request.target, ())]
    good = good_sets(case)
    slots = [
        Slot(
            name="zluda",
            rule="build",
            options=archives,
            joined=lambda release: [archives[n] for n in shelf.archives_for.get(release, ())],
        ),
        Slot(
            name="libraries",
            rule="pack",
            options=tuple(_pack(each, marks.of(2, n)) for n, each in enumerate(packs)),
        ),
    ]
    if case.request.torch:
        options = tuple(_wheel(each, marks.of(3, n), case) for n, each in enumerate(shelf.wheels))
        slots.append(Slot(name="torch", rule="wheels", options=options, rank=_wheel_rank(good)))
    promised = promises(case)
    fetchable = {series(version) for pack in packs if pack and pack.url for version in pack.rocm}
    named_sdks = {number for each in good for number in shelf.sdks.allowed(each.rocm)}
    return Problem(
        roots=tuple(
            _sdk(each, marks.of(0, n), promised, fetchable, n in named_sdks, case)
            for n, each in enumerate(case.matrix.hip_sdk)
        ),
        slots=tuple(slots),
        bad=marks.bad,
        wishes=frozenset(WISHES),
    )


def _shelf(matrix: Matrix) -> Shelf:
    archives = [
        Archive(build=build, asset=asset)
        for build in matrix.zluda
        for asset in build.assets
        if asset.platform == "windows" and asset.rocm
    ]
    members = _members(matrix.hip_sdk)
    options = tuple(_plain(archive, members) for archive in archives)
    archives_for: dict[str, list[int]] = defaultdict(list)
    for number, option in enumerate(options):
        for release in option.fits:
            archives_for[release].append(number)
    builds = [row.version for row in matrix.zluda]
    index = verdicts.VersionIndex(builds)
    good: dict[str, list[tuple[GoodSet, Sequence[str]]]] = defaultdict(list)
    for row in matrix.good_set:
        if row.platform == "windows" and row.zluda:
            allowed = [builds[number] for number in index.allowed(row.zluda)]
            for target in row.targets:
                good[target].append((row, allowed))
    packs: dict[str, list[Pack]] = defaultdict(list)
    for pack in matrix.pack:
        if pack.kind == "rocblas" and not pack.absent:
            # With whichever features: Windows has them one way only.
            for target in {each.partition(":")[0] for each in pack.targets}:
                packs[target].append(pack)
    wheels = tuple(row for row in matrix.torch if row.cuda)
    finders = (
        verdicts.versions("rocm", [row.version for row in matrix.hip_sdk]),
        _archive_finder(archives),
        lambda row: [0] if row.pack == "none" else None,
        verdicts.versions("torch", [row.version for row in wheels]),
    )
    return Shelf(
        archives=options,
        archives_for=archives_for,
        wheels=wheels,
        packs=packs,
        sdks=verdicts.VersionIndex([row.version for row in matrix.hip_sdk]),
        promises=_promises(matrix),
        good=good,
        placed=verdicts.placed(matrix.verdict, "windows", finders),
    )


def packs_for(target: str, matrix: Matrix) -> Sequence[Pack]:
    """Return the rocBLAS packs for a target."""
    return matrix.kept("zluda", _shelf).packs.get(target, ())


def _members(sdks: Sequence[HipSdk]) -> dict[str, list[str]]:
    """Return the series that a name in a build's row stands for: `6` for all of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sdks:
        release = series(row.version)
        for name in {release, release.split(".")[0]}:
            if release not in found[name]:
                found[name].append(release)
    return found


def promises(case: Case) -> Mapping[str, Support]:
    """Return what each HIP SDK does for the target, by its series, from who knows it best."""
    return case.matrix.kept("zluda", _shelf).promises.get(case.request.target, {})


def _promises(matrix: Matrix) -> dict[str, dict[str, Support]]:
    """Return what each HIP SDK does for each target."""
    rows = [row for row in matrix.support if row.platform == "windows" and not row.channel]
    rows.sort(key=lambda row: (STATUS_RANK[row.status], row.source), reverse=True)
    found: dict[str, dict[str, Support]] = defaultdict(dict)
    for row in rows:
        for target in row.targets:
            found[target][row.rocm] = row
    return found


def _sdk(
    row: HipSdk,
    marks: tuple[Rules, Rules],
    promised: Mapping[str, Support],
    fetchable: set[str],
    is_named: bool,
    case: Case,
) -> Option:
    request = case.request
    release = series(row.version)
    support = promised.get(release)
    own = support is not None and support.level in SERVING
    rules = set()
    if not wish(request.rocm, "--rocm").meets(row.version):
        rules.add("rocm")
    if request.channel and request.channel != CHANNEL:
        rules.add("channel")
    if not case.knows_target:
        rules.add(UNKNOWN)
    breaks, hits = marks
    rank = (
        not is_named,
        not own,
        not own and release not in fetchable,
        _LEVELS[support.level] if support else len(_LEVELS),
        STATUS_RANK[support.status] if support else len(STATUS_RANK),
        newest_first(row.version),
    )
    return Option(
        part=row,
        rank=rank,
        breaks=breaks | rules,
        hits=hits,
        keys={"zluda": release, "libraries": _OWN if own else release, "torch": ""},
    )


CHANNEL = "hip-sdk"


def good_sets(case: Case) -> list[GoodSet]:
    """Return the sets that the apps' makers name for the target, with a build that is asked for."""
    shelf = case.matrix.kept("zluda", _shelf)
    wanted = wish(case.request.zluda, "--zluda")
    named = shelf.good.get(case.request.target, ())
    return [good for good, builds in named if any(map(wanted.meets, builds))]


def named(row: HipSdk, case: Case) -> list[GoodSet]:
    """Return where the apps' makers name a HIP SDK for the target."""
    return [good for good in good_sets(case) if allows(good.rocm, row.version)]


def _archive_finder(archives: Sequence[Archive]) -> verdicts.Finder:
    index = verdicts.VersionIndex([each.build.version for each in archives])

    def find(row: Verdict) -> Collection[int] | None:
        if not (row.zluda or row.project or row.flavour):
            return None
        return [
            number
            for number in (index.allowed(row.zluda) if row.zluda else range(len(archives)))
            if row.project in ("", archives[number].build.project)
            and (not row.flavour or archives[number].asset.flavour in row.flavour)
        ]

    return find


def _plain(archive: Archive, members: Mapping[str, Sequence[str]]) -> Option:
    """Return an archive as an option, as it is without a request."""
    build, asset = archive.build, archive.asset
    rank = (
        not build.preferred,
        asset.flavour == "nightly",
        build.project,
        STATUS_RANK[build.status],
        newest_first(build.version),
        asset.name,
    )
    fits = frozenset(release for name in asset.rocm for release in members.get(name, ()))
    return Option(part=archive, rank=rank, fits=fits)


def _archive(plain: Option, marks: tuple[Rules, Rules], case: Case) -> Option:
    build: ZludaBuild = plain.part.build
    breaks, hits = marks
    if not wish(case.request.zluda, "--zluda").meets(build.version):
        breaks |= {"zluda"}
    if build.driver and case.driver and not allows(build.driver, case.driver):
        breaks |= {"driver"}
    if not breaks and not hits:
        return plain
    return Option(part=plain.part, rank=plain.rank, fits=plain.fits, breaks=breaks, hits=hits)


def _pack(row: Pack | None, marks: tuple[Rules, Rules]) -> Option:
    breaks, hits = marks
    if row is None:
        return Option(part=None, rank=(-1,), breaks=breaks, hits=hits, fits=frozenset([_OWN]))
    rank = (
        not row.url,
        not row.sha256,
        len(row.targets),
        STATUS_RANK[row.status],
        row.provider,
        row.asset,
        row.rocm,
    )
    return Option(part=row, rank=rank, fits=frozenset(series(version) for version in row.rocm))


def _wheel(row: TorchSet, marks: tuple[Rules, Rules], case: Case) -> Option:
    request = case.request
    rules = set()
    wanted = wish(request.torch, "--torch")
    if not wanted.meets(row.version) and not wanted.meets(f"{row.version}+cu{row.cuda.replace('.', '')}"):
        rules.add("torch")
    if not any_fits(request.python, row.python):
        rules.add("python")
    breaks, hits = marks
    return Option(
        part=row,
        rank=(STATUS_RANK[row.status], newest_first(row.version)),
        breaks=breaks | rules,
        hits=hits,
        fits=frozenset([""]),
    )


def _wheel_rank(good: Sequence[GoodSet]) -> Callable[[Option, Whole], tuple[object, ...]]:
    @cache
    def named_with(sdk: str, build: str) -> frozenset[str]:
        return frozenset(
            each.torch for each in good if each.torch and allows(each.rocm, sdk) and allows(each.zluda, build)
        )

    def rank(option: Option, chosen: Whole) -> tuple[object, ...]:
        torch: TorchSet = option.part
        build = chosen[1].part.build.version
        named = any(allows(text, torch.version) for text in named_with(chosen[0].part.version, build))
        return (not named, not allows(torch.zluda or "<0", build), *option.rank)

    return rank

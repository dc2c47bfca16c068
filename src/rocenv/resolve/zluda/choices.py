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
from rocenv.resolve.engine import Option, Problem, Slot
from rocenv.resolve.versions import allows, any_fits, newest_first, series, wish

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rocenv.matrix.knowledge import GoodSet, Verdict
    from rocenv.matrix.releases import Asset, HipSdk, Pack, Support, TorchSet, ZludaBuild
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules, Whole

_LEVELS = {"official": 0, "deprecated": 1, "libraries": 2, "runtime": 3, "unsupported": 4}
_OWN = "own"  # key of the slot for packs where none is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One archive of a build."""

    build: ZludaBuild
    asset: Asset


def problem(case: Case) -> Problem:
    """Return what there is to choose from."""
    matrix = case.matrix
    sdks = list(matrix.hip_sdk)
    archives = [
        Archive(build=build, asset=asset)
        for build in matrix.zluda
        for asset in build.assets
        if asset.platform == "windows" and asset.rocm
    ]
    packs: list[Pack | None] = [None, *packs_for(case.request.target, matrix.pack)]
    wheels = [row for row in matrix.torch if row.cuda] if case.request.torch else []
    marks = verdicts.marks(
        case,
        len(sdks),
        (
            verdicts.versions("rocm", [row.version for row in sdks]),
            _archive_finder(archives),
            lambda row: [0] if row.pack == "none" else None,
            verdicts.versions("torch", [row.version for row in wheels]),
        ),
    )
    members = _members(sdks)
    good = good_sets(case)
    slots = [
        Slot(
            name="zluda",
            rule="build",
            options=tuple(_archive(each, marks.of(1, n), members, case) for n, each in enumerate(archives)),
        ),
        Slot(
            name="libraries",
            rule="pack",
            options=tuple(_pack(each, marks.of(2, n), case) for n, each in enumerate(packs)),
        ),
    ]
    if case.request.torch:
        options = tuple(_wheel(each, marks.of(3, n), case) for n, each in enumerate(wheels))
        slots.append(Slot(name="torch", rule="wheels", options=options, rank=_wheel_rank(good)))
    promised = promises(case)
    fetchable = {series(version) for pack in packs if pack and pack.url for version in pack.rocm}
    index = verdicts.VersionIndex([row.version for row in sdks])
    named_sdks = {number for each in good for number in index.allowed(each.rocm)}
    return Problem(
        roots=tuple(
            _sdk(each, marks.of(0, n), promised, fetchable, n in named_sdks, case)
            for n, each in enumerate(sdks)
        ),
        slots=tuple(slots),
        bad=marks.bad,
        wishes=frozenset(WISHES),
    )


def packs_for(target: str, packs: Sequence[Pack]) -> list[Pack]:
    """Return the rocBLAS packs for a target, with whichever features; Windows has them one way only."""
    return [
        row
        for row in packs
        if row.kind == "rocblas"
        and not row.absent
        and target in (each.partition(":")[0] for each in row.targets)
    ]


def _members(sdks: Sequence[HipSdk]) -> dict[str, list[str]]:
    """Return the series that a name in a build's row stands for: `6` for all of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sdks:
        release = series(row.version)
        for name in {release, release.split(".")[0]}:
            if release not in found[name]:
                found[name].append(release)
    return found


def promises(case: Case) -> dict[str, Support]:
    """Return what each HIP SDK does for the target, by its series, from who knows it best."""
    found = [
        row
        for row in case.matrix.support
        if row.platform == "windows" and not row.channel and case.request.target in row.targets
    ]
    found.sort(key=lambda row: (STATUS_RANK[row.status], row.source), reverse=True)
    return {row.rocm: row for row in found}


def _sdk(
    row: HipSdk,
    marks: tuple[Rules, Rules],
    promised: dict[str, Support],
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
    request = case.request
    wanted = wish(request.zluda, "--zluda")
    asked = [build.version for build in case.matrix.zluda if wanted.meets(build.version)]
    builds = verdicts.VersionIndex(asked)
    return [
        good
        for good in case.matrix.good_set
        if good.platform == "windows"
        and good.zluda
        and request.target in good.targets
        and builds.allowed(good.zluda)
    ]


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


def _archive(
    archive: Archive, marks: tuple[Rules, Rules], members: dict[str, list[str]], case: Case
) -> Option:
    build, asset = archive.build, archive.asset
    rules = set()
    if not wish(case.request.zluda, "--zluda").meets(build.version):
        rules.add("zluda")
    if build.driver and case.driver and not allows(build.driver, case.driver):
        rules.add("driver")
    breaks, hits = marks
    rank = (
        not build.preferred,
        asset.flavour == "nightly",
        build.project,
        STATUS_RANK[build.status],
        newest_first(build.version),
        asset.name,
    )
    fits = frozenset(release for name in asset.rocm for release in members.get(name, ()))
    return Option(part=archive, rank=rank, breaks=breaks | rules, hits=hits, fits=fits)


def _pack(row: Pack | None, marks: tuple[Rules, Rules], case: Case) -> Option:
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
    fits = frozenset(series(version) for version in row.rocm)
    return Option(part=row, rank=rank, breaks=breaks, hits=hits, fits=fits)


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

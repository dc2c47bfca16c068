"""What the matrix holds for sets with ZLUDA, by what it is looked up by; made once for a matrix."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.versions import allows, newest_first, series, wish
from rocenv.data.known import STATUS_RANK
from rocenv.resolve import verdicts
from rocenv.resolve.engine import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rocenv.data.knowledge import GoodSet, Verdict
    from rocenv.data.releases import Asset, HipSdk, Pack, Support, TorchSet, ZludaBuild
    from rocenv.data.rows import Matrix
    from rocenv.resolve.candidate import Case

CHANNEL = "hip-sdk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One archive of a build."""

    build: ZludaBuild
    asset: Asset


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What the matrix holds for sets with ZLUDA, as it is looked up."""

    archives: tuple[Option, ...]  # as they are without a request
    # Release of the SDK, and "" or the only target that it holds for -> numbers of archives.
    archives_for: Mapping[tuple[str, str], Sequence[int]]
    wheels: tuple[TorchSet, ...]
    packs: Mapping[str, Sequence[Pack]]  # by target
    sdks: verdicts.VersionIndex
    good: Mapping[str, Sequence[tuple[GoodSet, Sequence[str]]]]  # by target, with the builds that it allows
    promises: Mapping[str, Mapping[str, Support]]  # target -> release -> what it does for it
    placed: verdicts.Placed


def shelf_of(matrix: Matrix) -> Shelf:
    """Return the shelf of a matrix."""
    return matrix.kept("zluda", _shelf)


def _shelf(matrix: Matrix) -> Shelf:
    archives = [
        Archive(build=build, asset=asset)
        for build in matrix.zluda
        for asset in build.assets
        if asset.platform == "windows" and asset.rocm
    ]
    members = _members(matrix.hip_sdk)
    options = tuple(_plain(archive, members) for archive in archives)
    wheels = tuple(row for row in matrix.torch if row.cuda)
    finders = (
        verdicts.versions("rocm", [row.version for row in matrix.hip_sdk]),
        _archive_finder(archives),
        lambda row: [0] if row.pack == "none" else None,
        verdicts.versions("torch", [row.version for row in wheels]),
    )
    return Shelf(
        archives=options,
        archives_for=_archives_for(options),
        wheels=wheels,
        packs=_packs(matrix),
        sdks=verdicts.VersionIndex([row.version for row in matrix.hip_sdk]),
        promises=_promises(matrix),
        good=_good(matrix),
        placed=verdicts.placed(matrix.verdict, "windows", finders),
    )


def packs_for(target: str, matrix: Matrix) -> Sequence[Pack]:
    """Return the rocBLAS packs for a target."""
    return shelf_of(matrix).packs.get(target, ())


def promises(case: Case) -> Mapping[str, Support]:
    """Return what each HIP SDK does for the target, by its series, from who knows it best."""
    return shelf_of(case.matrix).promises.get(case.request.target, {})


def good_sets(case: Case) -> list[GoodSet]:
    """Return the sets that the apps' makers name for the target, with a build that is asked for."""
    shelf = shelf_of(case.matrix)
    wanted = wish(case.request.zluda, "--zluda")
    named = shelf.good.get(case.request.target, ())
    return [good for good, builds in named if any(map(wanted.meets, builds))]


def named(row: HipSdk, case: Case) -> list[GoodSet]:
    """Return where the apps' makers name a HIP SDK for the target."""
    return [good for good in good_sets(case) if allows(good.rocm, row.version)]


def _archives_for(options: Sequence[Option]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, option in enumerate(options):
        for release in option.fits:
            found[release, ""].append(number)
        for release, targets in option.part.asset.also.items():
            for target in targets:
                found[release, target].append(number)
    return found


def _packs(matrix: Matrix) -> dict[str, list[Pack]]:
    found: dict[str, list[Pack]] = defaultdict(list)
    for pack in matrix.pack:
        if pack.kind == "rocblas" and not pack.absent:
            # With whichever features: Windows has them one way only.
            for target in {each.partition(":")[0] for each in pack.targets}:
                found[target].append(pack)
    return found


def _good(matrix: Matrix) -> dict[str, list[tuple[GoodSet, Sequence[str]]]]:
    builds = [row.version for row in matrix.zluda]
    index = verdicts.VersionIndex(builds)
    found: dict[str, list[tuple[GoodSet, Sequence[str]]]] = defaultdict(list)
    for row in matrix.good_set:
        if row.platform == "windows" and row.zluda:
            allowed = [builds[number] for number in index.allowed(row.zluda)]
            for target in row.targets:
                found[target].append((row, allowed))
    return found


def _members(sdks: Sequence[HipSdk]) -> dict[str, list[str]]:
    """Return the series that a name in a build's row stands for: `6` for all of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sdks:
        release = series(row.version)
        for name in {release, release.split(".")[0]}:
            if release not in found[name]:
                found[name].append(release)
    return found


def _promises(matrix: Matrix) -> dict[str, dict[str, Support]]:
    """Return what each HIP SDK does for each target."""
    rows = [row for row in matrix.support if row.platform == "windows" and not row.channel]
    rows.sort(key=lambda row: (STATUS_RANK[row.status], row.source), reverse=True)
    found: dict[str, dict[str, Support]] = defaultdict(dict)
    for row in rows:
        for target in row.targets:
            found[target][row.rocm] = row
    return found


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

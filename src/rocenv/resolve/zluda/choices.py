"""What there is to choose from for Windows with ZLUDA, and in which order.

Roots are HIP SDKs. Order, the first difference decides:

1. the SDK: one that the apps' makers name for the target, with a build that is asked for; its rocBLAS has
   kernels of its own; else a library pack for it has an address that is known; what AMD promises for the
   target; how well that is known; the newest;
2. the archive: of the build that the apps' makers take today; a whole one before a nightly, which needs
   unofficial libraries; of the fork that the apps take; how well it is known; the newest build;
3. the library pack, where the SDK's rocBLAS has no kernels for the target: one whose address is known; one
   that a set is reported to work with; one whose hash is known; for this target alone; how well it is known;
   then by name;
4. torch: one that the apps' makers name for the target, the SDK and the build; one that is named together
   with the build; how well it is known; the newest.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rocenv.core.versions import allows, any_fits, newest_first, series, wish
from rocenv.data.known import STATUS_RANK
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import SERVING, UNKNOWN, WISHES
from rocenv.resolve.engine import Made, Option, Problem, Slot
from rocenv.resolve.zluda.shelf import CHANNEL, good_sets, promises, shelf_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.data.knowledge import GoodSet
    from rocenv.data.releases import HipSdk, Pack, Support, TorchSet, ZludaBuild
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules, Whole

_LEVELS = {"official": 0, "deprecated": 1, "libraries": 2, "runtime": 3, "unsupported": 4}
_OWN = "own"  # key of the slot for packs where none is needed


def problem(case: Case) -> Problem:
    """Return what there is to choose from."""
    shelf = shelf_of(case.matrix)
    marks = verdicts.Marks(shelf.placed, case)
    archives = Made(len(shelf.archives), lambda n: _archive(shelf.archives[n], marks.of(1, n), case))
    packs: list[Pack | None] = [None, *shelf.packs.get(case.request.target, ())]
    good = good_sets(case)
    slots = [
        Slot(
            name="zluda",
            rule="build",
            options=archives,
            joined=lambda release: [
                archives[n]
                for n in (
                    *shelf.archives_for.get((release, ""), ()),
                    *shelf.archives_for.get((release, case.request.target), ()),
                )
            ],
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


def _archive(plain: Option, marks: tuple[Rules, Rules], case: Case) -> Option:
    build: ZludaBuild = plain.part.build
    breaks, hits = marks
    if not wish(case.request.zluda, "--zluda").meets(build.version):
        breaks |= {"zluda"}
    if build.driver and case.driver and not allows(build.driver, case.driver):
        breaks |= {"driver"}
    also = frozenset(
        release for release, targets in plain.part.asset.also.items() if case.request.target in targets
    )
    if not breaks and not hits and not also:
        return plain
    return Option(part=plain.part, rank=plain.rank, fits=plain.fits | also, breaks=breaks, hits=hits)


def _pack(row: Pack | None, marks: tuple[Rules, Rules]) -> Option:
    breaks, hits = marks
    if row is None:
        return Option(part=None, rank=(-1,), breaks=breaks, hits=hits, fits=frozenset([_OWN]))
    rank = (
        not row.url,
        not row.proven,
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

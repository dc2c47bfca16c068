"""Sets for Windows with ZLUDA: HIP SDK, ZLUDA archive, library pack, and PyTorch for CUDA 11.8.

The first difference between two sets decides which is better:

1. The SDK: one that app developers recommend for the target with a build that the request allows; one whose
rocBLAS has kernels for the target, or else one with a downloadable library pack; AMD's support for the
target; how reliable the data is; the newest.
2. The archive: from the build that apps currently use; a stable one before a nightly, because nightlies need
unofficial libraries; from the fork that apps use; how reliable the data is; the newest build.
3. The library pack, if the SDK's rocBLAS has no kernels for the target: one that can be downloaded; one that
is reported to work; one with a known hash; one for this target alone; how reliable the data is; by name.
4. PyTorch: one that app developers recommend for the target, the SDK and the build; one that they pair with
the build; how reliable the data is; the newest.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from rocenv.core.template import fill
from rocenv.core.versions import allows, any_meets, joined, meets, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.resolve import packs, verdicts
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.combination import (
    NONE,
    NOTHING,
    SERVING,
    Combination,
    Constraints,
    Option,
    choices,
    rejected,
    unmet,
)
from rocenv.resolve.verdicts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.core.model import Rejection
    from rocenv.data.knowledge import GoodSet, Verdict
    from rocenv.data.releases import Support, TorchSet
    from rocenv.data.windows import Asset, HipSdk, Pack, ZludaBuild
    from rocenv.resolve.combination import Case

CHANNEL = "hip-sdk"
MISFITS = frozenset(["build", "pack"])  # constraints that incompatible components violate

_LEVELS = {"official": 0, "deprecated": 1, "libraries": 2, "runtime": 3, "unsupported": 4}
_PROMISES = {
    "official": "AMD supports {target}",
    "deprecated": "AMD supports {target}, but will drop support",
    "libraries": "works on {target}, but AMD does not officially support it",
    "runtime": "AMD's runtime works on {target}, but its libraries have no kernels for it",
    "unsupported": "AMD lists {target} as unsupported",
}


class Archive(NamedTuple):
    """One of a build's archives."""

    build: ZludaBuild
    asset: Asset

    @property
    def title(self) -> str:
        """The build and the archive's name."""
        return f"ZLUDA {self.build.version} ({self.asset.name})"


class Parts(NamedTuple):
    """One choice for every component."""

    sdk: HipSdk
    archive: Archive
    pack: Pack | None
    torch: TorchSet | None

    @property
    def facts(self) -> Facts:
        """The facts that verdicts depend on."""
        pack, torch = "some" if self.pack else "none", self.torch.version if self.torch else ""
        return _facts(self.sdk, *self.archive)._replace(pack=pack, torch=torch)


def _facts(sdk: HipSdk, build: ZludaBuild, asset: Asset) -> Facts:
    return Facts(rocm=sdk.version, zluda=build.version, project=build.project, flavour=asset.flavour)


# ---------------------------------------------------------------- combinations


def combinations(case: Case) -> Iterator[Combination]:
    """Yield every combination of an SDK, an archive, a library pack and a PyTorch release."""
    archives = [
        _archive_option(Archive(build, asset), case)
        for build in case.matrix.zluda
        for asset in build.assets
        if asset.platform == "windows" and asset.rocm
    ]
    wheels = [_torch_option(row, case) for row in case.matrix.torch if row.cuda and case.request.torch]
    rows = verdicts.certain(case)
    for sdk in case.matrix.hip_sdk:
        good, pack_options = recommended(sdk, case), _pack_options(sdk, case)
        sdk_rank, sdk_broken = _sdk_rank(sdk, case), _sdk_broken(sdk, case)
        fitting = [each for each in archives if serves(each.row.asset, sdk.version, case.request.target)]
        for archive, archive_broken in choices(archives, fitting, "build"):
            if case.only_fitting and (sdk_broken or archive_broken):
                continue
            facts = _facts(sdk, *archive.row)
            near = [(name, row) for name, row in rows if verdicts.applies(row, facts)]
            torches = [_paired(each, archive.row.build, good) for each in wheels] or [NOTHING]
            for pack, torch in product(pack_options, torches):
                parts = Parts(sdk, archive.row, pack.row, torch.row)
                broken = archive_broken | pack.broken
                known = verdicts.against(near, parts.facts, apart=broken & MISFITS) if near else NONE
                yield Combination(
                    root=sdk,
                    parts=parts,
                    rank=(sdk_rank, archive.rank, pack.rank, torch.rank),
                    broken=sdk_broken | torch.broken | broken | known,
                )


def _sdk_broken(sdk: HipSdk, case: Case) -> Constraints:
    request = case.request
    return case.unknown_target | unmet(
        rocm=meets(request.rocm, sdk.version, "--rocm"), channel=request.channel in ("", CHANNEL)
    )


def _sdk_rank(sdk: HipSdk, case: Case) -> tuple[Any, ...]:
    promise = promise_of(sdk, case)
    own = has_kernels(sdk, case)
    return (
        not recommended(sdk, case),
        not own,
        not own and not any(pack.url for pack in packs.packs_for(sdk, case)),
        _LEVELS[promise.level] if promise else len(_LEVELS),
        STATUS_RANK[promise.status] if promise else len(STATUS_RANK),
        newest_first(sdk.version),
    )


def promise_of(sdk: HipSdk, case: Case) -> Support | None:
    """Find the most reliable row about AMD's support for the target in an SDK."""
    wanted = ("windows", series(sdk.version))
    rows = [
        row
        for row in case.matrix.support
        if (row.platform, row.rocm) == wanted and case.request.target in row.targets
    ]
    return min(rows, key=lambda row: (STATUS_RANK[row.status], row.source), default=None)


def has_kernels(sdk: HipSdk, case: Case) -> bool:
    """Whether the SDK's own rocBLAS has kernels for the target."""
    promise = promise_of(sdk, case)
    return promise is not None and promise.level in SERVING


def recommended(sdk: HipSdk, case: Case) -> list[GoodSet]:
    """List app developers' recommendations for the target, this SDK and an allowed build."""
    request = case.request
    return [
        row
        for row in case.matrix.good_set
        if row.platform == "windows"
        and row.zluda
        and request.target in row.targets
        and allows(row.rocm, sdk.version)
        and any(
            allows(row.zluda, build.version) and meets(request.zluda, build.version, "--zluda")
            for build in case.matrix.zluda
        )
    ]


def serves(asset: Asset, version: str, target: str = "") -> bool:
    """Whether an archive is for an SDK, or is reported to work with it on the target."""
    release = series(version)
    is_for = release in asset.rocm or version.split(".")[0] in asset.rocm
    return asset.platform == "windows" and (is_for or target in asset.also.get(release, ()))


def _archive_option(archive: Archive, case: Case) -> Option:
    build, asset = archive.build, archive.asset
    broken = unmet(
        zluda=meets(case.request.zluda, build.version, "--zluda"),
        driver=not case.driver or allows(build.driver, case.driver),
    )
    rank = (
        not build.preferred,
        asset.flavour == "nightly",
        build.project,
        STATUS_RANK[build.status],
        newest_first(build.version),
        asset.name,
    )
    return Option(row=archive, rank=rank, broken=broken)


def _pack_options(sdk: HipSdk, case: Case) -> list[Option]:
    if has_kernels(sdk, case):
        return [NOTHING]
    return packs.options(sdk, case) or [Option(row=None, rank=(), broken=unmet(pack=False))]


def _torch_option(row: TorchSet, case: Case) -> Option:
    request = case.request
    broken = unmet(
        torch=any(meets(request.torch, version, "--torch") for version in (row.version, row.build)),
        python=any_meets(request.python, row.python, "--python"),
    )
    return Option(row=row, rank=(STATUS_RANK[row.status], newest_first(row.version)), broken=broken)


def _paired(option: Option, build: ZludaBuild, good: Sequence[GoodSet]) -> Option:
    """Prefer PyTorch releases that developers recommend with this SDK and build, or pair with the build."""
    torch: TorchSet = option.row
    named = any(
        row.torch and allows(row.torch, torch.version) and allows(row.zluda, build.version) for row in good
    )
    rank = (not named, not is_paired(torch, build), *option.rank)
    return Option(row=torch, rank=rank, broken=option.broken)


def is_paired(torch: TorchSet, build: ZludaBuild) -> bool:
    """Whether app developers pair a PyTorch release with a build."""
    return bool(torch.zluda) and allows(torch.zluda, build.version)


# ---------------------------------------------------------------- the chosen set


def candidate(parts: Parts, case: Case) -> Candidate:
    """Implement `Kind.candidate`."""
    sdk, archive, pack, torch = parts.sdk, parts.archive, parts.pack, parts.torch
    build, target = archive.build, case.request.target
    chosen = [
        Choice(kind="rocm", row=sdk, version=sdk.version, channel=CHANNEL, why=_why_sdk(parts, case)),
        Choice(
            kind="zluda",
            row=build,
            version=build.version,
            channel=build.project,
            why=_why_build(parts),
            asset=archive.asset,
        ),
    ]
    if pack is not None:
        why = f"the SDK's rocBLAS has no kernels for {target}; this pack is for {joined(pack.targets)}"
        version = "/".join(pack.rocm)
        chosen.append(Choice(kind="libraries", row=pack, version=version, channel=pack.provider, why=why))
    if torch is not None:
        pair = "app developers pair it with this build" if is_paired(torch, build) else "works with any build"
        chosen.append(
            Choice(
                kind="torch",
                row=torch,
                version=torch.version,
                channel=torch.index,
                why=f"built for CUDA {torch.cuda}, which ZLUDA implements; {pair}",
                python=_python(parts, torch, case),
            )
        )
    return Candidate(parts=tuple(chosen), runs_as=target, notes=tuple(_notes(parts, case)))


def _why_sdk(parts: Parts, case: Case) -> str:
    support, target = promise_of(parts.sdk, case), case.request.target
    promise = _PROMISES[support.level] if support else "AMD does not list {target}"
    by = sorted({good.by for good in recommended(parts.sdk, case)})
    return fill(promise, {"target": target}) + (f"; recommended for it by {joined(by, 2)}" if by else "")


def _why_build(parts: Parts) -> str:
    build, asset, sdk = parts.archive.build, parts.archive.asset, parts.sdk
    release = series(sdk.version)
    relation = "is for" if serves(asset, sdk.version) else "is reported to work on this GPU with"
    why = f"{asset.name} {relation} HIP SDK {release}"
    if build.preferred:
        why += "; apps currently use this build"
    if build.built_against and release not in build.built_against:
        why += f"; it was built against {build.built_against}"
    return why


def _notes(parts: Parts, case: Case) -> Iterator[str]:
    build, asset = parts.archive.build, parts.archive.asset
    if build.driver and not case.driver:
        yield (
            f"ZLUDA {build.version} works with display drivers {build.driver}; this machine's driver is "
            "unknown, so specify it with `--driver`"
        )
    if parts.pack is not None:
        yield from packs.notes(parts.pack, case.request.target)
    if not asset.sha256:
        yield f"no hash is published for {asset.name}, so rocenv records the hash of the first download"
    yield from dict.fromkeys(_known(parts, case))
    for good in _recommending(parts, case):
        if good.driver and not case.driver:
            yield f"{good.by} recommends this set for display drivers {good.driver} ({good.source})"


def _known(parts: Parts, case: Case) -> Iterator[str]:
    """Yield other known facts about a set, and the problems that it avoids."""
    facts = parts.facts._replace(driver=case.driver or None)
    for row in verdicts.about(case):
        if row.only_if and not row.targets:
            continue  # affects only a few machines; `explain` shows it
        if row.verdict == "works" and row.driver and not case.driver:
            continue  # the machine could have a different driver
        if (row.targets or row.zluda) and verdicts.applies(row, facts):
            # The build's own note already lists the drivers.
            if not (verdicts.is_certain(row) and row.driver and parts.archive.build.driver):
                yield verdicts.note(row)
        elif _is_avoided(row, parts):
            yield f"avoided: ZLUDA {row.zluda}: {row.what} ({row.source})"


def _is_avoided(row: Verdict, parts: Parts) -> bool:
    """Whether a verdict excludes other builds with the same SDK on this target."""
    about_others = bool(row.targets and row.rocm and row.zluda)
    return verdicts.is_certain(row) and about_others and verdicts.applies(row, Facts(rocm=parts.sdk.version))


def _recommending(parts: Parts, case: Case) -> list[GoodSet]:
    """List app developers' recommendations for exactly this set on the target, in a stable order."""
    build, torch = parts.archive.build, parts.torch
    found = (
        good
        for good in recommended(parts.sdk, case)
        if allows(good.zluda, build.version) and (torch is None or allows(good.torch, torch.version))
    )
    return sorted(found, key=lambda good: (good.by, good.driver, good.source))


def _python(parts: Parts, torch: TorchSet, case: Case) -> str:
    """Choose the newest acceptable Python, preferring those recommended with the set."""
    named = {python for good in _recommending(parts, case) for python in good.python}
    wanted = [each for each in torch.python if any_meets(case.request.python, (each,), "--python")]
    return min(wanted, key=lambda python: (python not in named, newest_first(python)), default="")


# ---------------------------------------------------------------- why nothing works


def rejection(constraint: str, parts: Parts, case: Case) -> Rejection:
    """Implement `Kind.rejection`."""
    sdk, build, request = parts.sdk, parts.archive.build, case.request
    sdk_title, title = f"HIP SDK {sdk.version}", parts.archive.title
    if verdicts.is_verdict(constraint):
        return verdicts.rejection(constraint, _components_in(constraint, parts, case), case)
    if constraint == "rocm":
        return rejected(sdk, sdk_title, f"HIP SDK {request.rocm}", sdk.version)
    if constraint == "channel":
        return rejected(sdk, sdk_title, f"channel {request.channel}", CHANNEL)
    if constraint == "zluda":
        return rejected(build, title, f"ZLUDA {request.zluda}", build.version)
    if constraint == "build":
        return _no_build(parts)
    if constraint == "driver":
        text = f"{title} works with display drivers {build.driver}, not with {case.driver}"
        return rejected(build, title, f"display driver {build.driver}", case.driver, text)
    return packs.rejection(sdk, case) if constraint == "pack" else _no_torch(constraint, parts, case)


def _components_in(constraint: str, parts: Parts, case: Case) -> str:
    """List the components to which a verdict's conditions apply."""
    row = verdicts.verdict_behind(constraint, case)
    torch = f"torch {parts.torch.version}" if parts.torch else "no torch"
    names = {
        f"HIP SDK {parts.sdk.version}": row.rocm,
        parts.archive.title: row.zluda or row.project or row.flavour,
        torch: row.torch,
    }
    named = [name for name, condition in names.items() if condition]
    return " with ".join(named) or f"HIP SDK {parts.sdk.version}"


def _no_build(parts: Parts) -> Rejection:
    build, release = parts.archive.build, series(parts.sdk.version)
    names = [f"{asset.name} for HIP SDK {joined(asset.rocm)}" for asset in build.assets if asset.rocm]
    name, found = f"ZLUDA {build.version}", "; ".join(names)
    text = f"{name} has no archive for HIP SDK {release}, only {found}"
    return rejected(build, name, f"an archive for HIP SDK {release}", f"has {found}", text)


def _no_torch(constraint: str, parts: Parts, case: Case) -> Rejection:
    row, request = parts.torch, case.request
    assert row is not None
    name = f"torch {row.build}"
    if constraint == "torch":
        return rejected(row, name, f"torch {request.torch}", row.version)
    found, wanted = f"Python {row.python[0]} to {row.python[-1]}", f"Python {request.python}"
    return rejected(row, name, wanted, found, f"You asked for {wanted}, but {name} works with {found}")

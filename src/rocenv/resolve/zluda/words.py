"""What is said of a set with ZLUDA: why it was taken, what to know about it, what is against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Rejection
from rocenv.core.versions import allows, any_fits, joined, newest_first, series
from rocenv.data.releases import HipSdk, TorchSet
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.zluda.shelf import CHANNEL, Archive, named, packs_for, promises

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import GoodSet, Verdict
    from rocenv.data.releases import Pack, ZludaBuild
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Whole


def candidate(whole: Whole, case: Case) -> Candidate:
    """Return a whole that fits, with what should be said about it."""
    sdk: HipSdk = whole[0].part
    archive: Archive = whole[1].part
    pack: Pack | None = whole[2].part
    torch: TorchSet | None = whole[3].part if len(whole) > 3 else None
    target, build = case.request.target, archive.build
    parts = [
        Choice(kind="rocm", row=sdk, version=sdk.version, channel=CHANNEL, why=_why_sdk(sdk, pack, case)),
        Choice(
            kind="zluda",
            row=build,
            version=build.version,
            channel=build.project,
            why=_why_build(archive, sdk),
            asset=archive.asset,
        ),
    ]
    if pack is not None:
        why = f"the SDK's rocBLAS has no kernels for {target}; this pack is made for {joined(pack.targets)}"
        version = "/".join(pack.rocm)
        parts.append(Choice(kind="libraries", row=pack, version=version, channel=pack.provider, why=why))
    if torch is not None:
        pair = (
            "named together with this build"
            if allows(torch.zluda or "<0", build.version)
            else "fits any build"
        )
        parts.append(
            Choice(
                kind="torch",
                row=torch,
                version=torch.version,
                channel=torch.index,
                why=f"CUDA {torch.cuda}, which ZLUDA stands in for; {pair}",
                python=_python(sdk, build, torch, case),
            )
        )
    return Candidate(parts=tuple(parts), runs_as=target, notes=tuple(_notes(sdk, archive, pack, torch, case)))


def _why_sdk(sdk: HipSdk, pack: Pack | None, case: Case) -> str:
    support = promises(case).get(series(sdk.version))
    target = case.request.target
    promise = {
        None: f"AMD does not list {target}",
        "official": f"AMD supports {target}",
        "deprecated": f"AMD still supports {target}",
        "libraries": f"its libraries are built for {target}, without AMD's promise",
        "runtime": f"AMD's runtime runs on {target}, its libraries have no kernels for it",
        "unsupported": f"AMD lists {target} as not supported",
    }[support.level if support else None]
    by = named(sdk, case)
    return f"{promise}" + (f"; named for it by {joined(sorted({good.by for good in by}), 2)}" if by else "")


def _why_build(archive: Archive, sdk: HipSdk) -> str:
    build = archive.build
    release = series(sdk.version)
    is_for = archive.asset.rocm
    fits = release in is_for or release.split(".")[0] in is_for
    why = f"{archive.asset.name} is {'for' if fits else 'reported to work here with'} HIP SDK {release}"
    if build.preferred:
        why += "; the build that the apps take today"
    if build.built_against and release not in build.built_against:
        why += f"; it was built against {build.built_against}"
    return why


def _notes(
    sdk: HipSdk, archive: Archive, pack: Pack | None, torch: TorchSet | None, case: Case
) -> Iterator[str]:
    build, target = archive.build, case.request.target
    if build.driver and not case.driver:
        yield (
            f"ZLUDA {build.version} works with display drivers {build.driver}; this machine's is not known: "
            "say it with `--driver`"
        )
    if pack is not None:
        yield (
            f"the library pack replaces rocBLAS inside the env's own copy of the SDK; it is by "
            f"{pack.provider}, not by AMD, and fits HIP SDK {joined(pack.rocm)} only"
        )
        if target not in pack.targets and (
            featured := [t for t in pack.targets if t.startswith(target + ":")]
        ):
            yield f"the pack is made for {joined(featured)}: right where HIP reports the GPU so"
        if not pack.url:
            yield f"the pack's file name is not known: see release {pack.tag} of github.com/{pack.provider}"
    if not archive.asset.sha256:
        yield f"no hash of {archive.asset.name} is published: the first download's is recorded"
    yield from dict.fromkeys(_known(sdk, archive, pack, torch, case))
    for good in _naming(sdk, build, torch, case):
        if good.driver and not case.driver:
            yield f"{good.by} names it for display drivers {good.driver} ({good.source})"


def _naming(sdk: HipSdk, build: ZludaBuild, torch: TorchSet | None, case: Case) -> list[GoodSet]:
    """Return where the apps' makers name just this set for the target."""
    return [
        good
        for good in named(sdk, case)
        if allows(good.zluda, build.version) and (torch is None or allows(good.torch, torch.version))
    ]


def _python(sdk: HipSdk, build: ZludaBuild, torch: TorchSet | None, case: Case) -> str:
    """Return the newest Python that was asked for, first of those that the set is named with."""
    if torch is None:
        return ""
    named_with = {python for good in _naming(sdk, build, torch, case) for python in good.python}
    wanted = [python for python in torch.python if any_fits(case.request.python, (python,))]
    return min(wanted, key=lambda python: (python not in named_with, newest_first(python)), default="")


def _known(
    sdk: HipSdk, archive: Archive, pack: Pack | None, torch: TorchSet | None, case: Case
) -> Iterator[str]:
    """Yield what else is known of a set, and what it avoids."""
    for row in verdicts.about(case):
        if row.only_if and not row.targets:
            continue  # somebody's own trouble; `explain` tells it
        if row.verdict == "works" and row.driver and not case.driver:
            continue  # it may not be that driver
        drops = row.verdict == "broken" and not row.only_if
        if _concerns(row, sdk, archive, pack, torch, case):
            if not (drops and row.driver and archive.build.driver):  # that is said of the build already
                yield verdicts.told(row)
        elif drops and row.targets and row.rocm and row.zluda and allows(row.rocm, sdk.version):
            yield f"avoided: ZLUDA {row.zluda}: {row.what} ({row.source})"


def _concerns(
    row: Verdict, sdk: HipSdk, archive: Archive, pack: Pack | None, torch: TorchSet | None, case: Case
) -> bool:
    """Tell whether a verdict says something about a set that it does not drop."""
    build = archive.build
    return (
        row.project in ("", build.project)
        and bool(row.targets or row.zluda)
        and allows(row.rocm, sdk.version)
        and allows(row.zluda, build.version)
        and (not row.flavour or archive.asset.flavour in row.flavour)
        and not (row.pack == "none" and pack is not None)
        and (not row.torch or (torch is not None and allows(row.torch, torch.version)))
        and (not row.driver or not case.driver or allows(row.driver, case.driver))
    )


def title(sdk: HipSdk) -> str:
    """Return how an SDK is called."""
    return f"HIP SDK {sdk.version}"


def reason(rule: str, whole: Whole, case: Case) -> Rejection:
    """Return in words why a whole breaks a rule, with the source of the fact."""
    sdk: HipSdk = whole[0].part
    archive: Archive = whole[1].part
    request, build = case.request, archive.build
    name = f"ZLUDA {build.version} ({archive.asset.name})"
    if rule == "rocm":
        return _wish(title(sdk), f"HIP SDK {request.rocm}", sdk.version, sdk.source)
    if rule == "channel":
        return _wish(title(sdk), f"channel {request.channel}", CHANNEL, sdk.source)
    if rule == "zluda":
        return _wish(name, f"ZLUDA {request.zluda}", build.version, build.source)
    if rule == "build":
        return _no_build(sdk, archive, case)
    if rule == "driver":
        return Rejection(
            component=name,
            requirement=f"display driver {build.driver}",
            found=case.driver,
            source=build.source,
            text=f"{name} works with display drivers {build.driver}, and this one is {case.driver}",
        )
    if rule == "pack":
        return _no_pack(sdk, case)
    if verdicts.is_verdict(rule):
        return verdicts.reason(rule, _concerned(rule, whole), case)
    return _no_wheel(rule, whole[3].part, case)


def _concerned(rule: str, whole: Whole) -> str:
    """Return the parts of a whole that a verdict is about."""
    meant = [option for option in whole if rule in option.breaks | option.hits and option.part is not None]
    return " with ".join(_name(option.part) for option in meant) or title(whole[0].part)


def _name(part: HipSdk | Archive | Pack | TorchSet) -> str:
    if isinstance(part, HipSdk):
        return title(part)
    if isinstance(part, Archive):
        return f"ZLUDA {part.build.version} ({part.asset.name})"
    return f"torch {part.version}" if isinstance(part, TorchSet) else f"the library pack {part.asset}"


def _wish(name: str, wish: str, found: str, source: str) -> Rejection:
    text = f"{wish} is asked for, which leaves out {name}"
    return Rejection(component=name, requirement=wish, found=found, source=source, text=text)


def _no_build(sdk: HipSdk, archive: Archive, case: Case) -> Rejection:
    build = archive.build
    release = series(sdk.version)
    names = [f"{asset.name} for HIP SDK {joined(asset.rocm)}" for asset in build.assets if asset.rocm]
    found = "; ".join(names)
    return Rejection(
        component=f"ZLUDA {build.version}",
        requirement=f"an archive for HIP SDK {release}",
        found=f"has {found}",
        source=build.source,
        text=f"ZLUDA {build.version} has no archive for HIP SDK {release}, only {found}",
    )


def _no_pack(sdk: HipSdk, case: Case) -> Rejection:
    target = case.request.target
    release = series(sdk.version)
    there = packs_for(target, case.matrix)
    absent = sorted(
        (row.note, row.source)
        for row in case.matrix.pack
        if row.absent
        and release in map(series, row.rocm)
        and (not row.targets or target in (each.partition(":")[0] for each in row.targets))
    )
    if there:
        releases = sorted({series(version) for row in there for version in row.rocm})
        found = f"packs for {target} are for HIP SDK {joined(releases)} only"
        source = min(row.source for row in there)
    else:
        found = f"no pack for {target} is known"
        source = sdk.source
    if absent:
        note, source = absent[-1]
        found += f"; {note}" if note else ""
    return Rejection(
        component=title(sdk),
        requirement=f"rocBLAS kernels for {target}, of its own or in a library pack",
        found=found,
        source=source,
        text=f"{title(sdk)} has no rocBLAS kernels for {target}, and no library pack adds them: {found}",
    )


def _no_wheel(rule: str, row: TorchSet, case: Case) -> Rejection:
    name = f"torch {row.version}+cu{row.cuda.replace('.', '')}"
    if rule == "torch":
        return _wish(name, f"torch {case.request.torch}", row.version, row.source)
    found = f"Python {row.python[0]} to {row.python[-1]}"
    wish = f"Python {case.request.python}"
    text = f"{name} is used with {found}, and {wish} is asked for"
    return Rejection(component=name, requirement=wish, found=found, source=row.source, text=text)


def remarks(_case: Case) -> tuple[str, ...]:
    """Return nothing: the suggestions name what there is besides."""
    return ()

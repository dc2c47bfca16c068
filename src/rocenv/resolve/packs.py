"""Library packs: rocBLAS kernels for targets that a HIP SDK leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import joined, series
from rocenv.data.known import STATUS_RANK
from rocenv.resolve.combination import Option, rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Rejection
    from rocenv.data.windows import HipSdk, Pack
    from rocenv.resolve.combination import Case


def options(sdk: HipSdk, case: Case) -> list[Option]:
    """Return the packs for the target and an SDK with their ranks."""
    return [_option(pack) for pack in packs_for(sdk, case)]


def _option(pack: Pack) -> Option:
    quality = (not pack.url, not pack.proven, not pack.sha256, len(pack.targets), STATUS_RANK[pack.status])
    return Option(row=pack, rank=(*quality, pack.provider, pack.asset, pack.rocm))


def packs_for(sdk: HipSdk, case: Case) -> list[Pack]:
    """List the packs for the target and an SDK."""
    release = series(sdk.version)
    return [pack for pack in _packs_of(case) if release in map(series, pack.rocm)]


def _packs_of(case: Case) -> list[Pack]:
    """List the target's rocBLAS packs; features (`:xnack-`) do not matter on Windows."""
    return [
        row
        for row in case.matrix.pack
        if row.kind == "rocblas" and not row.absent and _is_for(row, case.request.target)
    ]


def _is_for(pack: Pack, target: str) -> bool:
    return target in (each.partition(":")[0] for each in pack.targets)


def notes(pack: Pack, target: str) -> Iterator[str]:
    """Yield what users of a pack must know."""
    yield (
        f"the library pack replaces rocBLAS in the env's own copy of the SDK; it comes from {pack.provider}, "
        f"not from AMD, and works only with HIP SDK {joined(pack.rocm)}"
    )
    featured = [each for each in pack.targets if each.startswith(target + ":")]
    if target not in pack.targets and featured:
        yield f"the pack is for {joined(featured)}: use it if HIP reports the GPU under this name"
    if not pack.url:
        yield (
            "the pack's file name is unknown, so `create` cannot download it. Look for it at "
            f"https://github.com/{pack.provider}/releases/tag/{pack.tag}, and add a `pack` row of your own "
            "with its name and URL (docs/data.md, `Add your own rows`)"
        )


def rejection(sdk: HipSdk, case: Case) -> Rejection:
    """Describe why no pack adds the target's kernels to an SDK."""
    target = case.request.target
    shown_by: HipSdk | Pack = sdk
    packs = _packs_of(case)
    found = f"rocenv has no pack for {target}"
    if packs:
        releases = sorted({series(version) for row in packs for version in row.rocm})
        found = f"packs for {target} are for HIP SDK {joined(releases)} only"
        shown_by = min(packs, key=lambda row: row.source)
    absent = [
        row
        for row in case.matrix.pack
        if row.absent
        and series(sdk.version) in map(series, row.rocm)
        and (not row.targets or _is_for(row, target))
    ]
    if absent:
        shown_by = max(absent, key=lambda row: (row.note, row.source))
        found += f"; {shown_by.note}" if shown_by.note else ""
    name, wanted = f"HIP SDK {sdk.version}", f"rocBLAS kernels for {target}, its own or from a library pack"
    text = f"{name} has no rocBLAS kernels for {target}, and no library pack adds them: {found}"
    return rejected(shown_by, name, wanted, found, text)

"""Which ZLUDA builds go with which HIP SDKs: they have an archive for it that is not known to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.explain.words import oldest_first
from rocenv.resolve.verdicts import Facts, applies, is_certain
from rocenv.resolve.zluda import serves

if TYPE_CHECKING:
    from rocenv.data.knowledge import Verdict
    from rocenv.data.releases import Asset, HipSdk, ZludaBuild
    from rocenv.data.rows import Matrix


def builds_for(matrix: Matrix, sdk: HipSdk) -> list[str]:
    """Return the versions of the builds that go with an SDK, oldest first."""
    return oldest_first(
        build.version
        for build in matrix.zluda
        for asset in build.assets
        if serves(asset, sdk.version) and against(matrix, build, asset, sdk) is None
    )


def sdks_for(matrix: Matrix, build: ZludaBuild, asset: Asset) -> list[str]:
    """Return the versions of the SDKs that an archive goes with, oldest first."""
    return oldest_first(
        sdk.version
        for sdk in matrix.hip_sdk
        if serves(asset, sdk.version) and against(matrix, build, asset, sdk) is None
    )


def against(matrix: Matrix, build: ZludaBuild, asset: Asset, sdk: HipSdk) -> Verdict | None:
    """Return what is known against an archive with an SDK, whatever the GPU, torch and driver are."""
    facts = Facts(
        platform="windows",
        rocm=sdk.version,
        zluda=build.version,
        project=build.project,
        flavour=asset.flavour,
    )
    for row in sorted(matrix.verdict, key=lambda row: (not row.code, row.what)):
        if row.targets or row.driver or row.torch or row.pack:
            continue
        if is_certain(row) and applies(row, facts):
            return row
    return None

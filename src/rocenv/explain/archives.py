"""Which ZLUDA builds go with which HIP SDKs: they have an archive for it that is not known to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import allows, series
from rocenv.explain.words import oldest_first

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


def serves(asset: Asset, version: str) -> bool:
    """Tell whether an archive is made for an SDK."""
    made_for = (series(version), version.split(".")[0])
    return asset.platform == "windows" and any(name in made_for for name in asset.rocm)


def against(matrix: Matrix, build: ZludaBuild, asset: Asset, sdk: HipSdk) -> Verdict | None:
    """Return what is known against an archive with an SDK, whatever the GPU, torch and driver are."""
    for row in sorted(matrix.verdict, key=lambda row: (not row.code, row.what)):
        if row.verdict != "broken" or row.targets or row.only_if or row.driver or row.torch or row.pack:
            continue
        if (
            row.platform == "windows"
            and row.project in ("", build.project)
            and allows(row.rocm, sdk.version)
            and allows(row.zluda, build.version)
            and (not row.flavour or asset.flavour in row.flavour)
        ):
            return row
    return None

"""Parts for Windows whose files the data itself names: HIP SDKs, builds of ZLUDA, rocBLAS library packs.

An artifact without a hash or size is one for which nobody publishes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Artifact, Component, Layout
from rocenv.core.template import fill
from rocenv.core.versions import series
from rocenv.data.environment import shims_for
from rocenv.data.releases import HipSdk, Pack, TorchSet, ZludaBuild

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Request, Shims
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate, Choice


def outline(choice: Choice, candidate: Candidate, _request: Request, context: Context) -> Component:
    """Return a part of a set for Windows with its files; see `Source`."""
    row = choice.row
    if isinstance(row, HipSdk):
        return _hip_sdk(choice, row)
    if isinstance(row, Pack):
        return _library_pack(choice, row, candidate, context.matrix)
    assert isinstance(row, ZludaBuild)
    return _zluda(choice, row, candidate, context.matrix)


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """Return the same as `outline`: the data names every file."""
    return outline(choice, candidate, request, context), ()


def _hip_sdk(choice: Choice, sdk: HipSdk) -> Component:
    installer = Artifact(
        kind="installer", name=sdk.installer, version=sdk.version, url=sdk.url, sha256="", size_bytes=0
    )
    return Component(
        kind=choice.kind,
        name="HIP SDK",
        version=choice.version,
        channel=choice.channel,
        why=choice.why,
        artifacts=(installer,),
        layout=sdk_layout(sdk),
        into=_folder(sdk),
    )


def _zluda(choice: Choice, build: ZludaBuild, candidate: Candidate, matrix: Matrix) -> Component:
    asset, sdk, torch = choice.asset, candidate.rocm.row, candidate.part("torch")
    assert asset is not None
    for_torch = torch.row if torch is not None else None
    assert for_torch is None or isinstance(for_torch, TorchSet)
    shims = shims_for(sdk, build, for_torch, matrix) if isinstance(sdk, HipSdk) else None
    archive = Artifact(
        kind="archive",
        name=asset.name,
        version=build.version,
        url=fill(build.url, {"tag": build.tag, "asset": asset.name}),
        sha256=asset.sha256,
        size_bytes=asset.size_bytes,
    )
    return Component(
        kind=choice.kind,
        name=f"ZLUDA of {build.project}",
        version=choice.version,
        channel=choice.channel,
        why=choice.why,
        artifacts=(archive,),
        layout=_zluda_layout(build, shims),
        into="zluda",
        anchor=shims.driver[0] if shims else "",
        shims=shims,
    )


def _library_pack(choice: Choice, pack: Pack, candidate: Candidate, matrix: Matrix) -> Component:
    sdk = candidate.rocm.row
    assert isinstance(sdk, HipSdk)
    archive = Artifact(
        kind="archive",
        name=pack.asset,
        version=choice.version,
        url=pack.url,
        sha256=pack.sha256,
        size_bytes=0,
    )
    return Component(
        kind=choice.kind,
        name="rocBLAS library pack",
        version=choice.version,
        channel=choice.channel,
        why=choice.why,
        artifacts=(archive,) if pack.url else (),
        places={row.member: row.place for row in matrix.pack_place if row.kind == pack.kind},
        into=_folder(sdk),
    )


def _folder(sdk: HipSdk) -> str:
    """Return the folder of an SDK below the prefix, named by its series as in AMD's own installation."""
    return f"rocm/{series(sdk.version)}"


def sdk_layout(sdk: HipSdk) -> Layout:
    """Build the layout of an SDK, below the prefix."""
    root = _folder(sdk)
    named = {"hip": sdk.runtime, "hiprtc": sdk.hiprtc}
    libraries = {role: names[0] for role, names in named.items() if names}
    for name in sdk.libraries:
        if name.startswith("rocblas"):
            libraries["rocblas"] = name
    return Layout(
        root=root,
        library_dirs=(f"{root}/bin",),
        libraries=libraries,
        bin=f"{root}/bin",
        runtime={"hip": series(sdk.version)},
    )


def _zluda_layout(build: ZludaBuild, shims: Shims | None) -> Layout | None:
    """Build the layout of a ZLUDA build, whose libraries have the names that torch loads."""
    if shims is None:
        return None
    return Layout(
        root="",
        library_dirs=(),
        libraries={"nvcuda": shims.driver[0], "cublas": shims.files[0].stands_for},
        runtime={"nvcuda": build.cuda} if build.cuda else {},
    )

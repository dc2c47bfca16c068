"""Windows components whose files are listed in the data: HIP SDKs, ZLUDA builds, and rocBLAS library packs.

An artifact has no hash or size if its publisher does not provide one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.model import Artifact, Component, Layout
from rocenv.core.template import fill
from rocenv.core.versions import series
from rocenv.data.environment import shims_for
from rocenv.data.releases import TorchSet
from rocenv.data.windows import HipSdk, Pack, ZludaBuild

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Request
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate, Choice


def outline(choice: Choice, candidate: Candidate, _request: Request, context: Context) -> Component:
    """Implement `Source.outline`; the data contains every file."""
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
    """Implement `Source.component`."""
    return outline(choice, candidate, request, context), ()


def _hip_sdk(choice: Choice, sdk: HipSdk) -> Component:
    installer = Artifact(
        kind="installer", name=sdk.installer, version=sdk.version, url=sdk.url, sha256="", size_bytes=0
    )
    root = _folder(sdk)
    named = {"hip": sdk.runtime, "hiprtc": sdk.hiprtc}
    libraries = {role: names[0] for role, names in named.items() if names}
    for name in sdk.libraries:
        if name.startswith("rocblas"):
            libraries["rocblas"] = name
    layout = Layout(
        root=root,
        library_dirs=(f"{root}/bin",),
        libraries=libraries,
        bin=f"{root}/bin",
        runtime={"hip": series(sdk.version)},
    )
    return replace(choice.outline("HIP SDK"), artifacts=(installer,), layout=layout, into=root)


def _zluda(choice: Choice, build: ZludaBuild, candidate: Candidate, matrix: Matrix) -> Component:
    asset, sdk = choice.asset, candidate.row(HipSdk)
    assert asset is not None
    assert sdk is not None
    shims = shims_for(sdk, build, candidate.row(TorchSet), matrix)
    layout = None
    if shims is not None:
        libraries = {"nvcuda": shims.driver[0], "cublas": shims.files[0].stands_for}
        runtime = {"nvcuda": build.cuda} if build.cuda else {}
        layout = Layout(root="", library_dirs=(), libraries=libraries, runtime=runtime)
    archive = Artifact(
        kind="archive",
        name=asset.name,
        version=build.version,
        url=fill(build.url, {"tag": build.tag, "asset": asset.name}),
        sha256=asset.sha256,
        size_bytes=asset.size_bytes,
    )
    return replace(
        choice.outline(f"ZLUDA of {build.project}"),
        artifacts=(archive,),
        layout=layout,
        into="zluda",
        anchor=shims.driver[0] if shims else "",
        shims=shims,
    )


def _library_pack(choice: Choice, pack: Pack, candidate: Candidate, matrix: Matrix) -> Component:
    sdk = candidate.row(HipSdk)
    assert sdk is not None
    archive = Artifact(
        kind="archive",
        name=pack.asset,
        version=choice.version,
        url=pack.url,
        sha256=pack.sha256,
        size_bytes=0,
    )
    return replace(
        choice.outline("rocBLAS library pack"),
        artifacts=(archive,) if pack.url else (),
        places={row.member: row.place for row in matrix.pack_place if row.kind == pack.kind},
        into=_folder(sdk),
    )


def _folder(sdk: HipSdk) -> str:
    """Return an SDK's folder in the prefix, named after the series as in AMD's own installer."""
    return f"rocm/{series(sdk.version)}"

"""Parts whose files the matrix itself names: what a set for Windows consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Artifact, Component, Layout
from rocenv.core.versions import newest_first, series, specifier, version_fits
from rocenv.data.releases import HipSdk, RocmWheels
from rocenv.data.zluda import shims_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import ArtifactKind, Request, Shims
    from rocenv.data.releases import ZludaBuild
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate


def components(candidate: Candidate, request: Request, matrix: Matrix) -> tuple[Component, ...]:
    """Return the parts of a set for Windows, in the order in which they build on each other.

    An artifact without a hash or size is one for which none is known anywhere.
    """
    return tuple(_components(candidate, request, matrix))


def _components(candidate: Candidate, request: Request, matrix: Matrix) -> Iterator[Component]:
    rocm, why = candidate.rocm, candidate.why
    if isinstance(rocm, HipSdk):
        installer = _artifact("installer", rocm.installer, rocm.version, rocm.url)
        yield Component(
            kind="rocm",
            name="HIP SDK",
            version=rocm.version,
            channel="hip-sdk",
            why=why["rocm"],
            artifacts=(installer,),
            layout=sdk_layout(rocm),
            into=f"rocm/{series(rocm.version)}",
        )
    elif isinstance(rocm, RocmWheels):
        yield Component(
            kind="rocm",
            name="ROCm wheels",
            version=rocm.version,
            channel=rocm.channel,
            why=why["rocm"],
            python=_python(rocm.python, request),
        )
    build, asset, pack, torch = candidate.zluda, candidate.asset, candidate.pack, candidate.torch
    if build is not None and asset is not None:
        url = build.url.format(tag=build.tag, asset=asset.name)
        shims = shims_for(rocm, build, torch, matrix) if isinstance(rocm, HipSdk) else None
        archive = _artifact("archive", asset.name, build.version, url, asset.sha256, asset.size_bytes)
        yield Component(
            kind="zluda",
            name=f"ZLUDA of {build.project}",
            version=build.version,
            channel=build.project,
            why=why["zluda"],
            artifacts=(archive,),
            layout=_zluda_layout(build, shims),
            into="zluda",
            anchor=shims.driver[0] if shims else "",
            shims=shims,
        )
    if pack is not None:
        version = "/".join(pack.rocm)
        files = (_artifact("archive", pack.asset, version, pack.url, pack.sha256),) if pack.url else ()
        yield Component(
            kind="libraries",
            name="rocBLAS library pack",
            version=version,
            channel=pack.provider,
            why=why["libraries"],
            artifacts=files,
            places={row.member: row.place for row in matrix.pack_place if row.kind == pack.kind},
            into=f"rocm/{series(rocm.version)}",
        )
    if torch is not None:
        yield Component(
            kind="torch",
            name="torch",
            version=f"{torch.version}+cu{torch.cuda.replace('.', '')}",
            channel=torch.index,
            why=why["torch"],
            python=candidate.python,
        )


def sdk_layout(sdk: HipSdk) -> Layout:
    """Return where things lie in an SDK below `rocm/`: in a folder of its series, as AMD has it."""
    root = series(sdk.version)
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
        runtime={"hip": root},
    )


def _zluda_layout(build: ZludaBuild, shims: Shims | None) -> Layout | None:
    """Return how a build is called through the names that torch uses, and what it says of itself."""
    if shims is None:
        return None
    return Layout(
        root="",
        library_dirs=(),
        libraries={"nvcuda": shims.driver[0], "cublas": shims.files[0].stands_for},
        runtime={"nvcuda": build.cuda} if build.cuda else {},
    )


def _artifact(
    kind: ArtifactKind, name: str, version: str, url: str, sha256: str = "", size_bytes: int = 0
) -> Artifact:
    return Artifact(
        kind=kind,
        name=name,
        version=version,
        url=url,
        sha256=sha256,
        size_bytes=size_bytes,
    )


def _python(known: tuple[str, ...], request: Request) -> str:
    """Return the newest Python among those known to do that was asked for."""
    wanted = specifier(request.python or "*", "--python")
    fitting = [version for version in known if version_fits(wanted, version, floating=True)]
    return min(fitting, key=newest_first, default="")

"""Parts whose files the matrix itself names: what a set for Windows consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.matrix.releases import HipSdk, RocmWheels
from rocenv.model import Artifact, Component
from rocenv.resolve.versions import newest_first, specifier, version_fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.model import ArtifactKind, Request
    from rocenv.resolve import Candidate


def components(candidate: Candidate, request: Request) -> tuple[Component, ...]:
    """Return the parts of a set for Windows, in the order in which they build on each other.

    An artifact without a hash or size is one for which none is known anywhere.
    """
    return tuple(_components(candidate, request))


def _components(candidate: Candidate, request: Request) -> Iterator[Component]:
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
        archive = _artifact("archive", asset.name, build.version, url, asset.sha256, asset.size_bytes)
        yield Component(
            kind="zluda",
            name=f"ZLUDA of {build.project}",
            version=build.version,
            channel=build.project,
            why=why["zluda"],
            artifacts=(archive,),
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

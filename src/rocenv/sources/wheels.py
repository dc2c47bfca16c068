"""Resolve PyTorch's requirements to exact wheels with hashes.

torch, its GPU companions, and all dependencies come only from the index in the matrix row, which prevents
uv from selecting a CPU build or a build for another GPU. The exceptions are other packages that the row
pins, such as numpy: they come from the system's general index and replace those from the row's index.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.logins import shown
from rocenv.core.model import VENV, Artifact, Component, venv_layout
from rocenv.core.versions import series, specifier
from rocenv.data.releases import TorchSet
from rocenv.sources import unreachable
from rocenv.sources.general_index import from_first, general_indices, with_companions
from rocenv.sources.interpreter import find_python
from rocenv.sources.rocm_wheels import COMPANIONS, torch_component
from rocenv.sources.simple_index import with_sizes
from rocenv.sources.uv import Uv
from rocenv.sources.uv_outcome import index_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Request
    from rocenv.resolve import Candidate, Choice
    from rocenv.sources.interpreter import Interpreter

# Projects whose local version (`+rocm6.2`) identifies the GPU build.
_GPU_BUILDS = frozenset({"torch", *COMPANIONS})


def outline(choice: Choice, _candidate: Candidate, _request: Request, _context: Context) -> Component:
    """Implement `Source.outline`."""
    row = choice.row
    assert isinstance(row, TorchSet)
    return replace(choice.outline("torch"), version=row.build, into=VENV)


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """List torch's wheels for a Python on this machine; see `Source`.

    Raises:
        ResolutionImpossible: The index has no matching wheels for this Python.
        FetchError: The index is unreachable.
    """
    row = choice.row
    assert isinstance(row, TorchSet)
    if row.channel:
        return torch_component(choice, candidate, request, context)
    uv = Uv.for_context(context)
    python = find_python(choice.python or request.python or _default_python(row.python), uv)
    with unreachable.tracked(
        urlsplit(row.index).netloc,
        context,
        hint=f"try again in ten minutes; {context.network.mirror_hint(row.index)}",
    ):
        found = resolve_wheels(
            list(_requirements(row, request)),
            index_url=row.index,
            local=row.build.partition("+")[2],
            python=python,
            uv=uv,
            candidates=context.network.candidates,
        )
    pins = {name: version for name, version in row.companions.items() if name not in _GPU_BUILDS}
    indices = general_indices(os.environ, context.network)
    wheels = with_companions(found, pins, index_urls=indices, python=python, uv=uv)
    part = replace(
        outline(choice, candidate, request, context),
        version=next(wheel.version for wheel in wheels if wheel.name == "torch"),
        artifacts=with_sizes(wheels, context.network),
        python=python.version,
        layout=venv_layout(python.version, request.platform),
        into=VENV,
    )
    return part, ()


def resolve_wheels(
    requirements: Sequence[str],
    *,
    index_url: str,
    local: str,
    python: Interpreter,
    uv: Uv,
    candidates: Callable[[str], Sequence[str]] = lambda url: (url,),
) -> tuple[Artifact, ...]:
    """Select wheels for `requirements` with all dependencies, sorted by name.

    Each wheel has a sha256. `size_bytes` is 0 if the index does not publish it. Only the index and its
    mirrors (`candidates`) are used. torch and its companions must have the local version `local` (`rocm6.2`).

    Raises:
        ResolutionImpossible: The index cannot satisfy the requirements for this interpreter, or can do so
          only with builds for other GPUs.
        FetchError: Neither the index nor any of its mirrors is reachable, or a wheel has no hash.
    """

    def resolve(url: str) -> tuple[Artifact, ...]:
        found = uv.resolve(requirements, index_url=url, python=python)
        return tuple(replace(wheel, url=_original_url(wheel.url, url, index_url)) for wheel in found)

    wheels = from_first(candidates(index_url), resolve, uv)
    for wheel in wheels:
        if wheel.name in _GPU_BUILDS and wheel.version.partition("+")[2] != local:
            raise ResolutionImpossible(
                f"the newest {wheel.name} in {index_name(index_url)} is {wheel.version}, "
                f"which is not built for `{local}`",
                hints=(f"use `--torch` to request an older release that is built for `{local}`",),
            )
    return wheels


def _requirements(row: TorchSet, request: Request) -> Iterator[str]:
    wanted = specifier(request.torch, "--torch")
    yield f"torch=={row.version}.*" + (f",{wanted}" if str(wanted) else "")
    for name, version in row.companions.items():
        if name in _GPU_BUILDS:
            yield f"{name}=={version}.*"


def _default_python(supported: tuple[str, ...]) -> str:
    """Return "" (rocenv's own Python) if torch supports it, otherwise the newest series torch supports."""
    return "" if series(platform.python_version()) in supported else supported[-1]


def _original_url(url: str, mirror: str, original: str) -> str:
    """Replace the mirror in a URL with the original index, so that the lock works on any machine."""
    base, found = f"{shown(mirror).rstrip('/')}/", shown(url)  # uv omits the mirror's password
    return f"{original.rstrip('/')}/{found.removeprefix(base)}" if found.startswith(base) else url

"""Wheel indices: from requirements to the exact wheels, with their hashes.

torch, its siblings for the GPU and all they depend on come from the index of the matrix row alone: no
general index is asked for them, so that a CPU build or one for another CUDA cannot win. What the row names
beside them (numpy) comes from the general index of this machine, and takes the place of what the row's has.
"""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from rocenv.core.errors import FetchError, ResolutionImpossible, RocenvError
from rocenv.core.model import Artifact, Component
from rocenv.core.versions import specifier
from rocenv.net import unreachable as outage
from rocenv.sources.pip_settings import pip_settings
from rocenv.sources.wheel_errors import index_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Request
    from rocenv.data.releases import TorchSet
    from rocenv.net import Network
    from rocenv.resolve import Candidate
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.wheel_tool import WheelTool

T = TypeVar("T")

GENERAL = "pypi:"  # the key of `[mirrors]` for the general index
_AGAIN = "ask again in ten minutes, or name a mirror: `rocenv config set mirrors.INDEX MIRROR`"
# The projects whose local version (`+rocm6.2`) says which GPUs they are built for.
_GPU_BUILDS = frozenset({"torch", "torchaudio", "torchvision"})


def component(candidate: Candidate, request: Request, context: Context) -> tuple[Component, tuple[str, ...]]:
    """Return the wheels of a candidate's torch, which it must have, as a component; see `Source`.

    They are those for a Python of this machine, whatever platform the set is for.

    Raises:
        ResolutionImpossible: The index has no such wheels for this Python.
        FetchError: The index does not answer.
    """
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.wheel_tool import choose_tool

    row = candidate.torch
    assert row is not None
    _require_no_outage(row.index, context)
    tool = choose_tool(context.home, offline=context.network.is_offline, tell=context.note)
    python = find_python(candidate.python or request.python or _python_for(row.python), tool)
    try:
        found = resolve_wheels(
            list(_requirements(row, request)),
            index_url=row.index,
            local=local_version(row),
            python=python,
            tool=tool,
            candidates=context.network.candidates,
        )
    except FetchError as failure:
        outage.remember(urlsplit(row.index).netloc, failure, context.home, context.network.mirrors)
        raise
    outage.forget(urlsplit(row.index).netloc, context.home)
    pins = {name: version for name, version in row.companions.items() if name not in _GPU_BUILDS}
    wheels = with_companions(
        found, pins, index_urls=general_indices(os.environ, context.network), python=python, tool=tool
    )
    part = Component(
        kind="torch",
        name="torch",
        version=next(wheel.version for wheel in wheels if wheel.name == "torch"),
        channel=row.index,
        why=candidate.why["torch"],
        artifacts=_with_sizes(wheels, context.network),
        python=python.version,
    )
    return part, ()


def local_version(row: TorchSet) -> str:
    """Return what the builds of a row carry after their version: `rocm6.2`, `cu118`."""
    return f"rocm{row.rocm}" if row.rocm else f"cu{row.cuda.replace('.', '')}"


def _requirements(row: TorchSet, request: Request) -> Iterator[str]:
    wanted = specifier(request.torch, "--torch")
    yield f"torch=={row.version}.*" + (f",{wanted}" if str(wanted) else "")
    for name, version in row.companions.items():
        if name in _GPU_BUILDS:
            yield f"{name}=={version}.*"


def general_indices(environ: Mapping[str, str], network: Network) -> tuple[str, ...]:
    """Return the general index of this machine, after the mirrors that are set for it.

    It is the one that uv or pip is told to use; "" = neither is told, and uses its own.
    """
    own = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or ""
    name, _, address = own.partition("=")
    if address and "/" not in name:  # NAME=ADDRESS
        own = address
    return (*network.candidates(GENERAL), own or pip_settings(environ).get("index-url", ""))


def with_companions(
    wheels: Sequence[Artifact],
    pins: Mapping[str, str],
    *,
    index_urls: Sequence[str],
    python: Interpreter,
    tool: WheelTool,
) -> tuple[Artifact, ...]:
    """Return the wheels with those of `pins` (project -> version) in the place of others of their name.

    Raises:
        ResolutionImpossible: No address has them for this interpreter.
        FetchError: None answers.
    """
    if not pins:
        return tuple(wheels)
    wanted = [f"{name}=={version}" for name, version in pins.items()]

    def ask(url: str) -> tuple[Artifact, ...]:
        return tool.resolve(wanted, index_url=url, python=python, dependencies=False)

    found = _first(index_urls, ask, tool)
    names = {wheel.name for wheel in found}
    kept = [wheel for wheel in wheels if wheel.name not in names]
    return tuple(sorted((*kept, *found), key=lambda wheel: wheel.name))


def _require_no_outage(index: str, context: Context) -> None:
    """Raise FetchError where the index did not answer some minutes ago, unless only fresh news will do."""
    if context.max_age_s and not context.network.is_offline:
        place = urlsplit(index).netloc
        failure = outage.recall(place, context.home, context.network.mirrors, hint=_AGAIN)
        if failure is not None:
            raise failure


def _python_for(series: tuple[str, ...]) -> str:
    """Return what to ask for: "" (rocenv's own Python) if that will do, else the newest that does."""
    own = ".".join(platform.python_version_tuple()[:2])
    return "" if own in series else series[-1]


def _with_sizes(wheels: tuple[Artifact, ...], network: Network) -> tuple[Artifact, ...]:
    """Return the wheels with their sizes, which most indices do not say."""

    def sized(wheel: Artifact) -> Artifact:
        return wheel if wheel.size_bytes else replace(wheel, size_bytes=network.size_of(wheel.url))

    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(sized, wheels))


def resolve_wheels(
    requirements: Sequence[str],
    *,
    index_url: str,
    local: str,
    python: Interpreter,
    tool: WheelTool,
    candidates: Callable[[str], Sequence[str]] = lambda url: (url,),
) -> tuple[Artifact, ...]:
    """Return the wheels that fulfil `requirements` and all they depend on, sorted by name.

    Each has a sha256. Where the index names none, the tool fetches that wheel once to compute it, and
    `tool.tell` hears of the download. `size_bytes` is 0 where the index does not say it.

    Args:
        requirements: PEP 508, such as `torch==2.5.*`.
        index_url: The index of the matrix row; no other is asked.
        local: The local version that torch and its siblings must carry: `rocm6.2`.
        python: The interpreter that the wheels are for.
        tool: Resolves.
        candidates: The addresses to try for an index, in order: mirrors and itself.

    Raises:
        ResolutionImpossible: The index cannot fulfil the requirements for this interpreter, or only with
            builds for other GPUs.
        FetchError: No address of the index answers, or a wheel has no hash.
    """

    def ask(url: str) -> tuple[Artifact, ...]:
        found = tool.resolve(requirements, index_url=url, python=python)
        return tuple(replace(wheel, url=_original(wheel.url, url, index_url)) for wheel in found)

    artifacts = _first(candidates(index_url), ask, tool)
    _require_local(artifacts, local, index_url)
    return artifacts


def _first(urls: Sequence[str], ask: Callable[[str], T], tool: WheelTool) -> T:
    """Return what the first address gives that gives something."""
    errors: list[RocenvError] = []
    for url in urls:
        if errors:
            tool.tell(f"{errors[-1]}; trying {index_name(url)}")
        try:
            return ask(url)
        except RocenvError as error:
            errors.append(error)
    # Mirrors that cannot be reached say less than an index that answered.
    raise next((error for error in errors if isinstance(error, ResolutionImpossible)), errors[-1])


def _original(url: str, mirror: str, original: str) -> str:
    """Return an address below a mirror as it is below what is mirrored: a lock is good on any machine."""
    base = mirror.rstrip("/") + "/"
    return f"{original.rstrip('/')}/{url.removeprefix(base)}" if url.startswith(base) else url


def _require_local(artifacts: Sequence[Artifact], local: str, index_url: str) -> None:
    for artifact in artifacts:
        if artifact.name in _GPU_BUILDS and artifact.version.partition("+")[2] != local:
            raise ResolutionImpossible(
                f"the newest that {index_url} offers is {artifact.name} {artifact.version}, "
                f"which is no build for `{local}`",
                hints=(f"ask for one that is: `--torch '==VERSION+{local}'`",),
            )

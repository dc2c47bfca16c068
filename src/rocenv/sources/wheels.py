"""Wheel indices: from requirements to the exact wheels, with their hashes.

uv resolves against the index of the matrix row alone: no general index is ever asked, so that a CPU or CUDA
build of the same name cannot win.
"""

from __future__ import annotations

import os
import platform
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rocenv import outage
from rocenv.errors import FetchError, ResolutionImpossible, RocenvError
from rocenv.model import Artifact, Component
from rocenv.resolve.versions import specifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.model import Request
    from rocenv.net import Network
    from rocenv.resolve import Candidate
    from rocenv.sources import Work
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Outcome, Uv

# What uv says where no connection came about.
_NO_ANSWER = re.compile(
    "dns error|failed to lookup address|tcp connect error|operation timed out|Connection refused"
)
_AGAIN = "ask again in ten minutes, or name a mirror: `rocenv config set mirrors.INDEX MIRROR`"
# The projects whose local version (`+rocm6.2`) says which GPUs they are built for.
_GPU_BUILDS = frozenset({"torch", "torchaudio", "torchvision"})


def component(candidate: Candidate, request: Request, work: Work) -> tuple[Component, tuple[str, ...]]:
    """Return the wheels of a candidate's torch, which it must have, as a component; see `Source`.

    Raises:
        ResolutionImpossible: The index has no such wheels for this Python.
        FetchError: The index does not answer.
    """
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.uv import Uv

    row = candidate.torch
    assert row is not None
    uv = Uv(
        cache=work.home.uv_cache,
        pythons=work.home.pythons,
        environ=os.environ,
        offline=work.network.is_offline,
        tell=work.tell,
    )
    _require_no_outage(row.index, work)
    python = find_python(request.python or _python_for(row.python), uv)
    wanted = specifier(request.torch, "--torch")
    try:
        found = resolve_wheels(
            [f"torch=={row.version}.*" + (f",{wanted}" if str(wanted) else "")],
            index_url=row.index,
            local=f"rocm{row.rocm}",
            python=python,
            uv=uv,
            candidates=work.network.candidates,
        )
    except FetchError as failure:
        outage.remember(urlsplit(row.index).netloc, failure, work.home, work.network.mirrors)
        raise
    outage.forget(urlsplit(row.index).netloc, work.home)
    part = Component(
        kind="torch",
        name="torch",
        version=next(wheel.version for wheel in found if wheel.name == "torch"),
        channel=row.index,
        why=candidate.why["torch"],
        artifacts=_with_sizes(found, work.network),
        python=python.version,
    )
    return part, ()


def _require_no_outage(index: str, work: Work) -> None:
    """Raise FetchError where the index did not answer some minutes ago, unless only fresh news will do."""
    if work.max_age_s and not work.network.is_offline:
        place = urlsplit(index).netloc
        failure = outage.recall(place, work.home, work.network.mirrors, hint=_AGAIN)
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
    uv: Uv,
    extra_index_urls: Sequence[str] = (),
    candidates: Callable[[str], Sequence[str]] = lambda url: (url,),
) -> tuple[Artifact, ...]:
    """Return the wheels that fulfil `requirements` and all they depend on, sorted by name.

    Each has a sha256. Where the index names none, uv fetches that wheel once to compute it, and `uv.tell`
    hears of the download. `size_bytes` is 0 where the index does not say it.

    Args:
        requirements: PEP 508, such as `torch==2.5.*`.
        index_url: The index of the matrix row. A project that it has is taken from nowhere else.
        local: The local version that torch and its siblings must carry: `rocm6.2`.
        python: The interpreter that the wheels are for.
        uv: Resolves, with its cache of index pages; offline, only with that.
        extra_index_urls: Asked in this order, for projects that the ones before do not have.
        candidates: The addresses to try for an index, in order: mirrors and itself.

    Raises:
        ResolutionImpossible: The index cannot fulfil the requirements for this interpreter, or only with
            builds for other GPUs.
        FetchError: No address of the index answers, or a wheel has no hash.
    """
    errors: list[RocenvError] = []
    routes = [tuple(candidates(url)) for url in (index_url, *extra_index_urls)]
    for turn in range(max(map(len, routes))):
        urls = [route[min(turn, len(route) - 1)] for route in routes]
        if errors:
            uv.tell(f"{errors[-1]}; trying {urls[0]}")
        try:
            pylock = _compile(requirements, urls, python, uv)
        except RocenvError as error:
            errors.append(error)
            continue
        rank = _ranks(python)
        found = (_artifact(package, rank) for package in pylock["packages"])  # uv sorts by name
        originals = [route[-1] for route in routes]
        artifacts = tuple(replace(wheel, url=_original(wheel.url, urls, originals)) for wheel in found)
        _require_local(artifacts, local, urls[0])
        return artifacts
    # Mirrors that cannot be reached say less than an index that answered.
    raise next((error for error in errors if isinstance(error, ResolutionImpossible)), errors[-1])


def _compile(requirements: Sequence[str], urls: Sequence[str], python: Interpreter, uv: Uv) -> dict[str, Any]:
    import tomlkit

    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        wanted = Path(folder) / "requirements.in"
        wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        # uv asks each `--index` before the default one, and takes a project from the first that has it.
        outcome = uv.run(
            *("pip", "compile", str(wanted), "--format=pylock.toml", "--only-binary=:all:"),
            *(f"--index={url}" for url in urls[:-1]),
            *(f"--default-index={urls[-1]}", "--index-strategy=first-index", f"--python={python.path}"),
        )
    if outcome.code:
        raise _failure(outcome, requirements, urls[0], python)
    return tomlkit.parse(outcome.stdout).unwrap()


def _failure(
    outcome: Outcome, requirements: Sequence[str], index_url: str, python: Interpreter
) -> RocenvError:
    what, stderr = " ".join(requirements), outcome.stderr
    project, pythons = outcome.fitting_pythons
    if pythons:
        return ResolutionImpossible(
            f"{index_url} has `{project}` for Python {', '.join(pythons)}, not for {python.series}",
            hints=(f"--python {pythons[-1]}",),
        )
    if "network was disabled" in stderr:
        return FetchError(
            f"offline, and not all of `{what}` from {index_url} is known from before",
            hints=("run the same command once without `--offline`",),
        )
    if "No solution found" in stderr:
        return ResolutionImpossible(
            f"{index_url} cannot give `{what}` for Python {python.series}: {outcome.reason}",
            hints=(f"look at {index_url}: a proxy's or provider's page may stand in its place",)
            if "there are no versions of" in stderr
            else (),
        )
    code = "unreachable" if _NO_ANSWER.search(stderr) else None
    return FetchError(f"cannot resolve `{what}` from {index_url}: {outcome.reason}", code=code)


def _artifact(package: dict[str, Any], rank: Callable[[str], int]) -> Artifact:
    name, version = package["name"], package.get("version", "")
    wheels = package.get("wheels", [])
    if not wheels:
        raise FetchError(f"{name} {version} is no wheel in the index")
    wheel = min(wheels, key=lambda wheel: rank(wheel_file_name(wheel["url"])))
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    if not sha256:
        raise FetchError(f"the index names no sha256 for {wheel['url']}")
    return Artifact(
        kind="wheel",
        name=name,
        version=version,
        url=wheel["url"].partition("#")[0],
        sha256=sha256,
        size_bytes=wheel.get("size", 0),
    )


def _original(url: str, mirrors: Sequence[str], originals: Sequence[str]) -> str:
    """Return an address below a mirror as it is below what is mirrored: a lock is good on any machine."""
    for mirror, original in zip(mirrors, originals, strict=True):
        base = mirror.rstrip("/") + "/"
        if url.startswith(base):
            return f"{original.rstrip('/')}/{url.removeprefix(base)}"
    return url


def wheel_file_name(url: str) -> str:
    """Return the file name of the wheel at `url`, a plain one even where the address hides slashes in it."""
    return unquote(url.partition("#")[0]).rpartition("/")[2]


def _ranks(python: Interpreter) -> Callable[[str], int]:
    """Return what tells, of a wheel's file name, how specific it is to this machine; lower is better.

    uv leaves only wheels that fit, but often several of them.
    """
    from packaging.tags import compatible_tags, cpython_tags, platform_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    platforms = list(platform_tags())
    major, minor = map(int, python.series.split("."))
    interpreter = f"cp{major}{minor}"
    abi = interpreter + ("t" if python.free_threaded else "")
    tags = [
        *cpython_tags((major, minor), abis=[abi], platforms=platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    ]
    order = {tag: position for position, tag in enumerate(tags)}

    def rank(file_name: str) -> int:
        try:
            return min(order.get(tag, len(order)) for tag in parse_wheel_filename(file_name)[3])
        except InvalidWheelFilename:
            return len(order)

    return rank


def _require_local(artifacts: Sequence[Artifact], local: str, index_url: str) -> None:
    for artifact in artifacts:
        if artifact.name in _GPU_BUILDS and artifact.version.partition("+")[2] != local:
            raise ResolutionImpossible(
                f"the newest that {index_url} offers is {artifact.name} {artifact.version}, "
                f"which is no build for `{local}`",
                hints=(f"ask for one that is: `--torch '==VERSION+{local}'`",),
            )

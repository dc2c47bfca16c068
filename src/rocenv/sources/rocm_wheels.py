"""ROCm as Python wheels, and PyTorch built against them, from one ROCm release's index.

All components are built for exactly that release. PEP 440 sorts `+rocm10` before `+rocm7`, so rocenv chooses
builds by their local version and uses uv only for their dependencies.
"""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from rocenv.core.errors import NotAvailable, RocenvError
from rocenv.core.logins import shown
from rocenv.core.model import VENV, venv_layout
from rocenv.core.versions import joined, series, specifier, version_of
from rocenv.data.releases import RocmWheels, TorchSet
from rocenv.sources import c_library, unreachable
from rocenv.sources.general_index import from_first, general_indices, with_companions
from rocenv.sources.interpreter import find_python, ranking
from rocenv.sources.simple_index import SimpleIndex, with_sizes
from rocenv.sources.uv import Uv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Component, Layout, Lock, Request
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate, Choice
    from rocenv.sources.interpreter import Interpreter

COMPANIONS = ("torchvision", "torchaudio")  # included in every env with torch, if available


def outline(choice: Choice, _candidate: Candidate, request: Request, _context: Context) -> Component:
    """Implement `Source.outline`."""
    row = _wheels(choice)
    layout = _layout(row, request, "") if request.platform == "windows" else None
    return replace(choice.outline("ROCm wheels"), layout=layout, into=VENV)


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """List ROCm's own wheels; see `Source`."""
    row, request = _wheels(choice), _for_its_kernels(candidate, request)
    python = _python(candidate, request, Uv.for_context(context))
    index = _index(row, python, context)
    with _tracked(row, context):
        release = _release(row, candidate, request, index, context)
        allowed = _exactly(release) if not row.flat else _any
        found = _each(_projects(row, request), lambda name: index.newest(name, allowed))
        artifacts = with_sizes(found, context.network)
    part = replace(
        outline(choice, candidate, request, context),
        version=release,
        artifacts=artifacts,
        python=python.version,
        glibc=row.glibc,
        loader=row.loader if _brings_c_library(row) else "",
        layout=_layout(row, request, python.version),
    )
    return part, tuple(_notes(row, request))


def torch_component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """List the wheels for PyTorch and its dependencies except ROCm; see `Source`."""
    row, rocm = choice.row, candidate.row(RocmWheels)
    assert isinstance(row, TorchSet)
    assert rocm is not None
    request = _for_its_kernels(candidate, request)
    python = _python(candidate, request, Uv.for_context(context))
    index = _index(rocm, python, context)
    with _tracked(rocm, context):
        release = _release(rocm, candidate, request, index, context)
        builds, notes = _builds(row, rocm, release, request, index)
        versions = _closure(builds, row, rocm, request, python, context)
        own = {*builds, *_projects(rocm, request)}
        others = {name: version for name, version in versions.items() if name not in own}
        found = _with_dependencies(builds.values(), others, rocm, index, python, context)
        artifacts = with_sizes(found, context.network)
    part = replace(
        choice.outline("torch"),
        version=builds["torch"].version,
        artifacts=artifacts,
        python=python.version,
        layout=venv_layout(python.version, request.platform),
        into=VENV,
    )
    return part, tuple(notes)


def for_targets(lock: Lock, targets: tuple[str, ...], matrix: Matrix) -> Lock:
    """Narrow a lock to some of its targets, dropping the kernel wheels for the others.

    Raises:
        RocenvError: The lock does not support one of the targets.
    """
    if missing := [each for each in targets if each not in lock.targets]:
        raise RocenvError(
            f"the set is for {joined(lock.targets)}, not for {joined(missing)}",
            hints=("use one of its targets, or omit `--target` to support them all",),
        )
    named = {name for row in matrix.rocm_wheels for name in (*row.packages, *row.devel)}
    patterns = {name for name in named if "{target}" in name}
    patterns.update(name for row in matrix.torch for name in row.kernels.values())
    others = [each for each in lock.targets if each not in targets]
    dropped = {name.replace("{target}", target) for name in patterns for target in others}
    return replace(
        lock,
        target=targets[0],
        request=replace(lock.request, target=targets[0], more_targets=targets[1:]),
        components=tuple(
            replace(part, artifacts=tuple(each for each in part.artifacts if each.name not in dropped))
            for part in lock.components
        ),
        warnings=tuple(text for text in lock.warnings if not any(each in text for each in others)),
    )


def _wheels(choice: Choice) -> RocmWheels:
    row = choice.row
    assert isinstance(row, RocmWheels)
    return row


def _for_its_kernels(candidate: Candidate, request: Request) -> Request:
    """Replace the target with the one that the override makes the GPU report."""
    return replace(request, target=candidate.runs_as)


def _index(row: RocmWheels, python: Interpreter, context: Context) -> SimpleIndex:
    return SimpleIndex(
        url=row.index,
        network=context.network,
        kept=context.home.indices / "wheels",
        key_file=context.home.key,
        rank=ranking(python),
        flat=row.flat,
        hashes={each.file: each.sha256 for each in context.matrix.file_hash if each.index == row.index},
        archives=row.packages[:1],
        pages=context.index_pages,
    )


def _tracked(row: RocmWheels, context: Context) -> AbstractContextManager[None]:
    host = urlsplit(row.index).netloc
    hint = f"try again in ten minutes; {context.network.mirror_hint(row.index)}"
    return unreachable.tracked(host, context, hint=hint)


def _python(candidate: Candidate, request: Request, uv: Uv) -> Interpreter:
    """Find a Python that all wheels of a set support: the requested one, rocenv's own, or the newest."""
    row = candidate.row(TorchSet) or candidate.row(RocmWheels)
    supported = row.python if row else ()
    own = series(platform.python_version())
    return find_python(request.python or ("" if own in supported else supported[-1]), uv)


def _projects(row: RocmWheels, request: Request) -> list[str]:
    names = (*row.packages, *(row.devel if request.dev else ()))
    found = (name.replace("{target}", target) for name in names for target in request.targets)
    return list(dict.fromkeys(found))


def _layout(row: RocmWheels, request: Request, python: str) -> Layout:
    layout = replace(row.layout, root=row.devel_root) if request.dev and row.devel_root else row.layout
    venv = venv_layout(python, request.platform)
    return replace(layout.below(venv.site_packages), python=venv.python, site_packages=venv.site_packages)


def _release(
    row: RocmWheels, candidate: Candidate, request: Request, index: SimpleIndex, context: Context
) -> str:
    """Determine the exact release: on a rolling channel, the newest one with all parts of the set."""
    if not row.floating:
        return row.version
    parts = {name: index.versions(name) for name in _projects(row, request)}
    if torch := candidate.row(TorchSet):
        builds = index.versions("torch")
        fit = {_rocm_of(each) for each in builds if _meets(each, torch.version, request.torch)}
        parts[f"torch {torch.version}"] = fit
    fitting = {
        name: {each for each in versions if _meets(each, row.version, request.rocm)}
        for name, versions in parts.items()
    }
    if found := set.intersection(*fitting.values()):
        return max(found, key=version_of)
    raise _no_build(fitting, row, request, context)


def _no_build(
    fitting: Mapping[str, set[str]], row: RocmWheels, request: Request, context: Context
) -> NotAvailable:
    """Explain which packages are missing, or that no single build has them all."""
    exact = [each.version for each in specifier(request.rocm, "--rocm") if "*" not in each.version]
    nightly = next((each for each in exact if version_of(each).is_prerelease), "")
    wanted = f"ROCm {nightly or row.version}"
    missing = [f"`{name}`" for name, versions in fitting.items() if not versions]
    lack = f"no {joined(missing)} for {wanted}"
    if not missing:
        lack = f"no single build of {wanted} with all of the set's packages"
    elif len(missing) == len(fitting):
        lack = f"no build of {wanted}"
    elsewhere = [
        f"add `--channel {each.channel}`, which has nightly builds"
        for each in context.matrix.rocm_wheels
        if nightly and context.matrix.channels[each.channel].only_named and not request.channel
        if (each.version, each.platform) == (row.version, row.platform)
    ]
    known = f"`rocenv explain rocm-{series(row.version)}` shows what is known about this release"
    return NotAvailable(f"{shown(row.index)} has {lack}", hints=(*elsewhere, known))


def _meets(version: str, *specs: str) -> bool:
    return all(version in specifier(spec, "--rocm") for spec in specs if spec)


def _rocm_of(version: str) -> str:
    """Return a build's ROCm release: `10.0.0` for `2.13.0+rocm10.0.0`."""
    return (version_of(version).local or "").rpartition("rocm")[2]


def _exactly(release: str) -> Callable[[str], bool]:
    return lambda version: version_of(version) == version_of(release)


def _any(_version: str) -> bool:
    return True


def _builds(
    row: TorchSet,
    rocm: RocmWheels,
    release: str,
    request: Request,
    index: SimpleIndex,
) -> tuple[dict[str, Artifact], list[str]]:
    """Select torch and its companions for the release, and note missing companions."""

    def allowed(*specs: str) -> Callable[[str], bool]:
        return lambda version: (rocm.flat or _rocm_of(version) == release) and _meets(version, *specs)

    builds = {"torch": index.newest("torch", allowed(row.version, request.torch))}
    notes = []
    for name in COMPANIONS:
        try:
            builds[name] = index.newest(name, allowed(row.companions.get(name, "")))
        except NotAvailable as error:
            notes.append(f"the env will not contain {name}: {error.message}")
    return builds, notes


def _closure(
    builds: Mapping[str, Artifact],
    row: TorchSet,
    rocm: RocmWheels,
    request: Request,
    python: Interpreter,
    context: Context,
) -> dict[str, str]:
    """Let uv select the builds' dependencies: project -> version.

    The kernels for each target are an extra in the builds' metadata.
    """
    extras = f"[{','.join(f'device-{target}' for target in request.targets)}]"
    requirements = [
        f"{name}{extras if name in row.kernels else ''}=={build.version}" for name, build in builds.items()
    ]
    uv = Uv.for_context(context)
    # rocenv lists ROCm's wheels itself; uv would have to build `rocm` to query it.
    ask = partial(uv.select, requirements, python=python, excluded=_projects(rocm, request))

    def select(url: str) -> dict[str, str]:
        if not rocm.flat:
            return ask(index_url=url)
        indices = general_indices(os.environ, context.network)
        return from_first(indices, lambda index: ask(index_url=index, page=url), uv)

    versions = from_first(context.network.candidates(rocm.index), select, uv)
    for name, target in product(row.kernels, request.targets):
        if name in builds and row.kernels[name].replace("{target}", target) not in versions:
            raise NotAvailable(f"{name}=={builds[name].version} has no kernels for {target}")
    if not rocm.flat:  # versions in a flat index may contain a date instead of a release
        _require_one_release(versions, _rocm_of(builds["torch"].version))
    return versions


def _require_one_release(versions: Mapping[str, str], release: str) -> None:
    """Raise NotAvailable if a build is for another ROCm release; mixed builds fail at run time."""
    for name, version in versions.items():
        if _rocm_of(version) not in ("", release):
            raise NotAvailable(
                f"{name} {version} is built for ROCm {_rocm_of(version)}, but all wheels in this env must be "
                f"built for ROCm {release}"
            )


def _with_dependencies(
    builds: Iterable[Artifact],
    versions: Mapping[str, str],
    rocm: RocmWheels,
    index: SimpleIndex,
    python: Interpreter,
    context: Context,
) -> tuple[Artifact, ...]:
    """Add the dependencies' wheels, from the same index unless it has only AMD's own packages."""
    if rocm.flat:
        indices, uv = general_indices(os.environ, context.network), Uv.for_context(context)
        return with_companions(builds, versions, index_urls=indices, python=python, uv=uv)
    found = _each(versions, lambda name: index.newest(name, _exactly(versions[name])))
    return tuple(sorted((*builds, *found), key=lambda each: each.name))


def _each(names: Iterable[str], find: Callable[[str], Artifact]) -> tuple[Artifact, ...]:
    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(find, names))


def _brings_c_library(row: RocmWheels) -> bool:
    return bool(row.loader) and c_library.is_needed(row.glibc)


def _notes(row: RocmWheels, request: Request) -> Iterator[str]:
    if _brings_c_library(row):
        yield c_library.note(row.glibc)
    if row.devel and not request.dev:
        yield f"compilers and headers are not included; `--dev` adds them ({joined(row.devel)})"

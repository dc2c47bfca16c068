"""From a request to a plan: the set that is taken, every file of it, and why.

The best candidate whose channel can be had is taken. One that was preferred but could not be had is named in
the plan's notes, with the reason: nothing is replaced silently.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.codec import from_plain, load_json, to_plain
from rocenv.errors import DataError, FetchError, ResolutionImpossible, RocenvError
from rocenv.model import Component, EnvChange, Layout, Lock
from rocenv.resolve import describe, resolve, specifier, title
from rocenv.sources import apt
from rocenv.sources.apt.closure import NoClosure
from rocenv.sources.apt.index import FRESH_S, join
from rocenv.system import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.home import Home
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Artifact, Request
    from rocenv.net import Network
    from rocenv.resolve import Candidate

LOCK_SCHEMA = 1
UNREACHABLE_FOR_S = 600  # a channel that did not answer is not asked again for as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What planning works with."""

    matrix: Matrix
    home: Home
    network: Network
    tell: Callable[[str], None]  # takes a line for the user
    max_age_s: float = FRESH_S  # of package indices


def make_plan(request: Request, work: Work) -> Lock:
    """Return the set for a request, with every artifact.

    Raises:
        ResolutionImpossible: No set of the matrix fits, or none of those that fit is whole in its channel.
        FetchError: No channel that has a fitting set can be had.
    """
    missed: list[tuple[Candidate, RocenvError]] = []
    for candidate in resolve(request, work.matrix):
        error = _known_unreachable(candidate, request, work) or _same_channel_down(candidate, missed)
        if error is None:
            try:
                return _lock(candidate, request, work, tuple(missed))
            except NoClosure as why:
                error = RocenvError(str(why), code="set-incomplete")
            except FetchError as failure:
                error = failure
                _remember(candidate, failure, work)
        missed.append((candidate, error))
    raise _nothing_to_be_had(request, missed)


def read_lock(path: Path) -> Lock:
    """Return the set that a lock file names; raise DataError where it is none."""
    try:
        plain = load_json(path)
    except OSError as error:
        raise DataError(f"cannot read the lock `{path}`: {error.strerror}") from error
    if not isinstance(plain, dict) or plain.pop("schema", None) != LOCK_SCHEMA:
        raise DataError(
            f"`{path}` is no lock that this rocenv reads",
            hints=("make one with `rocenv lock NAME -o FILE`",),
        )
    return from_plain(Lock, plain, str(path))


def lock_text(lock: Lock) -> str:
    """Return the text of a lock file; the same lock gives the same text."""
    return json.dumps({"schema": LOCK_SCHEMA, **to_plain(lock)}, indent=1) + "\n"


def relocated(lock: Lock, work: Work) -> Lock:
    """Return a lock with the addresses that its packages have on this machine's mirrors."""
    components = []
    for component in lock.components:
        artifacts = []
        for artifact in component.artifacts:
            repo = work.matrix.repos.get(artifact.repo)
            if repo is not None and artifact.path and repo.base in (apt.DEBIAN, apt.HOST):
                bases = apt.addresses(repo, "", work.network)
                if bases and not any(artifact.url == join(base, artifact.path) for base in bases):
                    artifact = replace(artifact, url=join(bases[0], artifact.path))
            artifacts.append(artifact)
        components.append(replace(component, artifacts=tuple(artifacts)))
    return replace(lock, components=tuple(components))


def artifacts_of(lock: Lock) -> tuple[Artifact, ...]:
    """Return every file of a set once."""
    by_hash = {artifact.sha256: artifact for part in lock.components for artifact in part.artifacts}
    return tuple(by_hash.values())


def _lock(
    candidate: Candidate, request: Request, work: Work, missed: tuple[tuple[Candidate, RocenvError], ...]
) -> Lock:
    row = candidate.rocm
    found = apt.find(row, work.matrix, work.home, work.network, max_age_s=work.max_age_s)
    if row.floating and not specifier(request.rocm or "*", "--rocm").contains(found.version):
        raise NoClosure(f"channel {row.channel} is at {found.version} now")
    notes = (
        [_passed_over(other, error) for other, error in missed] + list(candidate.notes) + list(found.notes)
    )
    if found.own_glibc:
        notes.append(
            f"the set needs glibc {found.glibc}, newer than this machine's: it brings its own, and programs "
            "that use it are started through its loader (`rocenv run`, or `rocm-exec` once activated)"
        )
    components = [
        Component(
            kind="rocm",
            name=row.channel,
            version=found.version,
            channel=row.channel,
            why=candidate.why,
            artifacts=found.artifacts,
            glibc=found.glibc,
            loader=work.matrix.c_libraries[0].loader if found.own_glibc else "",
            layout=row.layout,
        )
    ]
    if candidate.torch is not None:
        components.append(_torch_component(candidate, request, work))
    return Lock(
        request=request,
        platform=request.platform,
        target=request.target,
        components=tuple(components),
        environment=_environment(work.matrix, components),
        watched=tuple(row.name for row in work.matrix.watched),
        notes=tuple(notes),
    )


def _torch_component(candidate: Candidate, request: Request, work: Work) -> Component:
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.uv import Uv
    from rocenv.sources.wheels import resolve_wheels

    row = candidate.torch
    assert row is not None
    uv = Uv(
        cache=work.home.uv_cache,
        pythons=work.home.pythons,
        environ=os.environ,
        offline=work.network.is_offline,
        tell=work.tell,
    )
    python = find_python(request.python or _python_for(row.python), uv)
    wanted = specifier(request.torch, "--torch")
    wheels = resolve_wheels(
        [f"torch=={row.version}.*" + (f",{wanted}" if str(wanted) else "")],
        index_url=row.index,
        local=f"rocm{row.rocm}",
        python=python,
        uv=uv,
        candidates=work.network.candidates,
    )
    version = next(wheel.version for wheel in wheels if wheel.name == "torch")
    return Component(
        kind="torch",
        name="torch",
        version=version,
        channel=row.index,
        why=f"the newest torch built for ROCm {row.rocm} with kernels for {request.target}",
        artifacts=_with_sizes(wheels, work.network),
        python=python.version,
    )


def _with_sizes(wheels: tuple[Artifact, ...], network: Network) -> tuple[Artifact, ...]:
    """Return the wheels with their sizes, which most indices do not say."""

    def sized(wheel: Artifact) -> Artifact:
        return wheel if wheel.size_bytes else replace(wheel, size_bytes=network.size_of(wheel.url))

    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(sized, wheels))


def _python_for(series: tuple[str, ...]) -> str:
    """Return what to ask for: "" (rocenv's own Python) if that will do, else the newest that does."""
    import platform

    own = ".".join(platform.python_version_tuple()[:2])
    return "" if own in series else series[-1]


def _environment(matrix: Matrix, components: list[Component]) -> tuple[EnvChange, ...]:
    kinds = {component.kind for component in components}
    layout = next((component.layout for component in components if component.layout), None)
    own_glibc = any(component.loader for component in components)
    changes = []
    for row in matrix.environment:
        if row.when != "always" and row.when not in kinds:
            continue
        if row.change.value == "{library_dirs}":
            if not own_glibc and layout is not None:
                for folder in reversed(layout.library_dirs):
                    changes.append(replace(row.change, value=f"{{prefix}}/rocm/{folder}"))
            continue
        value = _placed(row.change.value, layout)
        if value is not None:
            changes.append(replace(row.change, value=value))
    return tuple(changes)


def _placed(value: str, layout: Layout | None) -> str | None:
    """Return a value with the places of a layout put in; None where the layout has no such place."""
    places = {}
    if layout is not None:
        places = {"{rocm}": layout.root, "{bin}": layout.bin, "{device_libs}": layout.device_libs}
    for name, place in places.items():
        if value == name:
            return f"{{prefix}}/rocm/{place}" if place else None
    return value


def _passed_over(candidate: Candidate, error: RocenvError) -> str:
    return f"{title(candidate.rocm)} was preferred, but could not be had: {error.message}"


def _nothing_to_be_had(request: Request, missed: list[tuple[Candidate, RocenvError]]) -> RocenvError:
    reasons = "; ".join(f"{title(candidate.rocm)}: {error.message}" for candidate, error in missed)
    hints = tuple(dict.fromkeys(hint for _, error in missed for hint in error.hints))
    message = f"sets fit {describe(request)}, but none can be had: {reasons}"
    if all(error.code == "set-incomplete" for _, error in missed):
        return ResolutionImpossible(message, hints=hints)
    code = missed[0][1].code if len({error.code for _, error in missed}) == 1 else "fetch-failed"
    return FetchError(message, hints=hints, code=code)


# ---------------------------------------------------------------- channels that do not answer


def _same_channel_down(
    candidate: Candidate, missed: list[tuple[Candidate, RocenvError]]
) -> RocenvError | None:
    """Return the error of an earlier set of the same channel that will be this one's too."""
    for other, error in missed:
        if other.rocm.channel == candidate.rocm.channel and error.code in (
            "unreachable",
            "no-mirror",
            "signature",
        ):
            return error
    return None


def _note_file(candidate: Candidate, work: Work) -> Path:
    return work.home.indices / f"unreachable-{candidate.rocm.channel}.json"


def _known_unreachable(candidate: Candidate, request: Request, work: Work) -> FetchError | None:
    """Return the failure of some minutes ago, so that every command does not wait for the same timeout."""
    if request.channel or work.max_age_s == 0:
        return None
    path = _note_file(candidate, work)
    try:
        note = load_json(path)
        age_s = time.time() - float(note["at_s"])
        mirrors = note["mirrors"]
        message = str(note["message"])
    except (OSError, DataError, KeyError, TypeError, ValueError):
        return None
    if not 0 <= age_s < UNREACHABLE_FOR_S or mirrors != repr(work.network.mirrors):
        return None
    return FetchError(
        f"{message} (tried {age_s / 60:.0f} min ago)",
        hints=(f"ask again at once with `--channel {candidate.rocm.channel}`",),
        code="unreachable",
    )


def _remember(candidate: Candidate, failure: FetchError, work: Work) -> None:
    if failure.code != "unreachable":
        return
    note = {"at_s": time.time(), "message": failure.message, "mirrors": repr(work.network.mirrors)}
    with contextlib.suppress(OSError):
        work.home.indices.mkdir(parents=True, exist_ok=True)
        write_atomic(_note_file(candidate, work), json.dumps(note).encode())

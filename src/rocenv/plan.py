"""From a request to a plan: the set that is taken, every file of it, and why.

The best candidate whose channel can be had is taken. One that was preferred but could not be had is named in
the plan's notes, with the reason: nothing is replaced silently.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv import outage
from rocenv.codec import from_plain, load_json, to_plain
from rocenv.errors import DataError, FetchError, ResolutionImpossible, RocenvError
from rocenv.matrix.environment import changes_for
from rocenv.model import Lock
from rocenv.resolve import describe, resolve
from rocenv.sources import apt, wheels
from rocenv.sources.apt.closure import NoClosure
from rocenv.sources.apt.index import join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocenv.model import Artifact, Component, ComponentKind, Request
    from rocenv.resolve import Candidate
    from rocenv.sources import Source, Work

LOCK_SCHEMA = 1


# Which source a part of a set comes from, in the order in which the parts are found and installed.
SOURCES: Mapping[ComponentKind, Source] = {"rocm": apt, "torch": wheels}


def make_plan(request: Request, work: Work) -> Lock:
    """Return the set for a request, with every artifact.

    Raises:
        ResolutionImpossible: No set of the matrix fits, or none of those that fit is whole in its channel.
        FetchError: No channel that has a fitting set can be had.
    """
    missed: list[tuple[Candidate, RocenvError]] = []
    for candidate in resolve(request, work.matrix):
        error = _same_channel_down(candidate, missed) or _known_outage(candidate, request, work)
        if error is None:
            try:
                return _lock(candidate, request, work, tuple(missed))
            except NoClosure as why:
                error = RocenvError(str(why), code="set-incomplete")
            except FetchError as failure:
                error = failure
        missed.append((candidate, error))
    raise _nothing_to_be_had(request, missed)


def read_lock(path: Path) -> Lock:
    """Return the set that a lock file names; raise DataError where it is none, or an unsafe one."""
    try:
        plain = load_json(path)
    except OSError as error:
        raise DataError(
            f"cannot read the lock `{path}`: {error.strerror}",
            hints=("make one: `rocenv lock NAME -o FILE`",),
        ) from error
    schema = plain.pop("schema", None) if isinstance(plain, dict) else None
    if isinstance(schema, int) and schema > LOCK_SCHEMA:
        raise DataError(
            f"the lock `{path}` is of a newer rocenv: it has schema {schema}, this one reads {LOCK_SCHEMA}",
            hints=("upgrade rocenv: `python -m pip install --upgrade rocenv`",),
        )
    if schema != LOCK_SCHEMA:
        raise DataError(
            f"`{path}` is no lock that rocenv has written", hints=("make one: `rocenv lock NAME -o FILE`",)
        )
    lock = from_plain(Lock, plain, str(path))
    _check_names(lock, path)
    return lock


def _check_names(lock: Lock, path: Path) -> None:
    """Raise DataError for names that would be more than names: a lock may come from anywhere."""
    for variable in (*(change.name for change in lock.environment), *lock.watched):
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", variable) is None:
            raise DataError(f"`{variable}` in `{path}` cannot be the name of a variable")
    for artifact in artifacts_of(lock):
        if re.fullmatch("[0-9a-f]{64}", artifact.sha256) is None:
            raise DataError(f"the sha256 of `{artifact.name}` in `{path}` is `{artifact.sha256}`")
        for text in (artifact.name, artifact.version):
            if re.fullmatch("[A-Za-z0-9.+:~!_-]+", text) is None:
                raise DataError(f"`{text}` in `{path}` is no name or version of a package")
    for place in [place for component in lock.components for place in _places(component)]:
        if place.startswith("/") or ".." in place.split("/"):
            raise DataError(f"`{place}` in `{path}` leads out of the env")


def _places(component: Component) -> list[str]:
    layout = component.layout
    if layout is None:
        return [component.loader]
    named = [component.loader, layout.root, layout.bin, layout.device_libs]
    return [*named, *layout.library_dirs, *layout.libraries.values()]


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
    notes = [f"preferred, but not to be had: {reason}" for reason in _reasons(missed)] + list(candidate.notes)
    components = []
    for kind, source in SOURCES.items():
        if kind == "torch" and candidate.torch is None:
            continue
        try:
            component, said = source.component(candidate, request, work)
        except FetchError as failure:
            if kind == "rocm":
                outage.remember(row.channel, failure, work.home, work.network.mirrors)
            raise
        components.append(component)
        notes += said
        if kind == "rocm":
            outage.forget(row.channel, work.home)
    return Lock(
        request=request,
        platform=request.platform,
        target=request.target,
        components=tuple(components),
        environment=changes_for(components, work.matrix),
        watched=tuple(row.name for row in work.matrix.watched),
        notes=tuple(notes),
    )


def _reasons(missed: Sequence[tuple[Candidate, RocenvError]]) -> list[str]:
    """Return why sets could not be had, one text for all of a channel that have the same reason."""
    sets: dict[tuple[str, str], list[Candidate]] = {}
    for candidate, error in missed:
        sets.setdefault((candidate.rocm.channel, error.message), []).append(candidate)
    return [
        f"ROCm {_in_short([each.rocm.version for each in several])} of channel {channel}: {message}"
        for (channel, message), several in sets.items()
    ]


def _in_short(versions: list[str]) -> str:
    return ", ".join(versions) if len(versions) <= 3 else f"{versions[0]} and {len(versions) - 1} more"


def _nothing_to_be_had(request: Request, missed: list[tuple[Candidate, RocenvError]]) -> RocenvError:
    hints = tuple(dict.fromkeys(hint for _, error in missed for hint in error.hints))
    message = f"sets fit {describe(request)}, but none can be had: {'; '.join(_reasons(missed))}"
    if all(error.code == "set-incomplete" for _, error in missed):
        return ResolutionImpossible(message, hints=hints)
    code = missed[0][1].code if len({error.code for _, error in missed}) == 1 else "fetch-failed"
    return FetchError(message, hints=hints, code=code)


def _known_outage(candidate: Candidate, request: Request, work: Work) -> FetchError | None:
    """Return the failure of some minutes ago, unless this very channel, fresh news or none is asked for."""
    if request.channel or work.max_age_s == 0 or work.network.is_offline:
        return None
    return outage.recall(candidate.rocm.channel, work.home, work.network.mirrors)


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

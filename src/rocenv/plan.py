"""From a request to a plan: the set that is taken, every file of it, and why.

The best candidate whose channel can be had is taken. One that was preferred but could not be had is named in
the plan's notes, with the reason: nothing is replaced silently.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError, ResolutionImpossible, RocenvError
from rocenv.core.model import OVERRIDE, Component, EnvChange, Lock
from rocenv.data.environment import changes_for
from rocenv.data.releases import RocmSet
from rocenv.net import unreachable as outage
from rocenv.resolve import describe, resolve
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.context import Context
    from rocenv.core.model import ComponentKind, Machine, Request
    from rocenv.resolve import Candidate
    from rocenv.sources import Source

    Miss = tuple[Candidate, RocenvError]  # a set that could not be had, and why

# Which source a part of a set for Linux comes from, in the order in which the parts are found and installed.
# They are imported when they are needed.
SOURCES: Mapping[ComponentKind, str] = {"rocm": "rocenv.sources.apt.part", "torch": "rocenv.sources.wheels"}


def make_plan(
    request: Request,
    context: Context,
    machine: Machine | None = None,
    changes: Sequence[EnvChange] = (),
    *,
    said: Sequence[str] = (),
    unlisted: bool = False,
) -> Lock:
    """Return the set for a request, with every artifact.

    Args:
        request: What is asked for.
        context: The home, the network and the matrix.
        machine: What the set has to live with.
        changes: Changes to the environment that this machine needs, beside those of the set.
        said: Notes on the request, to stand first.
        unlisted: Return the best set without its files, with a note, where the files of none can be listed.

    Raises:
        ResolutionImpossible: No set of the matrix fits, or none of those that fit is whole in its channel.
        FetchError: No channel that has a fitting set can be had.
    """
    try:
        lock = _planned(request, context, machine, changes, unlisted=unlisted)
    except ResolutionImpossible as error:
        error.hints += tuple(said)  # an app's needs may be why nothing fits
        raise
    return replace(lock, notes=(*said, *lock.notes))


def _planned(
    request: Request,
    context: Context,
    machine: Machine | None,
    changes: Sequence[EnvChange],
    *,
    unlisted: bool,
) -> Lock:
    candidates = resolve(request, context.matrix, machine)
    if request.platform == "windows":
        best = next(candidates)
        parts, said = _windows_parts(best, request, context, listed=WINDOWS and not unlisted)
        return _lock(best, parts, (*best.notes, *said), request, context, changes)
    missed: list[Miss] = []
    for candidate in candidates:
        found = _had(candidate, request, context, missed)
        if isinstance(found, RocenvError):
            missed.append((candidate, found))
            continue
        parts, said = found
        notes = [f"preferred, but not to be had: {reason}" for reason in _reasons(missed)]
        return _lock(candidate, parts, (*notes, *candidate.notes, *said), request, context, changes)
    nothing = _nothing_to_be_had(request, missed)
    if not unlisted or not isinstance(nothing, FetchError):
        raise nothing
    best = missed[0][0]
    said = (f"its files are not listed, and `create` would fail now: {nothing.message}", *best.notes)
    return _lock(best, _unlisted(best), said, request, context, changes)


def _windows_parts(
    candidate: Candidate, request: Request, context: Context, *, listed: bool
) -> tuple[tuple[Component, ...], tuple[str, ...]]:
    """Return the parts of a set for Windows, and notes; torch with its wheels if they are to be listed."""
    from rocenv.sources.catalogue import components

    parts = components(candidate, request, context.matrix)
    if not listed or candidate.torch is None or candidate.zluda is None:
        return parts, ()
    source: Source = importlib.import_module(SOURCES["torch"])
    wheels, said = source.component(candidate, request, context)
    return tuple(wheels if part.kind == "torch" else part for part in parts), said


def _had(
    candidate: Candidate, request: Request, context: Context, missed: Sequence[Miss]
) -> tuple[tuple[Component, ...], tuple[str, ...]] | RocenvError:
    """Return the parts of a set with every file and notes for the plan, or why it cannot be had."""
    from rocenv.sources.apt.closure import NoClosure

    error = _same_channel_down(candidate, missed) or _known_outage(candidate, request, context)
    if error is not None:
        return error
    try:
        return _listed(candidate, request, context)
    except NoClosure as why:
        return RocenvError(str(why), code="set-incomplete")
    except FetchError as failure:
        return failure


def _listed(
    candidate: Candidate, request: Request, context: Context
) -> tuple[tuple[Component, ...], tuple[str, ...]]:
    """Return the parts of a set with every file as it is to be had now, and notes for the plan."""
    notes: tuple[str, ...] = ()
    parts = []
    for kind, module in SOURCES.items():
        if kind == "torch" and candidate.torch is None:
            continue
        try:
            source: Source = importlib.import_module(module)
            part, said = source.component(candidate, request, context)
        except FetchError as failure:
            if kind == "rocm":
                outage.remember(_channel(candidate), failure, context.home, context.network.mirrors)
            raise
        parts.append(part)
        notes += said
        if kind == "rocm":
            outage.forget(_channel(candidate), context.home)
    return tuple(parts), notes


def _unlisted(candidate: Candidate) -> tuple[Component, ...]:
    """Return the parts of a set without their files."""
    why = candidate.why
    row = candidate.rocm
    layout = row.layout if isinstance(row, RocmSet) else None
    name = _channel(candidate)
    parts = [
        Component(kind="rocm", name=name, version=row.version, channel=name, why=why["rocm"], layout=layout)
    ]
    if candidate.torch is not None:
        wheel = candidate.torch
        version = f"{wheel.version}+rocm{wheel.rocm}"
        parts.append(
            Component(kind="torch", name="torch", version=version, channel=wheel.index, why=why["torch"])
        )
    return tuple(parts)


def _lock(
    candidate: Candidate,
    parts: tuple[Component, ...],
    notes: Sequence[str],
    request: Request,
    context: Context,
    changes: Sequence[EnvChange],
) -> Lock:
    environment = changes_for(parts, context.matrix, request.platform)
    if candidate.override is not None:
        value = candidate.override.value
        environment += (EnvChange(action="set", name=OVERRIDE, value=value),)
    own = {change.name for change in (*environment, *changes)}
    return Lock(
        request=request,
        platform=request.platform,
        target=request.target,
        runs_as=candidate.runs_as if candidate.runs_as != request.target else "",
        components=parts,
        environment=(*environment, *changes),
        watched=tuple(row.name for row in context.matrix.watched if row.name not in own),
        notes=tuple(notes),
    )


def _channel(candidate: Candidate) -> str:
    row = candidate.rocm
    return row.channel if isinstance(row, RocmSet) else ""


def _reasons(missed: Sequence[Miss]) -> list[str]:
    """Return why sets could not be had, one text for all of a channel that have the same reason."""
    sets: dict[tuple[str, str], list[Candidate]] = {}
    for candidate, error in missed:
        sets.setdefault((_channel(candidate), error.message), []).append(candidate)
    return [
        f"ROCm {_in_short([each.rocm.version for each in several])} of channel {channel}: {message}"
        for (channel, message), several in sets.items()
    ]


def _in_short(versions: list[str]) -> str:
    return ", ".join(versions) if len(versions) <= 3 else f"{versions[0]} and {len(versions) - 1} more"


def _nothing_to_be_had(request: Request, missed: Sequence[Miss]) -> RocenvError:
    hints = tuple(dict.fromkeys(hint for _, error in missed for hint in error.hints))
    message = f"sets fit {describe(request)}, but none can be had: {'; '.join(_reasons(missed))}"
    if all(error.code == "set-incomplete" for _, error in missed):
        return ResolutionImpossible(message, hints=hints)
    code = missed[0][1].code if len({error.code for _, error in missed}) == 1 else "fetch-failed"
    return FetchError(message, hints=hints, code=code)


def _known_outage(candidate: Candidate, request: Request, context: Context) -> FetchError | None:
    """Return the failure of some minutes ago, unless this very channel, fresh news or none is asked for."""
    if request.channel or context.max_age_s == 0 or context.network.is_offline:
        return None
    return outage.recall(_channel(candidate), context.home, context.network.mirrors)


def _same_channel_down(candidate: Candidate, missed: Sequence[Miss]) -> RocenvError | None:
    """Return the error of an earlier set of the same channel that will be this one's too."""
    for other, error in missed:
        if _channel(other) == _channel(candidate) and error.code in (
            "unreachable",
            "no-mirror",
            "signature",
        ):
            return error
    return None

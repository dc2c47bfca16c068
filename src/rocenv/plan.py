"""Turn a request into a plan: the chosen set, its files, and the reasons.

The plan uses the best candidate whose files can be listed. If a better one was unavailable, a note says
which one and why, so no substitution is silent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rocenv.core.errors import FetchError, NotAvailable, OnlyFallback, ResolutionImpossible, RocenvError
from rocenv.core.model import Component, EnvChange, Lock
from rocenv.core.variables import OVERRIDE
from rocenv.core.versions import joined, series
from rocenv.data.environment import changes_for, changes_on_wsl
from rocenv.resolve import resolve
from rocenv.sources import source_of
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Machine, Request
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate, Choice


# After these errors, retrying the same server is pointless.
_DOWN = ("unreachable", "no-mirror", "signature")
# The servers' own hints would contradict each other.
_NO_NETWORK = (
    "several servers are unreachable: check your network, VPN and proxy",
    "`rocenv config mirrors --test` lists known mirrors and tests which ones you can reach",
    "rocenv retries unreachable servers after ten minutes; to retry now: `rocenv cache clear indices`",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen set with its components, and the better ones that cannot be downloaded."""

    candidate: Candidate
    parts: tuple[Component, ...]
    missed: Sequence[Miss] = ()
    notes: tuple[str, ...] = ()  # notes on the current state of the sources


@dataclass(frozen=True, slots=True)
class Miss:
    """A set that cannot be downloaded: the missing component and the reason."""

    candidate: Candidate
    choice: Choice
    error: RocenvError

    @property
    def is_permanent(self) -> bool:
        """Whether the channel lacks the component, in which case neither waiting nor a mirror will help."""
        return self.error.code in (NotAvailable.code, "gone")


def make_plan(
    request: Request,
    context: Context,
    machine: Machine | None = None,
    changes: Sequence[EnvChange] = (),
    *,
    notes: Sequence[str] = (),
    unlisted: bool = False,
    fallback: bool = True,
) -> Lock:
    """Choose the set for a request and list all its artifacts.

    Args:
        request: The user's request.
        context: The home, the network and the matrix.
        machine: The machine that the set must run on.
        changes: Environment changes that this machine needs in addition to the set's.
        notes: Notes on the request; they come first.
        unlisted: If no set's files can be listed, return the best set without files and add a note.
        fallback: Accept a worse set if the preferred one cannot be downloaded.

    Raises:
        OnlyFallback: The best set that can be downloaded is worse than another, and `fallback` is off.
        ResolutionImpossible: No set in the matrix satisfies the request, or no channel provides such a set.
        FetchError: All channels with a matching set are unreachable.
    """
    try:
        chosen = _chosen(request, context, machine, unlisted=unlisted)
    except ResolutionImpossible as error:
        error.hints += tuple(notes)  # an app's requirements may be the reason
        raise
    candidate, parts = chosen.candidate, chosen.parts
    environment = changes_for(parts, context.matrix, request.platform, guarded=not request.no_guard)
    if candidate.override is not None:
        environment += (EnvChange(action="set", name=OVERRIDE, value=candidate.override.value),)
    of_wsl = changes_on_wsl(parts, context.matrix) if machine is not None and machine.wsl else ()
    environment += (*changes, *(row.change for row in of_wsl))
    own = {change.name for change in environment}
    lock = Lock(
        request=request,
        platform=request.platform,
        target=request.target,
        runs_as=candidate.runs_as if candidate.runs_as != request.target else "",
        components=parts,
        environment=environment,
        watched=tuple(row.name for row in context.matrix.watched if row.name not in own),
        warnings=candidate.warnings,
        notes=(*notes, *candidate.notes),
        local_notes=(
            *_about_missed(chosen.missed),
            *candidate.local_notes,
            *chosen.notes,
            *(row.note for row in of_wsl),
        ),
    )
    preferred = _preferred(candidate, chosen.missed)
    if not fallback and preferred is not None:
        raise _only_fallback(lock, candidate, preferred)
    return lock


def _about_missed(missed: Sequence[Miss]) -> Iterator[str]:
    """Report why better sets were not chosen."""
    for which, why in _reasons([miss for miss in missed if not miss.is_permanent]):
        yield f"{which} would fit better, but {why}"
    for which, why in _reasons([miss for miss in missed if miss.is_permanent]):
        yield f"there is no complete {which}: {why}"
    yield from _how_to_set_mirrors(missed)


def _preferred(candidate: Candidate, missed: Sequence[Miss]) -> Miss | None:
    """Return the better set to mention before the user accepts `candidate`, if there is one.

    A set that its channel no longer provides is returned only if it supports the GPU better than `candidate`.
    """
    for miss in missed:
        if not miss.is_permanent:
            return miss if _is_worse(candidate, miss.candidate) else None
        if _lack(candidate) > _lack(miss.candidate):
            return miss
    return None


def _is_worse(candidate: Candidate, preferred: Candidate) -> bool:
    """Whether a set's series differ from the preferred one's, or it supports the GPU less well."""
    versions, better = (
        {kind: series(version) for kind, version in each.versions} for each in (candidate, preferred)
    )
    return versions != better or _lack(candidate) > _lack(preferred)


def _lack(candidate: Candidate) -> int:
    """Rate a set's GPU support: 0 if native, 1 or 2 as another target, 3 without BLAS kernels."""
    if candidate.override is not None:
        return 2 if candidate.override.verdict == "caution" else 1
    return 3 if candidate.warnings else 0


def _only_fallback(lock: Lock, candidate: Candidate, miss: Miss) -> OnlyFallback:
    found, preferred = (
        " with ".join(f"{'ROCm' if kind == 'rocm' else kind} {version}" for kind, version in each.versions)
        for each in (candidate, miss.candidate)
    )
    lacks = candidate.warnings if _lack(candidate) > _lack(miss.candidate) else ()
    if lacks:
        found, preferred = (
            f"{text} from {each.rocm.channel}"
            for text, each in ((found, candidate), (preferred, miss.candidate))
        )
    why = "its channel is missing part of it" if miss.is_permanent else "cannot be downloaded now"
    return OnlyFallback(
        "; ".join((f"{preferred} fits best, but {why}", f"only {found} can be installed", *lacks)),
        lock=lock,
        hints=(_short(miss.error), *miss.error.hints),
    )


def _chosen(request: Request, context: Context, machine: Machine | None, *, unlisted: bool) -> Chosen:
    candidates = resolve(request, context.matrix, machine)
    if request.platform == "windows" and not WINDOWS:
        # The data lists all of a Windows set's files except the wheels, which only Windows can list.
        best = next(candidates)
        return Chosen(best, _outlines(best, request, context))
    missed: list[Miss] = []
    for candidate in candidates:
        found = _parts(candidate, request, context, missed)
        if isinstance(found, Miss):
            missed.append(found)
            continue
        parts, said = found
        return Chosen(candidate, parts, missed, said)
    error = _none_available(missed, context.matrix)
    if not unlisted or not isinstance(error, FetchError):
        raise error
    best = missed[0].candidate
    hints = (f"hint: {text}" for text in error.hints)
    reasons = tuple(f"cannot list {which}: {why}" for which, why in _reasons(missed))
    note = "`create` would fail now, because the package lists could not be downloaded"
    return Chosen(best, _outlines(best, request, context), notes=(note, *reasons, *hints))


def _parts(
    candidate: Candidate, request: Request, context: Context, missed: Sequence[Miss]
) -> tuple[tuple[Component, ...], tuple[str, ...]] | Miss:
    """Return a set's components with all files and notes, or the first unavailable component."""
    down = {_source_name(miss.choice): miss.error for miss in missed if miss.error.code in _DOWN}
    for choice in candidate.parts:
        if _source_name(choice) in down:
            return Miss(candidate, choice, down[_source_name(choice)])
    parts: list[Component] = []
    notes: list[str] = []
    for choice in candidate.parts:
        try:
            part, said = source_of(choice).component(choice, candidate, request, context)
        except (FetchError, NotAvailable) as error:
            return Miss(candidate, choice, error)
        parts.append(part)
        notes += said
    return tuple(parts), tuple(notes)


def _outlines(candidate: Candidate, request: Request, context: Context) -> tuple[Component, ...]:
    """Return a set's components without the files that can be listed only over the network."""
    return tuple(source_of(each).outline(each, candidate, request, context) for each in candidate.parts)


def _source_name(choice: Choice) -> str:
    """Return the source's name: an index's host, or the channel."""
    return urlsplit(choice.channel).netloc or choice.channel


def _reasons(missed: Sequence[Miss], matrix: Matrix | None = None) -> list[tuple[str, str]]:
    """Pair unavailable sets with reasons; sets with the same missing component and reason are merged.

    With a matrix, explain channel names.
    """
    sets: dict[tuple[str, str], list[str]] = {}
    for miss in missed:
        part = "" if miss.choice is miss.candidate.rocm else f"with {miss.choice.kind} "
        name = _source_name(miss.choice)
        known = matrix.channels.get(name) if matrix else None
        source = f"{name} ({known.title})" if known else name
        versions = sets.setdefault((f"{part}from {source}", _short(miss.error)), [])
        versions.append(miss.candidate.rocm.version)
    return [(f"ROCm {joined(found, 1)} {part}", message) for (part, message), found in sets.items()]


def _how_to_set_mirrors(missed: Sequence[Miss]) -> tuple[str, ...]:
    """Return the hints on how to set missing mirrors."""
    lacking = (miss.error for miss in missed if miss.error.code == "no-mirror")
    return tuple(dict.fromkeys(hint for error in lacking for hint in error.hints))


def _short(error: RocenvError) -> str:
    """Shorten a message to one line by omitting the file, which does not matter in a plan."""
    return re.sub(" while downloading `[^`]*`|: Request failed after [^:]*", "", error.message)


def _none_available(missed: Sequence[Miss], matrix: Matrix) -> RocenvError:
    hints = tuple(dict.fromkeys(hint for miss in missed for hint in miss.error.hints))
    if len({_source_name(miss.choice) for miss in missed if miss.error.code == "unreachable"}) > 1:
        hints = (*_NO_NETWORK, *_how_to_set_mirrors(missed))
    reasons = "".join(f"\n  - {which}: {why}" for which, why in _reasons(missed, matrix))
    codes = {miss.error.code for miss in missed}
    if codes == {NotAvailable.code}:
        message = f"Matching sets exist, but their channels are missing some of the packages:{reasons}"
        return ResolutionImpossible(message, hints=hints)
    message = f"Matching sets exist, but none could be downloaded:{reasons}"
    return FetchError(message, hints=hints, code=codes.pop() if len(codes) == 1 else FetchError.code)

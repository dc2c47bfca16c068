"""An app's requirements: a narrower request, and notes about programs that users must provide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.versions import allows, lowest, newest_first
from rocenv.resolve.combination import Case, fitting
from rocenv.resolve.request import NO_TORCH, options, resolve_command
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.core.model import Lock, Machine, Request
    from rocenv.data.apps import AppPackages, Launcher
    from rocenv.data.rows import Matrix


def narrowed(request: Request, matrix: Matrix) -> tuple[Request, tuple[str, ...]]:
    """Add an app's requirements to a request unless the user specified others; also return notes for users.

    Pass the request as the user made it; a completed one no longer shows whether `NO_TORCH` was requested.

    Raises:
        RocenvError: The app is unknown or not available for the platform; exit code 2.
    """
    if not request.app:
        return request, ()
    row = _launcher(request.app, matrix)
    request = structs.replace(request, app=row.key)
    if request.platform not in row.platforms:
        raise _other_platform(row, request)
    notes = []
    newest = next(iter(known_releases(row.key, request.platform, matrix)), None)
    if newest and not request.rocm:
        request = structs.replace(request, rocm=newest.rocm)
        needs = f"{row.title} {newest.low} needs ROCm {newest.rocm}"
        notes.append(f"{needs}, so rocenv considers only that; `--rocm` overrides this")
    if row.needs_torch and not request.torch:
        request = structs.replace(request, torch="*")
        notes.append(f"{row.title} needs torch, so the env includes it; `--no-torch` omits it")
    elif row.needs_torch and request.torch == NO_TORCH:
        notes.append(f"{row.title} needs torch; with `--no-torch`, it must include its own")
    return request, tuple(notes)


def packages_of(app: str, channel: str, matrix: Matrix) -> AppPackages | None:
    """Find an app's packages in a channel; return None if there are none."""
    rows = (row for row in matrix.app_packages if row.app == app and channel in row.channels)
    return next(rows, None)


# ---------------------------------------------------------------- programs missing from a set


def lacking(lock: Lock, machine: Machine, matrix: Matrix, again: str) -> Iterator[str]:
    """Yield notes for a set that does not include its app, so that users know to provide the program.

    `again` is the start of the suggested command, such as `rocenv create`; its options are added here.
    """
    case, rocm = Case(request=lock.request, matrix=matrix, machine=machine), lock.part("rocm")
    row = next((each for each in matrix.launcher if each.key == lock.request.app), None)
    if rocm is None or row is None or packages_of(row.key, rocm.channel, matrix) is not None:
        return
    channels = {name for each in matrix.app_packages if each.app == row.key for name in each.channels}
    if not row.programs and not channels:
        if row.repository:
            yield f"{row.title} is not included; if you do not have it yet: `git clone {row.repository}`"
        return
    where = f"channel {rocm.channel} has no packages for it" if channels else "no channel has packages for it"
    builds = (each for each in matrix.app_build if (each.app, each.platform) == (row.key, lock.platform))
    if any(not each.targets for each in builds):
        yield f"{row.title} has a Vulkan build, which does not need ROCm: `rocenv explain {row.key}`"
    yield f"{row.title} is not included: {where}, so install it yourself{_elsewhere(channels, case, again)}"
    yield from _release_notes(row.title, rocm.version, case)


def _elsewhere(channels: set[str], case: Case, again: str) -> str:
    """Return text that recommends a channel with the app for this request; opt-in channels come last."""
    if not channels or case.request.platform != "linux":
        return ""
    known = case.matrix.channels
    for name in sorted(channels, key=lambda name: (known[name].only_named, name)):
        request = structs.replace(case.request, channel=name)
        if fitting(replace(case, request=request)):
            return f". {known[name].title} has it: `{again} {options(request, case.machine.platform)}`"
    return ". The channels that have it do not satisfy your other requirements"


def _release_notes(title: str, rocm: str, case: Case) -> Iterator[str]:
    """Yield a note with the app releases that a set supports, and the options for other releases."""
    known = spans(known_releases(case.request.app, case.request.platform, case.matrix))
    if not known:
        return
    mine = [span for span in known if allows(span.rocm, rocm)]
    others = [
        f"; for {span.label}: `--rocm {shell_join(span.rocm)}`"
        for span in known
        if span not in mine and fitting(replace(case, request=structs.replace(case.request, rocm=span.rocm)))
    ]
    which = Span(rocm="", low=mine[-1].low, high=mine[0].high).label if mine else "no known release"
    yield f"ROCm {rocm} works with {title} {which}{''.join(others)}"


# ---------------------------------------------------------------- releases of apps


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive app releases that work with the same ROCm versions."""

    rocm: str  # PEP 440
    low: str  # the first release
    high: str = ""  # the next release with different requirements; "" if none

    @property
    def label(self) -> str:
        """The range of releases, for display after the app's name."""
        return f"{self.low} or newer" + (f", before {self.high}" if self.high else "")


def known_releases(app: str, platform: str, matrix: Matrix) -> list[Span]:
    """List an app's releases with known ROCm requirements, newest first; each applies until the next."""
    rows = [
        (low, row.rocm)
        for row in matrix.app_release
        if (row.app, row.platform) == (app, platform) and row.rocm and (low := lowest(row.versions))
    ]
    rows.sort(key=lambda pair: newest_first(pair[0]))
    highs = ["", *(low for low, _rocm in rows)]
    return [Span(rocm=rocm, low=low, high=high) for (low, rocm), high in zip(rows, highs[:-1], strict=True)]


def spans(releases: Sequence[Span]) -> list[Span]:
    """Merge adjacent spans with the same ROCm versions, newest first."""
    merged: list[Span] = []
    for each in releases:
        if merged and merged[-1].rocm == each.rocm:
            each = Span(rocm=each.rocm, low=each.low, high=merged.pop().high)
        merged.append(each)
    return merged


# ---------------------------------------------------------------- errors


def _other_platform(row: Launcher, request: Request) -> RocenvError:
    where = " and ".join(each.capitalize() for each in row.platforms)
    other = structs.replace(request, platform=row.platforms[0])
    return WrongUsage(
        f"{row.title} is only known to work on {where}, but the env is for {request.platform.capitalize()}",
        hints=(f"plan a set for {where}: `{resolve_command(other, request.platform)}`",),
        code="app-platform",
    )


def _launcher(key: str, matrix: Matrix) -> Launcher:
    known = {row.key: row for row in matrix.launcher}
    same = {name.casefold(): name for name in known}
    key = key if key in known else same.get(key.casefold(), key)
    if key not in known:
        raise WrongUsage(f"unknown app `{key}`", hints=(f"`--app` takes one of {', '.join(sorted(known))}",))
    return known[key]

"""What an app asks of an env, as a narrower request, and what of it the user has to bring. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.core.errors import ResolutionImpossible, RocenvError
from rocenv.core.versions import allows
from rocenv.resolve import resolve
from rocenv.resolve.candidate import NO_TORCH, options
from rocenv.resolve.releases_of_app import Span, known_releases, spans
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Machine, Request
    from rocenv.data.apps import AppPackages, Launcher
    from rocenv.data.rows import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A set that was found for a request with an app."""

    request: Request
    channel: str
    rocm: str  # its version
    machine: Machine
    again: str  # the command that asks for another one, without its options


def narrowed(request: Request, matrix: Matrix) -> tuple[Request, tuple[str, ...]]:
    """Return a request with what its app needs and the user did not say, and what to tell about that.

    The request is as the user gave it: `NO_TORCH` still tells "none" from "not said".

    Raises:
        RocenvError: There is no such app, or none for the platform; exit code 2.
    """
    if not request.app:
        return request, ()
    row = _launcher(request.app, matrix)
    if request.platform not in row.platforms:
        raise _other_platform(row, request)
    needs, notes = row.needs, []
    rocm, name = _rocm_for(row, request, matrix)
    if rocm and not request.rocm:
        request = replace(request, rocm=rocm)
        notes.append(f"{name} works with ROCm {rocm}, so no other is considered; `--rocm` names one")
    if needs.torch and not request.torch:
        request = replace(request, torch="*")
        notes.append(f"{row.title} needs torch, so it comes along; `--no-torch` leaves it out")
    elif needs.torch and request.torch == NO_TORCH:
        notes.append(f"{row.title} needs torch, and `--no-torch` leaves it out: it has to bring its own")
    if needs.python and not request.python and request.torch not in ("", NO_TORCH):
        request = replace(request, python=needs.python)
        notes.append(f"{row.title} works with Python {needs.python}; `--python` takes another one")
    return request, tuple(notes)


def packages_of(app: str, channel: str, matrix: Matrix) -> AppPackages | None:
    """Return what a channel has of an app; None where it has nothing, or no app is named."""
    rows = (row for row in matrix.app_packages if row.app == app and channel in row.channels)
    return next(rows, None)


def lacking(made: Made, matrix: Matrix) -> Iterator[str]:
    """Yield what to tell where a set holds no packages of its app: the user brings the program.

    Nothing of an app that no channel has, and that is no program to install: everybody brings a folder of it.
    """
    row = next((each for each in matrix.launcher if each.key == made.request.app), None)
    if row is None or packages_of(row.key, made.channel, matrix) is not None:
        return
    channels = {name for each in matrix.app_packages if each.app == row.key for name in each.channels}
    if not row.programs and not channels:
        return
    where = f"channel {made.channel} has none" if channels else "no channel has it"
    yield f"no {row.title} in it: {where}, so you have to bring your own{_elsewhere(made, channels, matrix)}"
    yield from _releases(row.title, made, matrix)


def _elsewhere(made: Made, channels: set[str], matrix: Matrix) -> str:
    """Return how an app comes along, if it can with all that is asked for; what must be named comes last."""
    if not channels or made.request.platform != "linux":
        return ""
    for name in sorted(channels, key=lambda name: (matrix.channels[name].only_named, name)):
        wish = replace(made.request, channel=name)
        if _fits(wish, made, matrix):
            title = matrix.channels[name].title
            return f". It comes along from {title}: `{made.again} {options(wish, made.machine.platform)}`"
    return ". No channel that has it fits the rest of what is asked for"


def _releases(title: str, made: Made, matrix: Matrix) -> Iterator[str]:
    """Yield which releases of an app a set is for, and what those that it is not for ask."""
    found = spans(known_releases(made.request.app, made.request.platform, matrix))
    if not found:
        return
    mine = [span for span in found if allows(span.rocm, made.rocm)]
    others = [
        f"; for one {span.words}: `--rocm {shell_join(span.rocm)}`"
        for span in found
        if span not in mine and _fits(replace(made.request, rocm=span.rocm), made, matrix)
    ]
    which = Span(rocm="", low=mine[-1].low, high=mine[0].high).words if mine else "of no known release"
    yield f"ROCm {made.rocm} is for {title} {which}{''.join(others)}"


def _fits(request: Request, made: Made, matrix: Matrix) -> bool:
    try:
        return next(resolve(request, matrix, made.machine), None) is not None
    except ResolutionImpossible:
        return False


def _rocm_for(row: Launcher, request: Request, matrix: Matrix) -> tuple[str, str]:
    """Return which ROCm an app works with, and its name; where releases differ, those of the newest one."""
    newest = next(iter(known_releases(row.key, request.platform, matrix)), None)
    if newest is None:
        return row.needs.rocm, row.title
    return newest.rocm, f"{row.title} {newest.low}"


def _other_platform(row: Launcher, request: Request) -> RocenvError:
    where = " and ".join(each.capitalize() for each in row.platforms)
    other = replace(request, platform=row.platforms[0], target=request.target or "GFX")
    error = RocenvError(
        f"{row.title} is known for {where} only, and the env is for {request.platform.capitalize()}",
        hints=(f"a plan for {where}: `rocenv resolve {options(other, request.platform)}`",),
        code="app-platform",
    )
    error.exit_code = 2
    return error


def _launcher(key: str, matrix: Matrix) -> Launcher:
    known = {row.key: row for row in matrix.launcher}
    if key not in known:
        error = RocenvError(
            f"there is no app `{key}`",
            hints=(f"`--app` takes one of {', '.join(sorted(known))}",),
            code="usage",
        )
        error.exit_code = 2
        raise error
    return known[key]

"""Suggest working commands if a request is impossible or a set is known to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.errors import RocenvError
from rocenv.core.model import Machine, Request, Suggestion
from rocenv.core.versions import allows, newest_first, series
from rocenv.data.releases import RocmWheels
from rocenv.resolve import verdicts
from rocenv.resolve.apps import narrowed
from rocenv.resolve.combination import REQUIREMENTS, Case, fitting, kind_of, requirement_behind
from rocenv.resolve.request import NO_TORCH, create_command, resolve_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.core.model import Lock
    from rocenv.data.knowledge import Verdict
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import ZludaBuild
    from rocenv.resolve.candidate import Candidate
    from rocenv.resolve.combination import Constraints

# ---------------------------------------------------------------- alternatives to an impossible request


def suggestions(found: Iterable[Constraints], case: Case) -> tuple[Suggestion, ...]:
    """Find commands that would work; those that drop the fewest requirements come first.

    `found` contains the minimal sets of violated constraints.
    """
    behind = {frozenset(map(requirement_behind, broken)) for broken in found}
    droppable = [names for names in behind if "" not in names]
    droppable.sort(key=lambda names: (len(names), sorted(map(REQUIREMENTS.index, names))))
    commands = [each for names in droppable for each in _without(names, case)]
    if case.request.zluda:
        commands += without_zluda(case)
    elif case.request.torch and not commands:
        commands = [*_without_torch(case), *_with_zluda(case)]
    return tuple(dict.fromkeys(commands))


def without_zluda(case: Case) -> tuple[Suggestion, ...]:
    """Suggest the best set without ZLUDA, if there is one."""
    request = structs.replace(case.request, zluda="", rocm="", torch="*" if case.request.torch else "")
    best = _best(request, case)
    return () if best is None else (_suggestion(request, best, case),)


def _without_torch(case: Case) -> Iterator[Suggestion]:
    best = _best(structs.replace(case.request, torch=""), case)
    if best is not None:
        command = structs.replace(case.request, torch=NO_TORCH)
        yield _suggestion(command, best, case, label="without PyTorch")


def _with_zluda(case: Case) -> Iterator[Suggestion]:
    """Yield the best set with ZLUDA (on Windows)."""
    request = Request(platform="windows", target=case.request.target, zluda="*", torch="*")
    best = _best(request, case)
    if best is not None and not case.request.more_targets:
        yield _suggestion(request, best, case, label="on Windows, with ZLUDA")


def _without(dropped: Constraints, case: Case) -> Iterator[Suggestion]:
    """Yield the best set if some requirements are dropped; the command uses the set's values for them."""
    request = case.request
    wildcard = {name: "*" for name in ("zluda", "torch") if getattr(request, name)}
    relaxed = structs.replace(request, **{name: wildcard.get(name, "") for name in dropped - {"driver"}})
    for driver in _other_drivers(case) if "driver" in dropped else (request.driver,):
        best = _best(structs.replace(relaxed, driver=driver), case)
        if best is None:
            continue
        exact = {name: version for name, version in best.versions if name in dropped}
        command = structs.replace(relaxed, driver=driver, **exact)
        again = _best(command, case)
        if again is not None:
            yield _suggestion(command, again, case)
        return


def _other_drivers(case: Case) -> list[str]:
    """Group drivers by the ranges that they match; list the newest of each group but the current driver's."""
    matrix = case.matrix
    rows: list[ZludaBuild | Verdict | RocmWheels] = [*matrix.zluda, *matrix.verdict, *matrix.rocm_wheels]
    ranges = {row.driver for row in rows if row.driver}
    groups = {frozenset(each for each in ranges if allows(each, case.driver))}
    found = []
    for version in sorted((row.version for row in matrix.display_driver), key=newest_first):
        group = frozenset(each for each in ranges if allows(each, version))
        if group not in groups:
            groups.add(group)
            found.append(version)
    return found


def _suggestion(request: Request, found: Candidate, case: Case, label: str = "") -> Suggestion:
    command = resolve_command(request, case.machine.platform)
    return Suggestion(label=label, command=command, components=found.versions)


def _best(request: Request, case: Case) -> Candidate | None:
    other = replace(case, request=request)
    found = fitting(other)
    return kind_of(request).candidate(found[0].parts, other) if found else None


# ---------------------------------------------------------------- replacements for an env


def resolved_command(
    name: str, request: Request, matrix: Matrix, machine: Machine, unlike: tuple[tuple[str, str], ...] = ()
) -> str:
    """Return the command that creates an env for a request, or "" if no set satisfies it.

    The app's requirements affect the set but are not in the command. The result is also "" if the best set
    has the kinds and versions in `unlike`.
    """
    best = best_for(request, matrix, machine)
    if best is None or best.versions == unlike:
        return ""
    return create_command(name, request, machine.platform)


def best_for(request: Request, matrix: Matrix, machine: Machine) -> Candidate | None:
    """Find the best set for a request and its app, or None if there is none or the app is unknown."""
    try:
        request = narrowed(request, matrix)[0]
        return _best(request, Case(request=request, matrix=matrix, machine=machine))
    except RocenvError:  # an invalid version in an untrusted lock also raises this
        return None


def env_with_tools(lock: Lock, matrix: Matrix, name: str) -> str:
    """Return the command that creates a similar env with ROCm's compilers and tools, or "" if there is none.

    The command specifies the release and the channel, so it cannot resolve to a set without the tools.
    """
    wish = structs.replace(lock.request, dev=True)
    here = lock.part("rocm")
    for request in (wish, structs.replace(wish, rocm="", channel="")):
        best = best_for(request, matrix, Machine(platform=lock.platform))
        wheels = best.row(RocmWheels) if best else None
        if wheels is None or not wheels.devel:
            continue
        if lock.request.dev and here is not None and here.channel == wheels.channel:
            return ""
        exact = structs.replace(request, rocm=series(wheels.version), channel=wheels.channel)
        return create_command(name, exact, lock.platform)
    return ""


def suggest_env(
    lock: Lock,
    matrix: Matrix,
    machine: Machine | None = None,
    *,
    name: str,
    zluda: str = "",
    app: str = "",
) -> str:
    """Return the command that creates the most similar set without a known failure, or "" if there is none.

    Alternatives listed by verdicts come first, in their order: an SDK, a build, or both. The same SDK with
    a different build comes next, then any set.

    `zluda` limits the builds, as the option does. `app` replaces the set's app.
    """
    machine = machine or Machine(platform=lock.platform)
    app = app or lock.request.app
    known = any(row.key == app and lock.platform in row.platforms for row in matrix.launcher)
    present = tuple((part.kind, part.version.partition("+")[0]) for part in lock.components)
    for request in _replacements(lock, matrix, machine.driver, zluda):
        request = structs.replace(request, app=app if known else "")
        if command := resolved_command(name, request, matrix, machine, unlike=present):
            return command
    return ""


def _replacements(lock: Lock, matrix: Matrix, driver: str, zluda: str) -> Iterator[Request]:
    """Yield requests for alternatives to a set, most similar first."""
    versions = {part.kind: part.version for part in lock.components}
    release = series(versions.get("rocm", ""))
    plain = Request(
        platform=lock.platform,
        target=lock.target,
        more_targets=lock.request.more_targets,
        torch="*" if "torch" in versions else "",
        zluda=(zluda or "*") if "zluda" in versions else "",
    )
    if not zluda:
        for row in verdicts.known_broken(lock, matrix, driver):
            yield from _alternatives(row, plain, release)
    if release:
        yield structs.replace(plain, rocm=release)
    yield plain


def _alternatives(row: Verdict, plain: Request, release: str) -> Iterator[Request]:
    """Yield the alternatives that a verdict lists, best first."""
    for each in row.instead:
        if each.rocm:
            yield structs.replace(plain, rocm=each.rocm, zluda=each.zluda or plain.zluda)
        elif plain.zluda:
            yield structs.replace(plain, rocm=release, zluda=each.zluda)

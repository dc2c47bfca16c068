"""What the matrix says against a set that is there already, and which command makes a better one. Pure.

The search never returns such a set. But an env may be older than what is known of it, made from somebody's
lock, or put together by hand, and the driver below it may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.model import Machine, Request
from rocenv.core.versions import allows, series
from rocenv.data.knowledge import Verdict
from rocenv.resolve import resolve
from rocenv.resolve.candidate import options
from rocenv.resolve.of_app import narrowed
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Component, Lock
    from rocenv.data.releases import ZludaBuild
    from rocenv.data.rows import Matrix

_CONDITIONS = ("targets", "rocm", "zluda", "project", "flavour", "torch", "driver", "pack")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A set as verdicts have conditions on it; "" = it has no such part."""

    platform: str
    target: str
    rocm: str
    zluda: str
    project: str
    flavour: str
    torch: str
    has_pack: bool
    driver: str


def known_broken(lock: Lock, matrix: Matrix, driver: str = "") -> tuple[Verdict, ...]:
    """Return the rows that call a set broken, the one with the most conditions first.

    Rows about display drivers count only where the driver is known, and rows with a condition that nobody can
    check never do. What a ZLUDA build says of the drivers that it works with counts as such a row.
    """
    parts = _parts(lock, matrix, driver)
    rows = [row for row in matrix.verdict if _calls_broken(row, parts)]
    rows += _driver_gate(parts, matrix)
    return tuple(sorted(rows, key=lambda row: (-_conditions(row), row.what, row.source)))


def remedy_command(
    lock: Lock,
    matrix: Matrix,
    machine: Machine | None = None,
    *,
    name: str = "NAME",
    zluda: str = "",
    app: str = "",
) -> str:
    """Return the command that makes the nearest set that is not known to be broken; "" where there is none.

    What the rows name as a cure comes first, as it stands there: an SDK, a build, or both. Then the same SDK
    with another build, then any. Each was resolved before it is returned.

    Args:
        lock: The set that is to be replaced.
        matrix: The matrix.
        machine: What the set has to live with.
        name: Of the env that is to be made.
        zluda: Only these builds, as for `--zluda`.
        app: That it is to be for; "" = the one that the set is for.
    """
    machine = machine or Machine(platform=lock.platform)
    app = app or lock.request.app
    known = any(row.key == app and lock.platform in row.platforms for row in matrix.launcher)
    for wish in _wishes(lock, matrix, machine.driver, zluda):
        request = replace(wish, app=app if known else "")
        try:
            found = next(resolve(narrowed(request, matrix)[0], matrix, machine))
        except RocenvError:
            continue
        if found.versions != _versions(lock):
            return f"rocenv create {shell_join(name)} {as_options(request, machine.platform)}"
    return ""


def _wishes(lock: Lock, matrix: Matrix, driver: str, zluda: str) -> Iterator[Request]:
    parts = _parts(lock, matrix, driver)
    plain = Request(
        platform=lock.platform,
        target=lock.target,
        torch="*" if parts.torch else "",
        zluda=(zluda or "*") if parts.zluda else "",
    )
    if not zluda:
        for row in known_broken(lock, matrix, driver):
            yield from _cures(row, plain, parts)
    if parts.rocm:
        yield replace(plain, rocm=series(parts.rocm))
    yield plain


def _cures(row: Verdict, plain: Request, parts: _Parts) -> Iterator[Request]:
    """Yield what a row recommends instead, the best first."""
    for each in row.instead:
        if each.rocm:
            yield replace(plain, rocm=each.rocm, zluda=each.zluda or plain.zluda)
        elif plain.zluda:
            yield replace(plain, rocm=series(parts.rocm), zluda=each.zluda)


def as_options(request: Request, here: str) -> str:
    """Return a request as options, without what is the default beside ZLUDA."""
    if request.zluda and request.torch == "*":
        told = options(replace(request, torch="x"), here)
        return told.replace(" --torch x", "")
    return options(request, here)


def _parts(lock: Lock, matrix: Matrix, driver: str) -> _Parts:
    found = {part.kind: part for part in lock.components}
    zluda, torch, rocm = found.get("zluda"), found.get("torch"), found.get("rocm")
    return _Parts(
        platform=lock.platform,
        target=lock.target,
        rocm=rocm.version if rocm else "",
        zluda=zluda.version if zluda else "",
        project=zluda.channel if zluda else "",
        flavour=_flavour(zluda, matrix) if zluda else "",
        torch=torch.version.partition("+")[0] if torch else "",
        has_pack="libraries" in found,
        driver=driver,
    )


def _versions(lock: Lock) -> tuple[tuple[str, str], ...]:
    return tuple((part.kind, part.version.partition("+")[0]) for part in lock.components)


def _flavour(part: Component, matrix: Matrix) -> str:
    """Return the flavour of a build's archive, by its name."""
    names = [artifact.name for artifact in part.artifacts]
    return next(
        (
            asset.flavour
            for build in matrix.zluda
            if build.project == part.channel
            for asset in build.assets
            if asset.name in names
        ),
        "",
    )


def _calls_broken(row: Verdict, parts: _Parts) -> bool:
    if row.verdict != "broken" or row.only_if or row.platform != parts.platform:
        return False
    return (
        (not row.targets or parts.target in row.targets)
        and _in_range(row.rocm, parts.rocm)
        and _in_range(row.zluda, parts.zluda)
        and _in_range(row.torch, parts.torch)
        and _in_range(row.driver, parts.driver)
        and row.project in ("", parts.project)
        and (not row.flavour or parts.flavour in row.flavour)
        and not (row.pack == "none" and parts.has_pack)
    )


def _in_range(text: str, version: str) -> bool:
    """Tell whether a range allows a version; one that is not known is in no range but the empty one."""
    return not text or (bool(version) and allows(text, version))


def _driver_gate(parts: _Parts, matrix: Matrix) -> Iterator[Verdict]:
    for build in matrix.zluda:
        if (build.project, build.version) != (parts.project, parts.zluda) or not build.driver:
            continue
        if parts.driver and not allows(build.driver, parts.driver):
            yield _gate_row(build, parts.driver)


def _gate_row(build: ZludaBuild, driver: str) -> Verdict:
    return Verdict(
        platform="windows",
        verdict="broken",
        what=f"ZLUDA {build.version} works with display drivers {build.driver}, and this one is {driver}",
        project=build.project,
        zluda=f"=={build.version}",
        driver=f"=={driver}",
        remedy=f"a newer build, or a display driver {build.driver}",
        status=build.status,
        source=build.source,
        checked=build.checked,
    )


def _conditions(row: Verdict) -> int:
    return sum(bool(getattr(row, name)) for name in _CONDITIONS)

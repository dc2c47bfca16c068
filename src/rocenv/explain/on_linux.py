"""How a target is served on Linux: by wheels or packages, by an override, by a compiler alone, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.variables import OVERRIDE
from rocenv.core.versions import allows, series, version_of
from rocenv.data.releases import RocmSet, RocmWheels, TorchSet
from rocenv.explain.answer import Line
from rocenv.explain.sets import linux_sets
from rocenv.explain.support import levels, series_known, support_lines
from rocenv.explain.words import VERDICTS, listed, oldest_first, range_in_words, spans
from rocenv.resolve.wheels import promised

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.knowledge import Override
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found
    from rocenv.resolve import Candidate

_VERDICT_RANK = {"ok": 0, "caution": 1, "block": 2, "reject": 3}


def linux_answer(matrix: Matrix, target: str, found: Found) -> Line:
    """Return in a sentence whether and how a target works on Linux; `found` are the sets with torch."""
    if found.best is not None:
        text, rows = _with_torch(matrix, target, found.candidates)
    else:
        text, rows = _without_torch(matrix, target, found)
    return Line(label="Linux", text=text, rows=rows)


def _with_torch(
    matrix: Matrix, target: str, candidates: tuple[Candidate, ...]
) -> tuple[str, tuple[Known, ...]]:
    best = candidates[0]
    override = best.override
    alike = [each for each in candidates if each.override == override]
    wheels, by_wheels = _wheel_sets(matrix, alike)
    packages, by_packages = _package_sets(matrix, target, alike)
    sets, rows = (packages, by_packages) if best.row(RocmSet) else (wheels, by_wheels)
    if override is not None:
        care = "yes" if override.verdict == "ok" else VERDICTS[override.verdict]
        only = f", only with ROCm {range_in_words(override.rocm)}" if override.rocm else ""
        text = f"{care}, as {best.runs_as}{only}: the env sets {OVERRIDE}={override.value}. {sets}"
        return text, (override, *rows)
    text = f"yes, {_promise(matrix, best)}: {sets}"
    for others in (wheels, packages):
        if others and others != sets:
            kind = RocmWheels if others == wheels else RocmSet
            other = next(each for each in alike if each.row(kind))
            text += f"; or {others} ({_promise(matrix, other)})"
    said = levels(matrix, "linux", target).get(series(best.rocm.version))
    return text, (best.rocm.row, *((said,) if said else ()), *rows)


def _promise(matrix: Matrix, found: Candidate) -> str:
    """Say what AMD promises of a set."""
    row = found.row(RocmWheels)
    if row is not None:
        return promised(row, (found.runs_as,))
    said = levels(matrix, "linux", found.runs_as).get(series(found.rocm.version))
    promises = {"official": "AMD supports it", "deprecated": "AMD still supports it"}
    return promises.get(said.level if said else "", "without AMD's promise")


def _wheel_sets(matrix: Matrix, candidates: Iterable[Candidate]) -> tuple[str, tuple[Known, ...]]:
    """Name the releases of AMD's wheels among sets of which AMD promises the same, with their torch."""
    sets = [each for each in candidates if each.row(RocmWheels)]
    found = {
        each.rocm.version: torch
        for each in sets
        if (torch := each.row(TorchSet))
        and torch.released
        and _promise(matrix, each) == _promise(matrix, sets[0])
    }
    if not found:
        return "", ()
    channels = {torch.channel for torch in found.values()}
    torches = [row for row in matrix.torch if row.channel in channels and row.released]
    releases = spans(found, (row.version for row in matrix.rocm_wheels if row.channel in channels))
    versions = spans((torch.version for torch in found.values()), (row.version for row in torches))
    return f"ROCm {releases} as wheels with torch {versions}", tuple(found.values())[:1]


def _package_sets(
    matrix: Matrix, target: str, candidates: Iterable[Candidate]
) -> tuple[str, tuple[Known, ...]]:
    """Name the releases of packages among sets, only those that AMD supports if there are any."""
    sets = [each for each in candidates if each.row(RocmSet)]
    if not sets:
        return "", ()
    releases = {series(each.rocm.version) for each in sets}
    said = levels(matrix, "linux", target)
    promises = {release for release, row in said.items() if row.level in ("official", "deprecated")}
    if sets[0].override is None and series(sets[0].rocm.version) in promises:
        releases &= promises
    wheels = [
        row
        for row in matrix.torch
        if sets[0].runs_as in row.targets and series(row.rocm) in releases and row.released
    ]
    torch = sets[0].row(TorchSet)
    newest = tuple(row for row in wheels if torch is not None and row.version == torch.version)
    text = f"ROCm {_release_spans(matrix, releases)} as packages with torch {_torch_spans(matrix, wheels)}"
    return text, newest[:1]


def _without_torch(matrix: Matrix, target: str, found: Found) -> tuple[str, tuple[Known, ...]]:
    bare = linux_sets(matrix, target, torch=False)
    blocked = [row for row in matrix.override if row.target == target and row.verdict == "block"]
    why = "".join(f"; {OVERRIDE}={row.value} is {VERDICTS['block']}: {row.note}" for row in blocked)
    if bare.best is None:
        text = f"no{why or ': no release, no torch wheel and no override is known to serve it'}"
        newest = series_known(matrix, "linux")[-1:]
        lists = [row for row in matrix.support if row.platform == "linux" and row.rocm in newest]
        return text, (*blocked, *lists)
    rows = {row.channel: row for each in bare.candidates if (row := each.row(RocmSet))}
    full = [row for row in rows.values() if bare.best.runs_as in row.blas]
    releases = listed(
        f"{series(row.version)} of {matrix.channels[row.channel].title}" for row in full or rows.values()
    )
    if not full:
        return f"hardly: no libraries, no torch; only the compiler in ROCm {releases} knows it{why}", (
            *blocked,
            *rows.values(),
        )
    way = f" as {bare.best.runs_as} ({OVERRIDE}={bare.best.override.value})" if bare.best.override else ""
    used = (bare.best.override,) if bare.best.override else ()
    text = f"yes{way}, but without torch, whose wheels have no kernels that would do. "
    text += f"Kernels: ROCm {releases}{why}"
    return text, (*used, *full, *blocked)


def _release_spans(matrix: Matrix, releases: Iterable[str]) -> str:
    return spans(releases, (series(row.version) for row in matrix.rocm))


def _torch_spans(matrix: Matrix, wheels: Iterable[TorchSet]) -> str:
    return spans((row.version for row in wheels), (row.version for row in matrix.torch if _for_packages(row)))


def _for_packages(row: TorchSet) -> bool:
    """Whether it is one of PyTorch's own wheels, which bring the libraries of ROCm."""
    return bool(row.rocm) and not row.channel


def linux_lines(matrix: Matrix, target: str, found: Found) -> list[Line]:
    """Return what releases, overrides and torch do for a target; `found` are the sets with torch."""
    overrides = sorted(
        (row for row in matrix.override if row.target == target), key=lambda row: _VERDICT_RANK[row.verdict]
    )
    return [
        *support_lines(matrix, target),
        *_distribution_lines(matrix, target, found),
        *(_override_line(row) for row in overrides),
        *torch_lines(matrix, target, overrides),
    ]


def _distribution_lines(matrix: Matrix, target: str, found: Found) -> list[Line]:
    """Return what distributions build for a target; a compiler alone only where there is nothing better."""
    lines: dict[str, list[RocmSet]] = {}
    for row in sorted(matrix.rocm, key=lambda row: (version_of(row.version), row.channel)):
        if matrix.channels[row.channel].by == "maker":
            continue
        if target in row.blas:
            lines.setdefault("kernels", []).append(row)
        elif target in row.compiles and found.best is None:
            lines.setdefault("no kernels, but a compiler for it", []).append(row)
    return [
        Line(label="distributions", text=f"{does} in ROCm: {_packages(matrix, rows)}", rows=tuple(rows))
        for does, rows in lines.items()
    ]


def _packages(matrix: Matrix, rows: Iterable[RocmSet]) -> str:
    """List releases with their channels, last those of channels that people have to name."""
    groups: dict[bool, list[str]] = {False: [], True: []}
    for row in rows:
        channel = matrix.channels[row.channel]
        groups[channel.only_named].append(f"{row.version} of {channel.title}")
    return "; ".join(
        f"{'only by name ' if only_named else ''}{listed(texts)}"
        for only_named, texts in groups.items()
        if texts
    )


def _override_line(row: Override) -> Line:
    only = f", with ROCm {range_in_words(row.rocm)}" if row.rocm else ""
    way = f"{row.value}, as {row.runs_as}" if row.runs_as != "*" else "any value"
    return Line(label="override", text=f"{way}: {VERDICTS[row.verdict]}{only}; {row.note}", rows=(row,))


def torch_lines(matrix: Matrix, target: str, overrides: Iterable[Override]) -> list[Line]:
    """Say which of PyTorch's own wheels serve a target: natively, and under each override."""
    wheels = sorted(filter(_for_packages, matrix.torch), key=lambda row: version_of(row.version))
    own = [row for row in wheels if target in row.targets]
    half = [row for row in wheels if target in row.compiled and target not in row.targets]
    ways = [
        ("with kernels of its own", own),
        ("compiled for it, but the rocBLAS inside has no kernels", half),
    ]
    for override in overrides:
        if override.verdict in ("ok", "caution"):
            fit = [row for row in wheels if override.runs_as in row.targets and row not in own]
            ways.append((f"run as {override.runs_as}", [r for r in fit if allows(override.rocm, r.rocm)]))
    texts = [f"{words}: {_wheels_in_words(matrix, rows)}" for words, rows in ways if rows]
    if not own:
        texts.insert(0, "no wheel of PyTorch's own has kernels for it")
    shown = [rows[-1] for _, rows in ways if rows] or wheels[-1:]
    return [Line(label="torch", text="; ".join(texts), rows=tuple(shown))]


def _wheels_in_words(matrix: Matrix, rows: list[TorchSet]) -> str:
    known = [row.rocm for row in matrix.torch if _for_packages(row)]
    text = f"torch {_torch_spans(matrix, rows)}, built for ROCm {spans((row.rocm for row in rows), known)}"
    unreleased = listed(oldest_first(row.version for row in rows if not row.released), "")
    return f"{text} ({unreleased} is no release yet)" if unreleased else text

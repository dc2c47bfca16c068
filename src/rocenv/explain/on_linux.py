"""How a target is served on Linux: natively, by an override, by a compiler alone, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.variables import OVERRIDE
from rocenv.core.versions import allows, series, version_of
from rocenv.data.releases import RocmSet, TorchSet
from rocenv.explain.answer import Line
from rocenv.explain.sets import linux_sets
from rocenv.explain.support import levels, series_known, support_lines, wheels_left
from rocenv.explain.words import VERDICTS, listed, oldest_first, range_in_words, spans

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
    wheels = wheels_left(matrix, target, found)
    official = [row for row in wheels if target in row.official]
    # Worth a word where it is more than what the sets give.
    if wheels and (found.best is None or (official and found.best.override is not None)):
        versions = listed(oldest_first(row.version for row in official or wheels))
        promise = "AMD supports it in" if official else "Kernels for it are in"
        text += f". {promise} ROCm {versions}, as Python wheels"
        rows += (*(official or wheels)[:1],)
    return Line(label="Linux", text=text, rows=rows)


def _with_torch(
    matrix: Matrix, target: str, candidates: tuple[Candidate, ...]
) -> tuple[str, tuple[Known, ...]]:
    best = candidates[0]
    override = best.override
    said = levels(matrix, "linux", target)
    promised = {release for release, row in said.items() if row.level in ("official", "deprecated")}
    releases = {series(each.rocm.version) for each in candidates if each.override == override}
    if override is None and series(best.rocm.version) in promised:
        releases &= promised
    wheels = [
        row
        for row in matrix.torch
        if best.runs_as in row.targets and series(row.rocm) in releases and row.released
    ]
    sets = f"ROCm {_release_spans(matrix, releases)} with torch {_torch_spans(matrix, wheels)}"
    torch = best.row(TorchSet)
    newest = tuple(row for row in wheels if torch is not None and row.version == torch.version)
    if override is not None:
        care = "yes" if override.verdict == "ok" else VERDICTS[override.verdict]
        only = f", only with ROCm {range_in_words(override.rocm)}" if override.rocm else ""
        text = f"{care}, as {best.runs_as}{only}: the env sets {OVERRIDE}={override.value}. {sets}"
        return text, (override, *newest[:1])
    row = said.get(series(best.rocm.version))
    promise = {"official": "yes, AMD supports it", "deprecated": "yes, AMD still supports it"}.get(
        row.level if row else "", "yes, but without AMD's promise"
    )
    return f"{promise}: {sets}", (*((row,) if row else ()), *newest[:1])


def _without_torch(matrix: Matrix, target: str, found: Found) -> tuple[str, tuple[Known, ...]]:
    bare = linux_sets(matrix, target, torch=False)
    blocked = [row for row in matrix.override if row.target == target and row.verdict == "block"]
    why = "".join(f"; {OVERRIDE}={row.value} is {VERDICTS['block']}: {row.note}" for row in blocked)
    if bare.best is None:
        text = f"no{why or ': no release, no torch wheel and no override is known to serve it'}"
        newest = series_known(matrix, "linux", "")[-1:]
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
    return spans((row.version for row in wheels), (row.version for row in matrix.torch if row.rocm))


def linux_lines(matrix: Matrix, target: str, found: Found) -> list[Line]:
    """Return what releases, overrides and torch do for a target; `found` are the sets with torch."""
    overrides = sorted(
        (row for row in matrix.override if row.target == target), key=lambda row: _VERDICT_RANK[row.verdict]
    )
    return [
        *support_lines(matrix, target, found),
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
    """Return which torch wheels for ROCm serve a target: with kernels of its own, and under each override."""
    wheels = sorted((row for row in matrix.torch if row.rocm), key=lambda row: version_of(row.version))
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
        texts.insert(0, "no wheel has kernels of its own for it")
    shown = [rows[-1] for _, rows in ways if rows] or wheels[-1:]
    return [Line(label="torch", text="; ".join(texts), rows=tuple(shown))]


def _wheels_in_words(matrix: Matrix, rows: list[TorchSet]) -> str:
    known = [row.rocm for row in matrix.torch if row.rocm]
    text = f"torch {_torch_spans(matrix, rows)}, built for ROCm {spans((row.rocm for row in rows), known)}"
    unreleased = listed(oldest_first(row.version for row in rows if not row.released), "")
    return f"{text} ({unreleased} is no release yet)" if unreleased else text

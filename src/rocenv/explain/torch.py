"""A release of PyTorch: for which ROCm it is built, for which targets, and whether it goes with ZLUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.model import Request
from rocenv.core.versions import series, version_of
from rocenv.explain.answer import Explanation, Line, sections
from rocenv.explain.combinations import combination_lines
from rocenv.explain.names import asked_version
from rocenv.explain.sets import find_sets, step
from rocenv.explain.words import listed, oldest_first, range_in_words, targets_first
from rocenv.resolve.verdicts import Facts, applies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.known import Platform
    from rocenv.data.releases import TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found

_TROUBLES = 4


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    return [f"torch-{each}" for each in oldest_first(series(row.version) for row in matrix.torch)]


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the releases that are meant: a patch release, or a build, is told with its series."""
    asked = asked_version(thing, ("pytorch", "torch", "")).partition("+")[0]
    if not asked or asked.count(".") < 1:
        return []
    return [name for name in names(matrix) if name == f"torch-{series(asked)}"]


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a release."""
    release = name.removeprefix("torch-")
    rows = sorted(
        (row for row in matrix.torch if series(row.version) == release),
        key=lambda row: (version_of(row.version), version_of(row.rocm or row.cuda)),
    )
    own = [row for row in rows if row.rocm and not row.channel]
    concerned = [
        row
        for row in matrix.verdict
        if row.torch and row.torch != ">=0" and any(applies(row, Facts(torch=each.version)) for each in rows)
    ]
    more = f"rocenv matrix --torch {release}"
    return Explanation(
        thing=name,
        kind="torch",
        title=f"PyTorch {release}",
        answer=tuple(_answer(matrix, rows)),
        sections=sections(
            ("PyTorch's own wheels for ROCm", [_rocm_line(row) for row in own]),
            ("AMD's index", [_rocm_line(row) for row in rows if row.channel]),
            ("Windows, under ZLUDA", [_cuda_line(row) for row in rows if row.cuda]),
            (
                "Known combinations",
                combination_lines(concerned, most=_TROUBLES, about="torch", more=more),
            ),
        ),
        steps=tuple(step(found, matrix, label) for label, found in _sets(matrix, rows)),
        steps_title="A set with it, for one of its targets",
    )


def _answer(matrix: Matrix, rows: list[TorchSet]) -> Iterator[Line]:
    rocm = [row for row in rows if row.rocm and not row.channel]
    cuda = [row for row in rows if row.cuda]
    texts = []
    if rocm:
        targets = targets_first(target for row in rocm for target in row.targets)
        texts.append(f"built for ROCm {listed(row.rocm for row in rocm)}; kernels for {listed(targets)}")
        if not all(row.released for row in rocm):
            texts[0] += "; a candidate for release, which its index may not have yet"
    wheels, text = _in_amds_index(matrix, rows, "linux")
    texts += [text] if wheels else []
    rows_ = (*rocm, *wheels)
    yield Line(label="Linux", text=". ".join(texts) or "no wheel of it for ROCm is known here", rows=rows_)
    wheels, text = _in_amds_index(matrix, rows, "windows")
    texts = [text] if wheels else []
    if cuda:
        builds = listed(f"{row.version} for CUDA {row.cuda}" for row in cuda)
        texts.append(f"under ZLUDA, which stands in for CUDA: {builds}")
    if not texts:
        stands_in = oldest_first(row.cuda for row in matrix.torch if row.cuda)
        texts.append(
            f"not known to go with ZLUDA, for which there are other releases, for CUDA {listed(stands_in)}"
        )
    yield Line(label="Windows", text="; or ".join(texts), rows=(*wheels, *cuda))


def _in_amds_index(matrix: Matrix, rows: list[TorchSet], platform: Platform) -> tuple[list[TorchSet], str]:
    """Find what goes with ROCm's own wheels for a platform, and say with which."""
    releases = {(row.version, row.channel) for row in matrix.rocm_wheels if row.platform == platform}
    found = [row for row in rows if row.channel and (row.rocm, row.channel) in releases]
    return found, f"AMD's index has it for the wheels of ROCm {listed(_names(found))}"


def _names(rows: list[TorchSet]) -> list[str]:
    return list(dict.fromkeys(f"{row.rocm} ({row.channel})" for row in rows))


def _rocm_line(row: TorchSet) -> Line:
    parts = [_pythons(row)]
    parts += [f"{name} {version}" for name, version in row.companions.items()]
    parts += [row.triton] if row.triton else []
    parts += [f"needs glibc {row.glibc}"] if row.glibc else []
    half = [target for target in row.compiled if target not in row.targets]
    if half:
        parts.append(f"compiled for {listed(half)} too, for which the rocBLAS inside has no kernels")
    if row.channel:
        parts.insert(0, f"channel {row.channel}")
    return Line(label=f"for ROCm {row.rocm}", text="; ".join(parts), rows=(row,))


def _cuda_line(row: TorchSet) -> Line:
    parts = [f"for CUDA {row.cuda}", _pythons(row)]
    parts += [f"{name} {version}" for name, version in row.companions.items()]
    if row.zluda:
        parts.append(f"named with ZLUDA {range_in_words(row.zluda)}")
    return Line(label=row.version, text="; ".join(parts), rows=(row,))


def _pythons(row: TorchSet) -> str:
    return f"Python {' to '.join(dict.fromkeys((row.python[0], row.python[-1])))}"


def _sets(matrix: Matrix, rows: list[TorchSet]) -> Iterator[tuple[str, Found]]:
    """Yield a set with the newest wheel of each platform, for the newest target that has one."""
    ways = (
        ("Linux", "linux", "", [row for row in rows if row.rocm]),
        ("Windows, wheels", "windows", "", [row for row in rows if row.channel]),
        ("Windows, ZLUDA", "windows", "*", [row for row in rows if row.cuda]),
    )
    wishes = [
        (label, Request(platform=platform, zluda=zluda, torch=found[-1].version))
        for label, platform, zluda, found in ways
        if found
    ]
    for label, request in wishes:
        for target in reversed(targets_first(matrix.targets)):
            found = find_sets(matrix, replace(request, target=target))
            if found.best is not None:
                yield label, found
                break

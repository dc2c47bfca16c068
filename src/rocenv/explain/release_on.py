"""What a ROCm release is and does on each platform."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rocenv.core.versions import newest_first, series, version_of
from rocenv.explain.answer import Line
from rocenv.explain.archives import builds_for
from rocenv.explain.sets import linux_sets, zluda_sets
from rocenv.explain.words import listed, oldest_first, spans, targets_first
from rocenv.resolve.drivers import tested_drivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocenv.data.known import Platform
    from rocenv.data.releases import HipSdk, RocmWheels, TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found

_SUPPORT = {
    "official": "AMD supports",
    "deprecated": "still supported",
    "libraries": "only kernels for",
    "runtime": "runtime only",
    "unsupported": "not supported",
}


def linux_release(matrix: Matrix, release: str) -> Line:
    """Return in a sentence what a release is good for on Linux."""
    sets = [row for row in matrix.rocm if series(row.version) == release]
    own = _wheels(matrix, release, "linux")
    torch = _torch_rows(matrix, release)
    texts = []
    if sets:
        spans_ = _torch_spans(matrix, [row for row in torch if not row.channel])
        texts.append(f"torch {spans_} has wheels for it" if spans_ else "no torch has wheels for it")
    if own:
        texts.append(f"as Python wheels: {_wheels_with_torch(matrix, own)}")
    if texts:
        texts.append(_taken(matrix, release, linux_sets, "rocm"))
    text = ". ".join(texts) or "no packages of it are known here"
    return Line(label="Linux", text=text, rows=(*torch[-1:], *sets[:1], *own[:1]))


def windows_release(matrix: Matrix, release: str) -> Line:
    """Return in a sentence what a release is good for on Windows."""
    sdks = [row for row in matrix.hip_sdk if series(row.version) == release]
    wheels = _wheels(matrix, release, "windows")
    texts = [f"as Python wheels: {_wheels_with_torch(matrix, wheels)}"] if wheels else []
    for sdk in sdks:
        taken = _taken(matrix, release, zluda_sets, "zluda")
        texts.append(f"HIP SDK {sdk.version} goes with {_builds(matrix, sdk)}. {taken}")
    return Line(
        label="Windows",
        text=". ".join(texts) or "there is no HIP SDK and no wheel of it",
        rows=(*sdks, *wheels),
    )


def _wheels(matrix: Matrix, release: str, platform: Platform) -> list[RocmWheels]:
    """List ROCm's own wheels of a release, a nightly build only where there is nothing else."""
    rows = [row for row in matrix.rocm_wheels if (series(row.version), row.platform) == (release, platform)]
    stable = [row for row in rows if not matrix.channels[row.channel].only_named]
    return sorted(stable or rows, key=lambda row: (version_of(row.version), row.channel))


def _wheels_with_torch(matrix: Matrix, rows: Iterable[RocmWheels]) -> str:
    """Name releases of wheels with their channel and the torch that is built for each."""
    texts = []
    for row in rows:
        fitting = [each for each in matrix.torch if (each.rocm, each.channel) == (row.version, row.channel)]
        torch = listed(oldest_first(each.version for each in fitting), "")
        texts.append(f"{row.version} ({row.channel}), {f'with torch {torch}' if torch else 'without torch'}")
    return "; ".join(texts)


def _wheel_lines(matrix: Matrix, release: str, platform: Platform) -> list[Line]:
    """Say which targets AMD supports in the wheels of a release, and for which they are release-ready."""
    alike: dict[tuple[str, ...], list[RocmWheels]] = {}
    for row in _wheels(matrix, release, platform):
        alike.setdefault((row.channel, *row.targets, *row.official, *row.ready), []).append(row)
    lines = []
    for rows in alike.values():
        row, name = rows[0], f"wheels {listed(row.version for row in rows)}"
        rest = set(row.targets) - {*row.official, *row.ready}
        built = "only built for" if row.has_lists else "what AMD promises is not known yet; built for"
        said = (("supported by AMD", row.official), ("release-ready", row.ready), (built, rest))
        texts = [f"{what}: {listed(targets_first(targets))}" for what, targets in said if targets]
        notes = dict.fromkeys(f"{each.version}: {each.note}" for each in rows if each.note)
        lines += [Line(label=name, text=text, rows=tuple(rows)) for text in (*texts, *notes)]
    return lines


def _builds(matrix: Matrix, sdk: HipSdk) -> str:
    """Return which ZLUDA builds go with an SDK, by project, and whether the usual one does."""
    found = builds_for(matrix, sdk)
    texts = []
    for project in sorted({row.project for row in matrix.zluda}):
        known = [row.version for row in matrix.zluda if row.project == project]
        if mine := [version for version in found if version in known]:
            texts.append(f"{spans(mine, known)} of {project}")
    missing = [row.version for row in matrix.zluda if row.preferred and row.version not in found]
    text = f"ZLUDA {' and '.join(texts)}" if texts else "no ZLUDA build"
    return text + (f", not with {listed(missing)}, which the apps take today" if missing else "")


def _taken(matrix: Matrix, release: str, sets: Callable[[Matrix, str], Found], option: str) -> str:
    """Return for which targets `create` takes a release by itself, and what it takes instead."""
    best = {target: sets(matrix, target).best for target in matrix.targets}
    releases = {target: series(each.rocm.version) for target, each in best.items() if each is not None}
    taken = Counter(releases.values())
    mine = [target for target, each in releases.items() if each == release]
    how = "create --zluda" if option == "zluda" else "create"
    if mine:
        return f"`rocenv {how}` takes it by itself for {listed(targets_first(mine))}"
    most = sorted(taken.items(), key=lambda each: (-each[1], newest_first(each[0])))[:3]
    others = listed(f"{other} for {number} target{'s' if number > 1 else ''}" for other, number in most)
    return f"`rocenv {how}` takes it only with `--rocm {release}`: by itself it takes {others}"


def linux_release_lines(matrix: Matrix, release: str) -> list[Line]:
    """Return what a release supports on Linux, where it comes from, and what it was tested with."""
    lines = [*_wheel_lines(matrix, release, "linux"), *_support_lines(matrix, release, "linux")]
    sets = [row for row in matrix.rocm if series(row.version) == release]
    for channel in sorted({row.channel for row in sets}):
        rows = [row for row in sets if row.channel == channel]
        text = f"{matrix.channels[channel].title}: {listed(oldest_first(row.version for row in rows))}"
        lines.append(Line(label="packages", text=text, rows=tuple(rows)))
    published = sorted(
        (row for row in matrix.release if series(row.version) == release),
        key=lambda row: version_of(row.version),
    )
    for row in published[-1:]:
        parts = listed((f"{name} {version}" for name, version in row.parts.items()), "")
        if parts or row.note:
            lines.append(Line(label=f"parts of {row.version}", text=parts or row.note, rows=(row,)))
    wheels = [row for row in _torch_rows(matrix, release) if not row.channel]
    if wheels:
        targets = targets_first(target for row in wheels for target in row.targets)
        text = f"{_torch_spans(matrix, wheels)}; kernels for {listed(targets)}"
        lines.append(Line(label="torch", text=text, rows=tuple(wheels)))
    return lines + _driver_lines(matrix, release)


def _driver_lines(matrix: Matrix, release: str) -> list[Line]:
    lines = []
    drivers, _ = tested_drivers(release, matrix)
    if drivers:
        rows = tuple(row for row in matrix.driver_pair if release in row.rocm)
        text = f"tested with the kernel drivers of ROCm {listed(drivers)}"
        lines.append(Line(label="driver", text=text, rows=rows))
    kernels = [row for row in matrix.system_kernel if row.rocm == release]
    if kernels:
        text = "; ".join(
            f"{row.os}: {listed(row.kernels)}" for row in sorted(kernels, key=lambda row: row.os)
        )
        lines.append(Line(label="kernels tested", text=text, rows=tuple(kernels)))
    return lines


def windows_release_lines(matrix: Matrix, release: str) -> list[Line]:
    """Return what a HIP SDK supports, what it consists of, and what goes with it."""
    lines = [*_wheel_lines(matrix, release, "windows"), *_support_lines(matrix, release, "windows")]
    for row in matrix.hip_sdk:
        if series(row.version) == release:
            lines += _sdk_lines(matrix, row)
    return lines


def _sdk_lines(matrix: Matrix, row: HipSdk) -> list[Line]:
    release = series(row.version)
    lines = [Line(label="installer", text=f"{row.installer}, for {row.os}", rows=(row,))]
    dlls = (*row.runtime, *row.comgr, *row.hiprtc)
    if dlls:
        missing = f"; not in it: {listed(row.not_included)}" if row.not_included else ""
        lines.append(Line(label="runtime files", text=listed(dlls) + missing, rows=(row,)))
    packs = [pack for pack in matrix.pack if release in map(series, pack.rocm)]
    targets = targets_first(
        each.partition(":")[0] for pack in packs if not pack.absent for each in pack.targets
    )
    absent = [pack for pack in packs if pack.absent and pack.note]
    if targets:
        lines.append(Line(label="library packs", text=f"for {listed(targets)}", rows=tuple(packs)))
    lines += [Line(label="library packs", text=pack.note, rows=(pack,)) for pack in absent]
    return lines


def _support_lines(matrix: Matrix, release: str, platform: Platform) -> list[Line]:
    rows = [row for row in matrix.support if row.platform == platform and row.rocm == release]
    rows.sort(key=lambda row: list(_SUPPORT).index(row.level))
    return [
        Line(
            label=_SUPPORT[row.level],
            text=listed(targets_first(row.targets)) + (f" ({row.note})" if row.note else ""),
            rows=(row,),
        )
        for row in rows
    ]


def _torch_rows(matrix: Matrix, release: str) -> list[TorchSet]:
    """List the releases of torch that are built for a release of ROCm."""
    return [row for row in matrix.torch if row.rocm and series(row.rocm) == release and row.released]


def _torch_spans(matrix: Matrix, rows: Iterable[TorchSet]) -> str:
    """Name releases of PyTorch's own wheels; "" = none."""
    known = [row.version for row in matrix.torch if row.rocm and not row.channel]
    return spans((row.version for row in rows), known)

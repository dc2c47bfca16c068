"""Explain a gfx target, a product or a PCI ID: whether the GPU works, and with which releases."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.variables import OVERRIDE
from rocenv.core.versions import allows, newest_first, series, version_of
from rocenv.data.releases import RocmSet, RocmWheels, TorchSet
from rocenv.data.windows import ZludaBuild
from rocenv.explain import rows
from rocenv.explain.page import Explanation, Line, Step, sections
from rocenv.explain.phrases import (
    LEVELS,
    NOT_LISTED,
    OVERRIDES,
    in_order,
    listed,
    oldest_first,
    range_in_words,
    spans,
)
from rocenv.explain.sets import (
    driver_limit,
    find_sets,
    set_in_words,
    sets_for,
    step,
)
from rocenv.host.products import targets_of_product, unsupported
from rocenv.resolve.wheels import BUILT, promise, promised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.data.knowledge import Override
    from rocenv.data.known import Known, Platform
    from rocenv.data.releases import Support
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import HipSdk, Pack
    from rocenv.explain.sets import Found
    from rocenv.resolve import Candidate


_NO_SET = "no set"
_NOTHING = {
    "linux": "no release, PyTorch wheel or override supports it",
    "windows": "neither a HIP SDK nor AMD's wheels support it",
}


def names(matrix: Matrix) -> list[str]:
    """List the names of all targets."""
    return in_order(matrix.targets)


def product_names(matrix: Matrix) -> list[str]:
    """List the names of all products."""
    return sorted({product for row in matrix.pci for product in row.products})


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the target that a query matches, ignoring features such as `:xnack-`."""
    name = thing.partition(":")[0]
    return [name] if name in matrix.targets else []


def product_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the targets for a product, processor, code name or PCI ID."""
    return in_order(targets_of_product(thing, matrix))


def unsupported_names(matrix: Matrix) -> list[str]:
    """List the GPU generations that ROCm does not support."""
    return [row.title.partition(" (")[0] for row in matrix.unsupported_gpu]


def unsupported_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the unsupported GPU generation that includes a product or PCI ID."""
    row = unsupported(thing, matrix)
    return [row.title.partition(" (")[0]] if row else []


def explain_unsupported(name: str, matrix: Matrix) -> Explanation:
    """Explain what owners of a GPU that ROCm does not support can do."""
    row = next(row for row in matrix.unsupported_gpu if row.title.startswith(f"{name} ("))
    return Explanation(
        thing=name,
        kind="unsupported",
        title=row.title,
        answer=(
            Line(label="ROCm", text=f"no: {row.why}", rows=(row,)),
            Line(label="Instead", text=row.instead, rows=(row,)),
        ),
    )


def explain(name: str, matrix: Matrix) -> Explanation:
    """Explain a target."""
    row = matrix.targets[name]
    linux, wheels = sets_for(matrix, name, "linux"), sets_for(matrix, name, "windows")
    zluda = sets_for(matrix, name, "windows", zluda="*")
    bare = linux if linux.best else sets_for(matrix, name, "linux", torch="")
    ways = [("Linux", bare), ("Windows, wheels", wheels), ("Windows, ZLUDA", zluda)]
    native = wheels.best.row(RocmWheels) if wheels.best else None
    if zluda.best and (native is None or promise(native, (name,)) >= BUILT):
        ways = [ways[0], ways[2]]  # omit wheels that AMD does not support
    windows = _windows(matrix, name)
    shown = {id(row) for line in windows for row in line.rows}
    concerned = [each for each in matrix.verdict if name in each.targets and id(each) not in shown]

    return Explanation(
        thing=name,
        kind="target",
        title=f"{name}: {rows.products(row)}",
        answer=(
            _answer(matrix, name, "linux", _with_other_way(bare.candidates)),
            _answer(matrix, name, "windows", (found.best for _label, found in ways[1:] if found.best)),
        ),
        sections=sections(
            ("Linux", _linux(matrix, name, linux)),
            ("Windows", windows),
            (
                "Known combinations",
                [
                    *_incidents(name, matrix, {each.code for each in concerned if each.code}),
                    *rows.combination_lines(concerned, about="target"),
                ],
            ),
            ("The GPU", _gpu(matrix, name)),
        ),
        steps=(
            *(step(found, matrix, label) for label, found in ways if found.best),
            *_without_rocm(name, matrix),
        ),
        steps_title="Best sets",
    )


def _without_rocm(target: str, matrix: Matrix) -> Iterator[Step]:
    """Yield the apps that run without ROCm, unless the target has no graphics hardware."""
    if not matrix.targets[target].arch.startswith("CDNA"):
        for app in sorted({row.app for row in matrix.app_build if not row.targets}):
            gives = f"{app} with Vulkan, without ROCm or PyTorch"
            yield Step(label="Language models", command=f"rocenv explain {app}", gives=gives)


def is_official(target: str, matrix: Matrix) -> bool:
    """Whether AMD supports a target in any release."""
    releases: tuple[RocmSet | RocmWheels, ...] = (*matrix.rocm, *matrix.rocm_wheels)
    return any(target in row.official for row in releases)


def levels(matrix: Matrix, platform: Platform, target: str) -> dict[str, Support]:
    """Map each series of packages or SDKs to its row about a target, if it has one."""
    return {row.rocm: row for row in matrix.support if row.platform == platform and target in row.targets}


def series_known(matrix: Matrix, platform: Platform) -> list[str]:
    """List the series of packages or SDKs whose support is known, oldest first."""
    return oldest_first(row.rocm for row in matrix.support if row.platform == platform)


def wheels_of(matrix: Matrix, platform: str) -> list[RocmWheels]:
    """List the releases of ROCm wheels for a platform, oldest first, without rolling builds."""
    found = [row for row in matrix.rocm_wheels if row.platform == platform and not row.floating]
    return sorted(found, key=lambda row: (version_of(row.version), row.channel))


def packs_for(matrix: Matrix, target: str, *, kind: str = "rocblas") -> list[Pack]:
    """List the library packs for a target, ignoring features, newest SDK first."""
    found = [
        row
        for row in matrix.pack
        if row.kind == kind and not row.absent and target in (each.partition(":")[0] for each in row.targets)
    ]
    return sorted(found, key=lambda row: (newest_first(row.rocm[-1]), row.provider, row.asset))


# ------------------------------------------------------------------------------------------------ answers


def _answer(matrix: Matrix, target: str, platform: Platform, found: Iterable[Candidate]) -> Line:
    """Summarize whether a target works on a platform, with which sets, and AMD's support for each."""
    sets = list(found)
    label = platform.capitalize()
    known = [row for row in matrix.override if row.target == target and row.verdict == "block"]
    blocked = known if platform == "linux" and not (sets and sets[0].part("torch")) else []
    why = "".join(f"; {OVERRIDE}={row.value} is {OVERRIDES['block']}: {row.note}" for row in blocked)
    if not sets:
        newest = series_known(matrix, platform)[-1:]
        lists = [row for row in matrix.support if row.platform == platform and row.rocm in newest]
        text = f"no{why or f': {_NOTHING[platform]}'}"
        return Line(label=label, text=text, rows=(*blocked, *lists))
    texts = [f"{set_in_words(each, matrix, target)} ({_promise(matrix, each, target)})" for each in sets]
    based: list[Known] = [row for row in (sets[0].override,) if row]
    for each in sets:
        said = levels(matrix, platform, each.runs_as).get(series(each.rocm.version))
        based += [row for row in (each.rocm.row, each.row(ZludaBuild), said) if row]
    text = f"{_confidence(matrix, sets[0], target, platform)}: {'; or '.join(texts)}{why}"
    return Line(label=label, text=text, rows=(*based, *blocked))


def word_for(matrix: Matrix, best: Candidate, target: str, platform: Platform) -> str:
    """Return `yes` if AMD lists this exact target as supported in this exact release, else `unofficial`."""
    wheels = best.row(RocmWheels)
    if wheels is not None:
        return "yes" if target in wheels.official else "unofficial"
    row = levels(matrix, platform, target).get(series(best.rocm.version))
    is_listed = row is not None and row.level in ("official", "deprecated") and not best.part("libraries")
    return "yes" if is_listed else "unofficial"


def _confidence(matrix: Matrix, best: Candidate, target: str, platform: Platform) -> str:
    packages, override = best.row(RocmSet), best.override
    if not best.part("torch"):
        if packages is not None and best.runs_as not in packages.blas:
            return "compiler only, without libraries or PyTorch"
        return "yes, but without PyTorch, whose wheels have no kernels for this GPU"
    word = word_for(matrix, best, target, platform)
    if override is None:
        return word
    only = f", only with ROCm {range_in_words(override.rocm)}" if override.rocm else ""
    sure = word if override.verdict == "ok" else OVERRIDES[override.verdict]
    return f"{sure}, as {best.runs_as} ({OVERRIDE}={override.value}{only})"


def _promise(matrix: Matrix, candidate: Candidate, target: str) -> str:
    wheels = candidate.row(RocmWheels)
    if wheels is not None:
        return promised(wheels, (candidate.runs_as,))
    if candidate.override is not None:
        return "AMD does not support overrides"
    platform: Platform = "windows" if candidate.row(ZludaBuild) else "linux"
    found = levels(matrix, platform, target)
    supported = [rocm for rocm, row in found.items() if row.level in ("official", "deprecated")]
    known = series_known(matrix, platform)
    name = "ROCm" if platform == "linux" else "HIP SDK"
    if not supported:
        return f"AMD does not list {target} as supported"
    if known[-1] in supported:
        return f"AMD supports {target} in {name} {spans(supported, known)}"
    return f"AMD supported {target} in {name} {oldest_first(supported)[-1]} and earlier"


def _with_other_way(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Select the best set with wheels and the best set with packages, the better one first."""
    ways: dict[bool, Candidate] = {}
    for each in candidates:
        if not ways or each.override == next(iter(ways.values())).override:
            ways.setdefault(each.row(RocmWheels) is None, each)
    return list(ways.values())


# ------------------------------------------------------------------------------------------------ sections


def _linux(matrix: Matrix, target: str, found: Found) -> list[Line]:
    overrides = [row for row in matrix.override if row.target == target]
    overrides.sort(key=lambda row: list(OVERRIDES).index(row.verdict))
    distribution = [
        row
        for row in matrix.rocm
        if matrix.channels[row.channel].by != "maker"
        and (target in row.blas or (target in row.compiles and found.best is None))
    ]
    distribution.sort(key=lambda row: (version_of(row.version), row.channel))
    return [
        *_wheels(matrix, "linux", target),
        *_packages(matrix, target),
        *rows.merged(_packaged(matrix, row, target) for row in distribution),
        *rows.lines("override", overrides, target=target),
        *_torch(matrix, target, overrides),
    ]


def _packaged(matrix: Matrix, row: RocmSet, target: str) -> rows.Entry:
    found = rows.entry("rocm", row, target)
    option = f" (only with `--channel {row.channel}`)" if matrix.channels[row.channel].only_named else ""
    return found._replace(text=found.text + option)


def _wheels(matrix: Matrix, platform: Platform, target: str) -> list[Line]:
    every = wheels_of(matrix, platform)
    mine = [row for row in every if target in row.targets]
    if every and not mine:
        return [Line(label="wheels", text="not built for this GPU", rows=tuple(every[-1:]))]
    return rows.lines("rocm_wheels", mine[::-1], target=target)


def _packages(matrix: Matrix, target: str) -> list[Line]:
    found = levels(matrix, "linux", target)
    entries = []
    for rocm in series_known(matrix, "linux")[::-1]:
        # If a release does not list a target, cite its lists as the source.
        lists = [row for row in matrix.support if row.platform == "linux" and row.rocm == rocm]
        row = found.get(rocm)
        text = LEVELS[row.level] if row else NOT_LISTED
        entries.append(rows.Entry("ROCm packages", rocm, text, row or lists[0]))
    return rows.merged(entries)


def _torch(matrix: Matrix, target: str, overrides: Iterable[Override]) -> list[Line]:
    """List PyTorch's own wheels with kernels for a target, natively and with each override."""
    wheels = [row for row in matrix.torch if row.rocm and not row.channel]
    wheels.sort(key=lambda row: version_of(row.version))
    own = [row for row in wheels if target in row.targets]
    half = [row for row in wheels if target in row.compiled and target not in row.targets]
    ways = [("has kernels", own), ("is compiled for this GPU, but its rocBLAS has no kernels", half)]
    for override in overrides:
        if override.verdict in ("ok", "caution"):
            fit = [row for row in wheels if override.runs_as in row.targets and row not in own]
            runs = [row for row in fit if allows(override.rocm, row.rocm)]
            ways.append((f"runs as {override.runs_as}", runs))
    texts = [f"{_torch_spans(found, wheels)} {text}" for text, found in ways if found]
    if not own:
        texts.insert(0, "no wheel on PyTorch's index has kernels for this GPU")
    shown = [found[-1] for _text, found in ways if found] or wheels[-1:]
    return [Line(label="torch", text="; ".join(texts), rows=tuple(shown))]


def _torch_spans(found: Iterable[TorchSet], every: Iterable[TorchSet]) -> str:
    mine, known = list(found), list(every)
    versions = spans((row.version for row in mine), (row.version for row in known))
    return f"{versions} for ROCm {spans((row.rocm for row in mine), (row.rocm for row in known))}"


def _windows(matrix: Matrix, target: str) -> list[Line]:
    found = sets_for(matrix, target, "windows", zluda="*")
    sdks = sorted(matrix.hip_sdk, key=lambda row: newest_first(row.version))
    entries = [_sdk_entry(matrix, sdk, target, found) for sdk in sdks]
    entries.sort(key=lambda each: _NO_SET in each.text)
    lines = [*_wheels(matrix, "windows", target), *rows.merged(entries)]
    if packs := packs_for(matrix, target):
        versions = listed(oldest_first(series(version) for row in packs for version in row.rocm))
        text = f"{len(packs)}, for HIP SDK {versions}: `rocenv explain {target}-pack`"
        lines.append(Line(label="library packs", text=text, rows=tuple(packs[:1])))
    return lines


def _sdk_entry(matrix: Matrix, sdk: HipSdk, target: str, found: Found) -> rows.Entry:
    """Summarize a HIP SDK's support for a target, and the ZLUDA set that uses it, or why there is none."""
    said = levels(matrix, "windows", target).get(series(sdk.version))
    support = LEVELS[said.level] if said else NOT_LISTED
    best = next((each for each in found.candidates if each.rocm.row is sdk), None)
    if best is None:
        projects = {row.project for row in matrix.zluda if row.preferred}
        usual = tuple(row for row in matrix.zluda if row.project in projects)  # apps do not use other builds
        request = structs.replace(found.request, rocm=sdk.version)
        refused = find_sets(replace(matrix, zluda=usual or matrix.zluda), request)
        reasons = refused.reasons(added=f"HIP SDK {sdk.version}")
        refusing = [row for row in matrix.verdict if row.what in reasons]
        text = f"{support}; {_NO_SET}: {'; '.join(reasons[:1])}"
        return rows.Entry("HIP SDK", series(sdk.version), text, (*refusing, said or sdk)[0])
    build, torch = best.part("zluda"), best.part("torch")
    pack = "library pack, " if best.part("libraries") else ""
    limit = driver_limit(matrix, best, target)
    versions = f"ZLUDA {build.version}, torch {torch.version}" if build and torch else ""
    text = f"{support}; set: {pack}{versions}"
    return rows.Entry("HIP SDK", series(sdk.version), f"{text}, {limit}" if limit else text, said or sdk)


def _incidents(name: str, matrix: Matrix, shown: set[str]) -> list[Line]:
    """Render a target's incidents, except for combinations that the page already lists."""
    return [
        Line(label="incident", text=f"{row.title} (`rocenv explain {row.code}`)", rows=(row,))
        for row in sorted(matrix.incident, key=lambda row: row.code)
        if not any(row.code.startswith(code) for code in shown)
        and re.search(rf"\b{name}\b", row.facts.get("gpu", ""))
    ]


def _gpu(matrix: Matrix, name: str) -> list[Line]:
    return [
        Line(label="generic target", text=f"runs code built for {row.name}: {row.note}", rows=(row,))
        for row in matrix.generic_target
        if row.name == matrix.targets[name].generic
    ]

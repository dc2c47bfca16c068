"""Explain ROCm releases, HIP SDKs, ZLUDA builds, PyTorch releases and library packs.

A page has a short answer, the set that the resolver would choose, and the rows that `rocenv matrix` selects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.model import Request
from rocenv.core.versions import newest_first, series, version_of
from rocenv.explain import rows
from rocenv.explain.page import Explanation, Line, sections
from rocenv.explain.phrases import asked_version, in_order, listed, oldest_first, range_in_words, spans
from rocenv.explain.selection import Filters, select, torch_for
from rocenv.explain.sets import first_step, sets_for, step
from rocenv.explain.target import levels, packs_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.data.known import Platform
    from rocenv.data.releases import RocmWheels, TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import Pack, ZludaBuild
    from rocenv.explain.page import Section, Step

_COMMIT = 7  # minimum length of a commit prefix
_PACK = "-pack"


def _tables(matrix: Matrix, option: str, spec: str, *tables: str, platform: str = "") -> tuple[Section, ...]:
    """Render the rows about some versions of a part."""
    found = select(matrix, Filters(**{option: spec}, platform=platform))

    def lines(table: str) -> list[Line]:
        if table != "verdict":
            return rows.lines(table, found.get(table, ()))
        verdicts = found.get(table, ())
        named = [row for row in matrix.verdict if row in verdicts and (row.rocm or option != "rocm")]
        return rows.combination_lines(named, about=option)

    return sections(*((rows.TABLES[table][0], lines(table)) for table in tables))


# ----------------------------------------------------------------------------------- ROCm and HIP SDK


def release_names(matrix: Matrix) -> list[str]:
    """List the names of all releases: `rocm-6.1` and, if it exists, `hip-sdk-6.1`."""
    sdks = oldest_first(series(row.version) for row in matrix.hip_sdk)
    return [*(f"rocm-{each}" for each in _rocm_series(matrix)), *(f"hip-sdk-{each}" for each in sdks)]


def release_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the releases that a query matches: 6.1.2 matches its series, and 6 matches all 6.x releases."""
    sdk = asked_version(thing, ("hip-sdk", "hip sdk", "hip"))
    asked = sdk or asked_version(thing, ("rocm", ""))
    prefix = "hip-sdk" if sdk else "rocm"
    found = [series(asked)] if asked in _rocm_versions(matrix) else []
    found = found or [each for each in _rocm_series(matrix) if asked in (each, each.split(".")[0])]
    return [name for name in release_names(matrix) if name in [f"{prefix}-{each}" for each in found]]


def explain_release(name: str, matrix: Matrix) -> Explanation:
    """Explain a release on both platforms, or a HIP SDK on Windows."""
    release = name.rpartition("-")[2]
    on_linux = not name.startswith("hip-sdk-")
    versions = oldest_first(each for each in _rocm_versions(matrix) if series(each) == release)
    sdks = [row.version for row in matrix.hip_sdk if series(row.version) == release]
    patches = listed((each for each in versions if each != release) if on_linux else sdks, "no exact release")
    tables = ["rocm_wheels", "support", "hip_sdk", "torch", "driver_pair", "verdict"]
    found = _tables(matrix, "rocm", release, *tables, platform="" if on_linux else "windows")
    platforms: tuple[Platform, ...] = ("linux", "windows") if on_linux else ("windows",)
    published = [row for row in matrix.release if series(row.version) == release and (row.parts or row.note)]
    parts = rows.lines("release", sorted(published, key=lambda row: version_of(row.version))[-1:])
    kernels = sorted((row for row in matrix.system_kernel if row.rocm == release), key=lambda row: row.os)
    if kernels:
        tested = "; ".join(f"{row.os}: {listed(row.kernels)}" for row in kernels)
        parts.append(Line(label="kernels tested", text=tested, rows=tuple(kernels)))
    packs = [row for row in matrix.pack if release in map(series, row.rocm)]
    served = in_order(each.partition(":")[0] for row in packs if not row.absent for each in row.targets)
    gain = [Line(label="library packs", text=f"for {listed(served)}", rows=tuple(packs))] if served else []
    on_windows = (*gain, *rows.lines("pack", (row for row in packs if row.absent and row.note)))
    about = sections(("The release", (*(parts if on_linux else ()), *on_windows)))
    return Explanation(
        thing=name,
        kind="release",
        title=f"{'ROCm' if on_linux else 'HIP SDK'} {release}: {patches}",
        answer=tuple(_release_answer(matrix, release, platform) for platform in platforms),
        sections=(*about, *found),
        steps=tuple(_release_steps(matrix, release, on_linux=on_linux)),
        steps_title="A set with this release, for one of its GPUs",
    )


def _release_answer(matrix: Matrix, release: str, platform: Platform) -> Line:
    """Summarize a release's availability on a platform, and the PyTorch versions for it."""
    wheels = _wheels(matrix, release, platform)
    packages = [row for row in matrix.rocm if platform == "linux" and series(row.version) == release]
    sdks = [row for row in matrix.hip_sdk if platform == "windows" and series(row.version) == release]
    released = [row for row in torch_for(matrix, platform) if row.rocm and row.released]
    torch = [row for row in released if series(row.rocm) == release]
    forms = {
        "packages": spans(row.version for row in packages),
        "HIP SDK": listed((row.version for row in sdks), ""),
        "wheels": listed((f"{row.version} ({row.channel})" for row in wheels), ""),
        "torch": spans({row.version for row in torch}, {row.version for row in matrix.torch if row.rocm}),
    }
    text = "; ".join(f"{form} {versions}" for form, versions in forms.items() if versions)
    based = (*torch[-1:], *packages[:1], *sdks, *wheels)
    return Line(label=platform.capitalize(), text=text or "not available", rows=based)


def _wheels(matrix: Matrix, release: str, platform: Platform) -> list[RocmWheels]:
    """List a release's ROCm wheels; include nightly builds only if there are no others."""
    found = [row for row in matrix.rocm_wheels if (series(row.version), row.platform) == (release, platform)]
    stable = [row for row in found if not matrix.channels[row.channel].only_named]
    return sorted(stable or found, key=lambda row: (version_of(row.version), row.channel))


def _release_steps(matrix: Matrix, release: str, *, on_linux: bool) -> Iterator[Step]:
    ways = [("Linux", Request(platform="linux", rocm=release, torch="*"))] if on_linux else []
    ways.append(("Windows, ZLUDA", Request(platform="windows", rocm=release, zluda="*", torch="*")))
    ways.append(("Windows, wheels", Request(platform="windows", rocm=release, torch="*")))
    for label, request in ways:
        served = [
            target
            for row in matrix.support
            if (row.platform, row.rocm, row.level) == (request.platform, release, "official")
            for target in row.targets
        ] or [
            target
            for row in matrix.rocm_wheels
            if (row.platform, series(row.version)) == (request.platform, release)
            for target in row.official or row.targets
        ]
        # The last target is a consumer GPU; the first ones are data center GPUs.
        yield from first_step(matrix, label, request, served[-1:])


def _rocm_versions(matrix: Matrix) -> set[str]:
    tables = (matrix.release, matrix.rocm, matrix.hip_sdk, matrix.rocm_wheels)
    return {row.version for table in tables for row in table} | {row.rocm for row in matrix.support}


def _rocm_series(matrix: Matrix) -> list[str]:
    return oldest_first(series(version) for version in _rocm_versions(matrix))


# ------------------------------------------------------------------------------------------------ ZLUDA


def zluda_names(matrix: Matrix) -> list[str]:
    """List the names of all builds."""
    return [f"zluda-{version}" for version in oldest_first(row.version for row in matrix.zluda)]


def zluda_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the builds that a query matches by version, name, tag or commit."""
    asked = asked_version(thing, ("zluda", "")) or thing
    if not asked:
        return []
    found = [row.version for row in matrix.zluda if asked in (row.version, row.title, row.tag)]
    if not found and len(asked) >= _COMMIT:
        commit = asked.removeprefix("rel.")
        found = [row.version for row in matrix.zluda if row.commit.startswith(commit)]
    return [name for name in zluda_names(matrix) if name.removeprefix("zluda-") in found]


def explain_zluda(name: str, matrix: Matrix) -> Explanation:
    """Explain a ZLUDA build."""
    version = name.removeprefix("zluda-")
    build = next(row for row in matrix.zluda if row.version == version)
    only = replace(matrix, zluda=(build,))
    found = {target: sets_for(only, target, "windows", zluda="*").candidates for target in matrix.targets}
    served = in_order(target for target, candidates in found.items() if candidates)
    sdks = {each.rocm.version for candidates in found.values() for each in candidates}
    request = Request(platform="windows", zluda=version, torch="*")
    title = f"ZLUDA {build.title or build.version} by {build.project}"
    return Explanation(
        thing=name,
        kind="zluda",
        title=f"{title} ({build.date})" if build.date else title,
        answer=tuple(_zluda_answer(matrix, build, sdks, served)),
        sections=(
            *sections(("The build", _build_lines(matrix, build))),
            *_tables(matrix, "zluda", version, "torch", "good_set", "verdict"),
        ),
        steps=tuple(first_step(matrix, "Windows", request, served[-1:])),
        steps_title="A set with this build",
    )


def _zluda_answer(matrix: Matrix, build: ZludaBuild, sdks: set[str], served: list[str]) -> Iterator[Line]:
    every = [row.version for row in matrix.hip_sdk]
    others = set(every) - sdks
    text = f"works with {listed(oldest_first(sdks))}" if sdks else "no known set"
    text += f"; not with {spans(others, every)}" if sdks and others else ""
    yield Line(label="HIP SDK", text=text, rows=(build,))
    driver = range_in_words(build.driver) if build.driver else "no known limits"
    yield Line(label="display driver", text=driver, rows=(build,))
    yield Line(label="targets", text=listed(served), rows=(build,))
    if build.preferred:
        yield Line(label="default", text="rocenv uses this build unless you choose another", rows=(build,))


def _build_lines(matrix: Matrix, build: ZludaBuild) -> Iterator[Line]:
    base = version_of(build.version).base_version
    twins = [
        f"`rocenv explain zluda-{row.version}`"
        for row in matrix.zluda
        if row is not build and version_of(row.version).base_version == base
    ]
    is_final = not version_of(build.version).is_prerelease
    facts = {
        "tag": build.tag,
        "built against": build.built_against,
        "default in": build.default_in,
        "notes": build.caveats,
        "reports": f"CUDA {build.cuda}, compute capability {build.capability}" if build.cuda else "",
        "same number": f"another build with this version: {listed(twins)}" if twins and is_final else "",
    }
    yield from (Line(label=label, text=text, rows=(build,)) for label, text in facts.items() if text)
    for asset in build.assets:
        text = "for Linux, where PyTorch has its own ROCm wheels"
        if asset.platform == "windows":
            unhashed = "" if asset.sha256 else "; no published hash"
            text = f"for HIP SDK {listed(asset.rocm, 'unknown')}{unhashed}"
        yield Line(label=asset.name, text=text, rows=(build,))


# ---------------------------------------------------------------------------------------------- PyTorch


def torch_names(matrix: Matrix) -> list[str]:
    """List the names of all releases."""
    return [f"torch-{each}" for each in oldest_first(series(row.version) for row in matrix.torch)]


def torch_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the release that a query matches; a patch release or a build matches its series."""
    asked = asked_version(thing, ("pytorch", "torch", "")).partition("+")[0]
    if "." not in asked:
        return []
    return [name for name in torch_names(matrix) if name == f"torch-{series(asked)}"]


def explain_torch(name: str, matrix: Matrix) -> Explanation:
    """Explain a PyTorch release."""
    release = name.removeprefix("torch-")
    found = [row for row in matrix.torch if series(row.version) == release]
    found.sort(key=lambda row: (version_of(row.version), version_of(row.rocm or row.cuda)))
    on_linux, on_windows = torch_for(matrix, "linux"), torch_for(matrix, "windows")
    linux = [row for row in found if row in on_linux]
    windows = [row for row in found if row in on_windows]
    ways = (("Linux", linux, ""), ("Windows, wheels", windows, ""), ("Windows, ZLUDA", windows, "*"))
    return Explanation(
        thing=name,
        kind="torch",
        title=f"PyTorch {release}",
        answer=(_torch_answer("Linux", linux), _torch_answer("Windows", windows)),
        sections=_tables(matrix, "torch", f"=={release}.*", "torch", "good_set", "verdict"),
        steps=tuple(each for way in ways for each in _torch_steps(matrix, *way)),
        steps_title="A set with this release, for one of its GPUs",
    )


def _torch_answer(platform: str, found: Sequence[TorchSet]) -> Line:
    rocm = listed(dict.fromkeys(row.rocm for row in found if row.rocm), "")
    cuda = listed((f"{row.version} for CUDA {row.cuda}" for row in found if row.cuda), "")
    targets = listed(in_order(target for row in found for target in row.targets), "")
    texts = [f"for ROCm {rocm}" if rocm else "", f"kernels for {targets}" if targets else ""]
    texts += [f"under ZLUDA: {cuda}" if cuda else ""]
    texts += ["" if all(row.released or row.channel for row in found) else "not released yet"]
    text = "; ".join(filter(None, texts)) or "no working wheel is known"
    return Line(label=platform, text=text, rows=tuple(found))


def _torch_steps(matrix: Matrix, label: str, found: Sequence[TorchSet], zluda: str) -> Iterable[Step]:
    """Describe a set with the newest wheel, for the newest target that has one."""
    versions = [row.version for row in found if bool(row.cuda) == bool(zluda)]
    if not versions:
        return ()
    platform: Platform = "linux" if label == "Linux" else "windows"
    request = Request(platform=platform, zluda=zluda, torch=versions[-1])
    return first_step(matrix, label, request, in_order(matrix.targets)[::-1])


# ---------------------------------------------------------------------------------------- library packs


def pack_names(matrix: Matrix) -> list[str]:
    """List the pack names for all targets, including targets without a pack."""
    return [f"{target}{_PACK}" for target in in_order(matrix.targets)]


def pack_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the packs that a query matches."""
    name = thing.replace(" ", "-").removesuffix("s")
    return [name] if name.removesuffix(_PACK) in matrix.targets and name.endswith(_PACK) else []


def explain_pack(name: str, matrix: Matrix) -> Explanation:
    """Explain the library packs for a target."""
    target = name.removesuffix(_PACK)
    packs = [*packs_for(matrix, target), *packs_for(matrix, target, kind="hipblaslt")]
    absent = [row for row in matrix.pack if row.absent and (not row.targets or target in row.targets)]
    found = sets_for(matrix, target, "windows", zluda="*")
    facts = sorted((row for row in matrix.fact if row.about == "pack"), key=lambda row: row.text)
    return Explanation(
        thing=name,
        kind="pack",
        title=f"Library packs for {target}",
        answer=(_pack_answer(matrix, target, packs), *rows.lines("pack", absent)),
        sections=sections(
            ("Packs", rows.lines("pack", packs)),
            ("How to use a pack", rows.lines("fact", facts if packs else ())),
        ),
        steps=(step(found, matrix, "Windows"),) if found.best and found.best.part("libraries") else (),
        steps_title="The set that rocenv chooses",
    )


def _pack_answer(matrix: Matrix, target: str, packs: Sequence[Pack]) -> Line:
    said = levels(matrix, "windows", target)
    own = [row for row in said.values() if row.level in ("official", "deprecated", "libraries")]
    versions = listed(oldest_first(row.rocm for row in own))
    native = f"HIP SDK {versions} has kernels for it and needs no pack" if own else ""
    if not packs:
        text = "; ".join(filter(None, (f"no library pack for {target} is known", native)))
        return Line(text=text, rows=tuple(own or said.values()))
    served = listed(sorted({series(each) for row in packs for each in row.rocm}, key=newest_first)[::-1])
    number = f"{len(packs)} pack{'s' if packs[1:] else ''}"
    text = f"{number}, for HIP SDK {served}; a pack works only with the release that it was built for"
    return Line(text=f"{text}. {native}" if native else text, rows=(*packs[:1], *said.values()))

"""A ZLUDA build: which HIP SDKs, drivers and torch go with it, and for which targets it makes a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Request
from rocenv.core.versions import allows, newest_first, version_of
from rocenv.explain.answer import Explanation, Line, sections
from rocenv.explain.archives import against, sdks_for
from rocenv.explain.combinations import combination_lines
from rocenv.explain.names import asked_version
from rocenv.explain.sets import alone, find_sets, step, zluda_sets
from rocenv.explain.words import listed, oldest_first, range_in_words, spans, targets_first
from rocenv.resolve.verdicts import Facts, applies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.releases import ZludaBuild
    from rocenv.data.rows import Matrix

_TROUBLES = 5
_COMMIT = 7  # digits of a commit that name a build


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    rows = sorted(matrix.zluda, key=lambda row: version_of(row.version))
    return list(dict.fromkeys(f"zluda-{row.version}" for row in rows))


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the builds that are meant: by version, by what the build calls itself, by tag or commit."""
    asked = asked_version(thing, ("zluda", "")) or thing
    if not asked:
        return []
    found = [row.version for row in matrix.zluda if asked in (row.version, row.title, row.tag)]
    if not found and len(asked) >= _COMMIT:
        found = [row.version for row in matrix.zluda if row.commit.startswith(asked.removeprefix("rel."))]
    return [name for name in names(matrix) if name.removeprefix("zluda-") in found]


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a build."""
    version = name.removeprefix("zluda-")
    build = next(row for row in matrix.zluda if row.version == version)
    only = alone(matrix, "zluda", build)
    served = {target: found for target in matrix.targets if (found := zluda_sets(only, target)).best}
    concerned = [
        row
        for row in matrix.verdict
        if row.zluda and applies(row, Facts(project=build.project, zluda=build.version))
    ]
    steps = []
    if served:
        target = targets_first(served)[-1]
        request = Request(platform="windows", target=target, zluda=version, torch="*")
        steps = [step(find_sets(matrix, request), matrix, f"For {target}")]
    return Explanation(
        thing=name,
        kind="zluda",
        title=f"ZLUDA {build.title or build.version} of {build.project}"
        + (f" ({build.date})" if build.date else ""),
        answer=tuple(_answer(matrix, build, targets_first(served))),
        sections=sections(
            ("The build", list(_lines(matrix, build))),
            ("Archives", list(_archive_lines(matrix, build))),
            (
                "Known combinations",
                combination_lines(
                    concerned, most=_TROUBLES, about="zluda", more=f"rocenv matrix --zluda {version}"
                ),
            ),
        ),
        steps=tuple(steps),
        steps_title="A set with it",
    )


def _answer(matrix: Matrix, build: ZludaBuild, served: list[str]) -> Iterator[Line]:
    archives = [asset for asset in build.assets if asset.platform == "windows" and asset.rocm]
    sdks = oldest_first(version for asset in archives for version in sdks_for(matrix, build, asset))
    others = [row for row in matrix.hip_sdk if row.version not in sdks]
    others.sort(key=lambda row: newest_first(row.version))
    text = f"goes with HIP SDK {listed(sdks)}" if sdks else "goes with no HIP SDK that is known here"
    bad = {
        row.what: row
        for sdk in others
        for asset in build.assets
        if asset.platform == "windows" and (row := against(matrix, build, asset, sdk)) is not None
    }
    if sdks and others:
        text += f"; not with {spans((row.version for row in others), (r.version for r in matrix.hip_sdk))}"
    yield Line(label="HIP SDK", text=text, rows=(build,))
    for row in list(bad.values())[:2]:
        yield Line(label="why not", text=row.what, rows=(row,))
    driver = range_in_words(build.driver) if build.driver else "any, as far as is known"
    yield Line(label="display driver", text=driver, rows=(build,))
    yield Line(label="targets", text=f"sets are there for {listed(served)}", rows=(build,))
    preferred = [row for row in matrix.zluda if row.preferred and row is not build]
    if build.preferred:
        yield Line(label="rocenv", text="takes it where no other is asked for, as the apps do", rows=(build,))
    elif preferred:
        text = f"takes {preferred[0].version} where that has an archive for the HIP SDK, as the apps do"
        yield Line(label="rocenv", text=text, rows=(preferred[0],))


def _lines(matrix: Matrix, build: ZludaBuild) -> Iterator[Line]:
    facts = {
        "tag": build.tag,
        "made against": build.built_against,
        "default in": build.default_in,
        "notes": build.caveats,
        "reports": f"CUDA {build.cuda}, compute capability {build.capability}" if build.cuda else "",
    }
    for label, text in facts.items():
        if text:
            yield Line(label=label, text=text, rows=(build,))
    wheels = [row for row in matrix.torch if row.cuda and allows(row.zluda or "<0", build.version)]
    if wheels:
        wheels.sort(key=lambda row: newest_first(row.version))
        text = (
            f"{listed(row.version for row in wheels)} (for CUDA {wheels[0].cuda}) are named together with it"
        )
        yield Line(label="torch", text=text, rows=tuple(wheels))
    twins = oldest_first(
        row.version
        for row in matrix.zluda
        if row is not build and version_of(row.version).base_version == version_of(build.version).base_version
    )
    if twins and not version_of(build.version).is_prerelease:
        text = (
            f"another build goes by this number: {listed(f'`rocenv explain zluda-{each}`' for each in twins)}"
        )
        yield Line(label="not to be mixed up", text=text, rows=(build,))


def _archive_lines(matrix: Matrix, build: ZludaBuild) -> Iterator[Line]:
    for asset in build.assets:
        if asset.platform != "windows":
            yield Line(
                label=asset.name, text="for Linux, where torch has wheels for ROCm itself", rows=(build,)
            )
            continue
        made_for = listed(asset.rocm, "no HIP SDK that is known")
        unhashed = "" if asset.sha256 else "; no hash of it is published"
        yield Line(label=asset.name, text=f"for HIP SDK {made_for}{unhashed}", rows=(build,))

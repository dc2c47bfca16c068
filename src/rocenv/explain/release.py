"""A ROCm release, and the HIP SDK that is the same release on Windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.model import Request
from rocenv.core.versions import series
from rocenv.explain.answer import Explanation, sections
from rocenv.explain.combinations import combination_lines
from rocenv.explain.names import asked_version
from rocenv.explain.release_on import (
    linux_release,
    linux_release_lines,
    windows_release,
    windows_release_lines,
)
from rocenv.explain.sets import find_sets, step
from rocenv.explain.words import listed, oldest_first
from rocenv.resolve.verdicts import Facts, applies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.rows import Matrix
    from rocenv.explain.answer import Step

_TROUBLES = 4


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked: `rocm-6.1` and, where there is one, `hip-sdk-6.1`."""
    sdks = oldest_first(series(row.version) for row in matrix.hip_sdk)
    return [*(f"rocm-{each}" for each in _series(matrix)), *(f"hip-sdk-{each}" for each in sdks)]


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the releases that are meant: a patch release is told with its series, `6` is all of 6."""
    sdk = asked_version(thing, ("hip-sdk", "hip sdk", "hip"))
    asked = sdk or asked_version(thing, ("rocm", ""))
    prefix = "hip-sdk" if sdk else "rocm"
    found = [series(asked)] if asked in _versions(matrix) else []
    found = found or [each for each in _series(matrix) if asked in (each, each.split(".")[0])]
    return [name for name in names(matrix) if name in [f"{prefix}-{each}" for each in found]]


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a release, on both platforms; about a HIP SDK, on Windows."""
    release = name.rpartition("-")[2]
    on_linux = not name.startswith("hip-sdk-")
    versions = oldest_first(each for each in _versions(matrix) if series(each) == release)
    sdks = [row.version for row in matrix.hip_sdk if series(row.version) == release]
    patches = [each for each in versions if each != release] if on_linux else sdks
    exact = listed(patches, "no exact release is known")
    concerned = [
        row
        for row in matrix.verdict
        if row.rocm
        and (on_linux or row.platform == "windows")
        and any(applies(row, Facts(rocm=version)) for version in versions)
    ]
    return Explanation(
        thing=name,
        kind="release",
        title=f"{'ROCm' if on_linux else 'HIP SDK'} {release}: {exact}",
        answer=(
            *((linux_release(matrix, release),) if on_linux else ()),
            windows_release(matrix, release),
        ),
        sections=sections(
            ("Linux", linux_release_lines(matrix, release) if on_linux else []),
            ("Windows", windows_release_lines(matrix, release)),
            (
                "Known combinations",
                combination_lines(
                    concerned, most=_TROUBLES, about="rocm", more=f"rocenv matrix --rocm {release}"
                ),
            ),
        ),
        steps=tuple(_steps(matrix, release, on_linux=on_linux)),
        steps_title="A set with it, for one of its targets",
    )


def _steps(matrix: Matrix, release: str, *, on_linux: bool) -> Iterator[Step]:
    wishes = [("Linux", Request(platform="linux", rocm=release, torch="*"))] if on_linux else []
    wishes.append(("Windows, ZLUDA", Request(platform="windows", rocm=release, zluda="*", torch="*")))
    wishes.append(("Windows, wheels", Request(platform="windows", rocm=release, torch="*")))
    for label, request in wishes:
        served = [
            target
            for row in matrix.support
            if row.platform == request.platform and row.rocm == release and row.level == "official"
            for target in row.targets
        ] or [
            target
            for row in matrix.rocm_wheels
            if row.platform == request.platform and series(row.version) == release
            for target in row.official or row.targets
        ]
        if served:
            # The last of them is a card that people have, rather than one of a data centre.
            found = find_sets(matrix, replace(request, target=served[-1]))
            if found.best is not None:
                yield step(found, matrix, label)


def _versions(matrix: Matrix) -> set[str]:
    found = {row.version for row in matrix.release} | {row.version for row in matrix.rocm}
    found |= {row.version for row in matrix.hip_sdk}
    found |= {row.version for row in matrix.rocm_wheels}
    return found | {row.rocm for row in matrix.support}


def _series(matrix: Matrix) -> list[str]:
    return oldest_first(series(version) for version in _versions(matrix))

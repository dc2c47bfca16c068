"""Decide which verdicts apply to a set, and describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocenv.core.versions import allows
from rocenv.data.knowledge import Verdict
from rocenv.resolve.combination import rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.core.model import Component, Lock, Rejection
    from rocenv.data.rows import Matrix
    from rocenv.resolve.combination import Case, Constraints

_VERDICTS = {"broken": "known to fail", "workaround": "known problem", "works": "known to work"}
_CONDITIONS = ("targets", "rocm", "zluda", "project", "flavour", "torch", "driver", "pack")


class Facts(NamedTuple):
    """The facts that verdicts depend on: None if undecided, "" if unknown or the component is missing."""

    platform: str | None = None
    target: str | None = None
    driver: str | None = None
    rocm: str | None = None
    zluda: str | None = None
    project: str | None = None
    flavour: str | None = None
    torch: str | None = None
    pack: str | None = None  # "none" for the SDK's own rocBLAS, "some" for a pack


def applies(row: Verdict, facts: Facts) -> bool:
    """Whether a set meets all of a verdict's conditions, as far as the facts are known.

    No other function decides this. Conditions on undecided facts are treated as met. Conditions stated only
    as text (`only_if`) are not checked.
    """
    return (
        facts.platform in (None, row.platform)
        and (not row.targets or facts.target is None or facts.target in row.targets)
        and _in_range(row.rocm, facts.rocm)
        and _in_range(row.zluda, facts.zluda)
        and _in_range(row.torch, facts.torch)
        and _in_range(row.driver, facts.driver)
        and (not row.project or facts.project in (None, row.project))
        and (not row.flavour or facts.flavour is None or facts.flavour in row.flavour)
        and (not row.pack or facts.pack in (None, row.pack))
    )


def applies_to_any(row: Verdict, facts: Facts, targets: Iterable[str]) -> bool:
    """Whether a verdict applies to one of a set's targets."""
    return any(applies(row, facts._replace(target=each)) for each in targets)


def without_zluda(rocm: str, torch: str = "") -> Facts:
    """Return the facts about a set without ZLUDA."""
    return Facts(rocm=rocm, torch=torch, zluda="", project="", flavour="", pack="")


def _in_range(condition: str, version: str | None) -> bool:
    return not condition or version is None or (bool(version) and allows(condition, version))


def is_certain(row: Verdict) -> bool:
    """Whether a verdict is `broken` and can be checked completely, so that it excludes sets."""
    return row.verdict == "broken" and not row.only_if


def certain(case: Case) -> list[tuple[str, Verdict]]:
    """Find the verdicts that can exclude sets for a request: (constraint, verdict)."""
    request = case.request
    facts = Facts(platform=request.platform, driver=case.driver)
    rows = [row for row in case.matrix.verdict if is_certain(row)]
    return [(constraint_of(row), row) for row in rows if applies_to_any(row, facts, request.targets)]


def against(rows: Iterable[tuple[str, Verdict]], facts: Facts, *, apart: object = False) -> Constraints:
    """Return the constraints for the verdicts that apply.

    If `apart` is true, the components are already known to be incompatible, so verdicts about combinations of
    components are skipped.
    """
    return frozenset(
        name for name, row in rows if not (apart and _is_about_several(row)) and applies(row, facts)
    )


def _is_about_several(row: Verdict) -> bool:
    conditions = (row.rocm, row.zluda or row.project or row.flavour, row.pack, row.torch)
    return sum(map(bool, conditions)) > 1


def about(case: Case) -> list[Verdict]:
    """Find all verdicts about a request's platform and targets, in a stable order."""
    facts = Facts(platform=case.request.platform)
    found = [row for row in case.matrix.verdict if applies_to_any(row, facts, case.request.targets)]
    return sorted(found, key=lambda row: (not row.targets, constraint_of(row), row.only_if))


def constraint_of(row: Verdict) -> str:
    """Return the constraint that represents a verdict."""
    kind = "driver" if row.driver else "verdict"  # a different driver avoids the problem
    return f"{kind}: {row.what} {tuple(getattr(row, name) for name in _CONDITIONS)}"


def is_verdict(constraint: str) -> bool:
    """Whether a constraint represents a verdict."""
    return constraint.startswith(("verdict: ", "driver: "))


def verdict_behind(constraint: str, case: Case) -> Verdict:
    """Find the verdict that a constraint represents."""
    return next(each for each in about(case) if constraint_of(each) == constraint)


def rejection(constraint: str, name: str, case: Case) -> Rejection:
    """Describe why a verdict excludes a set, or the components in `name`."""
    row = verdict_behind(constraint, case)
    given = f" with driver {case.driver}" if row.driver else ""
    text = f"{name}{given} is known to fail: {row.what}" + (f"; {row.remedy}" if row.remedy else "")
    return rejected(row, name, "no combination that is known to fail", row.what, text)


def note(row: Verdict) -> str:
    """Describe a verdict that does not exclude a set."""
    kind = _VERDICTS[row.verdict]
    if row.driver:
        kind += f" with display driver {row.driver}"
    where = f" in {row.app}" if row.app else ""
    condition = f", if {row.only_if}" if row.only_if else ""
    remedy = f"; {row.remedy}" if row.remedy else ""
    return f"{kind}{where}{condition}: {row.what}{remedy} ({row.source})"


def notes(facts: Facts, case: Case) -> Iterator[str]:
    """Describe a set's known problems, including those that depend on undecided facts."""
    facts = facts._replace(driver=case.driver or None)
    for row in about(case):
        if row.verdict != "works" and applies(row, facts):
            yield note(row)


def known_broken(lock: Lock, matrix: Matrix, driver: str = "") -> tuple[Verdict, ...]:
    """Find the verdicts against an existing set, most specific first.

    `resolve` never returns a set with such verdicts. But an env can be older than a verdict or come from an
    untrusted lock, and the display driver can change. Verdicts about drivers are ignored if the driver is
    unknown. A ZLUDA build that does not work with the driver is also returned as a verdict.
    """
    facts = facts_of(lock, matrix, driver)
    targets = (lock.target, *lock.request.more_targets)
    rows = [row for row in matrix.verdict if is_certain(row) and applies_to_any(row, facts, targets)]
    rows += _driver_limits(facts, matrix)
    return tuple(sorted(rows, key=lambda row: (-_specificity(row), row.what, row.source)))


def facts_of(lock: Lock, matrix: Matrix, driver: str) -> Facts:
    """Collect the facts about an existing set."""
    parts = {part.kind: part for part in lock.components}
    rocm, zluda, torch = parts.get("rocm"), parts.get("zluda"), parts.get("torch")
    return Facts(
        platform=lock.platform,
        target=lock.target,
        driver=driver,
        rocm=rocm.version if rocm else "",
        zluda=zluda.version if zluda else "",
        project=zluda.channel if zluda else "",
        flavour=_flavour(zluda, matrix) if zluda else "",
        torch=torch.version.partition("+")[0] if torch else "",
        pack="some" if "libraries" in parts else "none" if zluda else "",
    )


def _flavour(part: Component, matrix: Matrix) -> str:
    """Determine a build's flavor from its archive's name."""
    names = [artifact.name for artifact in part.artifacts]
    builds = (build for build in matrix.zluda if build.project == part.channel)
    assets = (asset for build in builds for asset in build.assets)
    return next((asset.flavour for asset in assets if asset.name in names), "")


def _driver_limits(facts: Facts, matrix: Matrix) -> Iterator[Verdict]:
    """Yield a verdict for a ZLUDA build that is incompatible with the display driver."""
    for build in matrix.zluda:
        is_it = (build.project, build.version) == (facts.project, facts.zluda)
        if not is_it or not facts.driver or allows(build.driver, facts.driver):
            continue
        yield Verdict(
            platform="windows",
            verdict="broken",
            what=f"ZLUDA {build.version} works with display drivers {build.driver}, not with {facts.driver}",
            project=build.project,
            zluda=f"=={build.version}",
            driver=f"=={facts.driver}",
            remedy=f"a newer build, or a display driver {build.driver}",
            status=build.status,
            source=build.source,
            checked=build.checked,
        )


def _specificity(row: Verdict) -> int:
    return sum(bool(getattr(row, name)) for name in _CONDITIONS)

"""Find the sets in the matrix that satisfy a request, best first, or explain why there are none.

The resolver does no I/O and does not read the clock. There are three kinds of sets: `linux`, `zluda` (Windows
with ZLUDA) and `windows` (ROCm itself). Each module enumerates its combinations, documents its order of
preference, and describes violated constraints. `combination` filters and sorts the combinations, and finds
a minimal explanation. The order of rows in the files does not matter.

The resolver does not know which channels are reachable: `plan` takes the first candidate that it can
download, and reports those that it could not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import ResolutionImpossible, WrongUsage
from rocenv.core.model import Machine, Rejection
from rocenv.core.versions import require_version, specifier
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.combination import (
    KINDS,
    UNKNOWN_TARGET,
    Case,
    best_of_each_root,
    closest,
    example,
    explanation,
    kind_of,
)
from rocenv.resolve.request import no_set
from rocenv.resolve.suggest import suggestions, without_zluda

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Request
    from rocenv.data.rows import Matrix
    from rocenv.resolve.combination import Combination, Constraints, Kind

__all__ = ["Candidate", "Choice", "resolve"]


def resolve(request: Request, matrix: Matrix, machine: Machine | None = None) -> Iterator[Candidate]:
    """Find the sets for a request, best first; one per ROCm release and kind of support for the target.

    Raises:
        RocenvError: A SPEC or the driver is not a valid version, or ZLUDA is requested for several targets;
            exit code 2.
        ResolutionImpossible: No set satisfies the request. The error includes a minimal explanation, and
            commands that would work.
    """
    # A typo in a SPEC is an error even if nothing depends on it.
    for name in ("rocm", "zluda", "torch", "python"):
        specifier(getattr(request, name) or "*", f"--{name}")
    if request.driver:
        require_version(request.driver, "--driver")
    if request.zluda and request.more_targets:
        raise WrongUsage(
            "a set with ZLUDA supports only one target",
            hints=("create one env per target", "without `--zluda`, a set can support several"),
        )
    case = Case(request=request, matrix=matrix, machine=machine or Machine())
    if (request.platform, bool(request.zluda)) not in KINDS:
        raise ResolutionImpossible(
            "ZLUDA is for Windows only; on Linux, PyTorch has wheels built for ROCm",
            suggestions=without_zluda(case),
        )
    kind = kind_of(request)
    combinations = list(kind.combinations(case))
    fitting = best_of_each_root(combinations)
    if not fitting:
        raise _impossible(kind, closest(combinations), case)
    return (kind.candidate(each.parts, case) for each in fitting)


def _impossible(kind: Kind, found: dict[Constraints, Combination], case: Case) -> ResolutionImpossible:
    lines = explanation(found)
    unknown = UNKNOWN_TARGET in lines
    return ResolutionImpossible(
        no_set(case.request),
        rejections=tuple(
            _unknown_target(case)
            if line == UNKNOWN_TARGET
            else kind.rejection(line, example(line, lines, found).parts, case)
            for line in lines
        ),
        suggestions=suggestions(found, case),
        hints=("list the known targets: `rocenv matrix`",) if unknown else (),
    )


def _unknown_target(case: Case) -> Rejection:
    target, targets = case.unknown_targets[0], case.matrix.targets
    newest = max((row.checked for row in targets.values()), default="")
    return Rejection(
        component=target,
        requirement="a target in the matrix",
        found=f"not among the {len(targets)} targets known as of {newest}",
        source="profiles/targets.toml",
        text=(
            f"{target} is not among the {len(targets)} targets in rocenv's data (as of {newest}), which "
            "therefore lists no release, wheel or library pack for it"
        ),
    )

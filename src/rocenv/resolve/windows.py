"""Sets for Windows without ZLUDA: ROCm as Python wheels, or AMD's HIP SDK alone if no PyTorch is wanted.

The order of preference; the first difference decides: wheels before the SDK; AMD supports the target, before
it is only built for it; how well that is known; the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.core.versions import allows, any_meets, joined, meets, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.data.releases import HipSdk, RocmWheels
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.combination import SERVING, Combination, Constraints, rejected, unmet
from rocenv.resolve.verdicts import without_zluda
from rocenv.resolve.zluda import CHANNEL, has_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from rocenv.core.model import Rejection
    from rocenv.resolve.combination import Case

    Row: TypeAlias = RocmWheels | HipSdk


def combinations(case: Case) -> Iterator[Combination]:
    """Yield every release; it is the only part."""
    rows = verdicts.certain(case)
    wheels = [row for row in case.matrix.rocm_wheels if "windows" in row.platforms]
    choices: list[Row] = [*wheels, *case.matrix.hip_sdk]
    for row in choices:
        broken = _broken(row, case) | verdicts.against(rows, without_zluda(row.version))
        yield Combination(root=row, parts=row, rank=_rank(row, case), broken=broken)


def _rank(row: Row, case: Case) -> tuple[Any, ...]:
    return (
        isinstance(row, HipSdk),
        case.request.target not in _targets(row, case, supported=True),
        STATUS_RANK[row.status],
        newest_first(row.version),
        channel_of(row),
        row.index if isinstance(row, RocmWheels) else "",
    )


def _broken(row: Row, case: Case) -> Constraints:
    request = case.request
    broken = case.unknown_target | unmet(
        rocm=meets(request.rocm, row.version, "--rocm"), channel=request.channel in ("", channel_of(row))
    )
    if isinstance(row, HipSdk):
        return broken | unmet(target=has_kernels(row, case), wheels=not request.torch)
    return broken | unmet(
        target=request.target in row.targets,
        python=any_meets(request.python, row.python, "--python"),
        torch=not row.torch or any(meets(request.torch, version, "--torch") for version in row.torch),
        driver=not case.driver or allows(row.driver, case.driver),
        nightly=not row.nightly or request.channel == row.channel,
    )


def channel_of(row: Row) -> str:
    """The channel that a row belongs to."""
    return row.channel if isinstance(row, RocmWheels) else CHANNEL


def _targets(row: Row, case: Case, *, supported: bool) -> tuple[str, ...]:
    """List the targets that a row has kernels for, or only those that AMD supports."""
    if isinstance(row, RocmWheels):
        return row.official if supported else row.targets
    levels = ("official", "deprecated") if supported else SERVING
    found = {
        target
        for each in case.matrix.support
        if (each.platform, each.channel, each.rocm) == ("windows", "", series(row.version))
        and each.level in levels
        for target in each.targets
    }
    return tuple(sorted(found, key=lambda target: (len(target), target)))


# ---------------------------------------------------------------- the set that is taken


def candidate(row: Row, case: Case) -> Candidate:
    """See `Kind`."""
    target = case.request.target
    supported = target in _targets(row, case, supported=True)
    promise = f"AMD supports {target}" if supported else f"works on {target}, but AMD does not support it"
    kind = "wheels for Windows" if isinstance(row, RocmWheels) else "AMD's installer"
    chosen = Choice(
        kind="rocm",
        row=row,
        version=row.version,
        channel=channel_of(row),
        why=f"{kind}; {promise}",
        python=_python(row, case),
    )
    return Candidate(parts=(chosen,), runs_as=target, notes=tuple(_notes(row, case)))


def _python(row: Row, case: Case) -> str:
    """Choose the newest Python that a release has wheels for and the user accepts."""
    known = row.python if isinstance(row, RocmWheels) else ()
    wanted = [each for each in known if any_meets(case.request.python, (each,), "--python")]
    return min(wanted, key=newest_first, default="")


def _notes(row: Row, case: Case) -> Iterator[str]:
    if isinstance(row, RocmWheels):
        if row.driver and not case.driver:
            yield (
                f"needs display driver {row.driver}; this machine's driver is unknown: name it with "
                "`--driver`"
            )
        if case.request.torch and not row.torch:
            yield f"rocenv does not know which torch releases {row.index} has, so it takes the newest"
    if row.note:
        yield row.note


# ---------------------------------------------------------------- why nothing fits


def rejection(constraint: str, row: Row, case: Case) -> Rejection:
    """See `Kind`."""
    name, request = _title(row), case.request
    if verdicts.is_verdict(constraint):
        return verdicts.rejection(constraint, name, case)
    targets = joined(_targets(row, case, supported=False), 30)
    wanted, found = {
        "rocm": (f"ROCm {request.rocm}", row.version),
        "channel": (f"channel {request.channel}", channel_of(row)),
        "python": (f"Python {request.python}", f"Python {joined(getattr(row, 'python', ()))}"),
        "torch": (f"torch {request.torch}", f"torch {joined(getattr(row, 'torch', ()))}"),
        "driver": (f"display driver {getattr(row, 'driver', '')}", case.driver),
        "target": (f"target {request.target}", f"built for {targets}"),
        "wheels": ("torch", "has no torch: use ROCm's own wheels, or ZLUDA (`--zluda`)"),
        "nightly": ("a release", "nightly builds only"),
    }[constraint]
    text = {
        "driver": f"{name} needs {wanted}, and this machine has {found}",
        "target": f"{name} is not built for {request.target}; it is {found}",
        "wheels": f"{name} {found}",
        "nightly": f"{name} has {found}; name the channel to use it (`--channel {channel_of(row)}`)",
        "python": f"You asked for {wanted}, and {name} is for {found}",
        "torch": f"You asked for {wanted}, and {name} has {found}",
    }.get(constraint, "")
    return rejected(row, name, wanted, found, text)


def remarks(_case: Case) -> tuple[str, ...]:
    """See `Kind`; the suggestions name the alternatives."""
    return ()


def _title(row: Row) -> str:
    if isinstance(row, RocmWheels):
        return f"ROCm {row.version} from channel {row.channel}"
    return f"HIP SDK {row.version}"

"""Sets for Windows without ZLUDA: ROCm as Python wheels, or the HIP SDK alone without PyTorch.

The first difference decides: (1) wheels before the SDK; (2) support for the target: by AMD, marked
release-ready by the builders, or only built; (3) how reliable the data about the release is; (4) the newest
ROCm; (5) a PyTorch release that AMD lists for this ROCm; (6) the newest PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rocenv.core.versions import meets, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.data.releases import RocmWheels
from rocenv.data.windows import HipSdk
from rocenv.resolve import verdicts, wheels
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.combination import NOTHING, SERVING, Combination, choices, rejected, unmet
from rocenv.resolve.verdicts import Facts, without_zluda
from rocenv.resolve.zluda import CHANNEL, has_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from rocenv.core.model import Rejection
    from rocenv.data.releases import TorchSet
    from rocenv.resolve.combination import Case, Constraints, Option

    Row: TypeAlias = RocmWheels | HipSdk


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A ROCm release and its PyTorch."""

    rocm: Row
    torch: TorchSet | None = None

    @property
    def facts(self) -> Facts:
        """The facts that verdicts depend on."""
        return without_zluda(self.rocm.version, self.torch.version if self.torch else "")


def combinations(case: Case) -> Iterator[Combination]:
    """Yield every combination of a ROCm release (wheels or HIP SDK) and a PyTorch release."""
    known = verdicts.certain(case)
    torches = [wheels.torch_option(row, case) for row in case.matrix.torch if row.channel]
    rows: list[Row] = [*wheels.rows(case), *case.matrix.hip_sdk]
    for row in rows:
        rank, unfit = _rank(row, case), _broken(row, case)
        for torch, torch_unfit in _torch_choices(row, torches, case):
            parts = Parts(rocm=row, torch=torch.row)
            against = verdicts.against(known, parts.facts, apart="wheels" in torch_unfit)
            broken = unfit | torch_unfit | against
            yield Combination(root=row, parts=parts, rank=(rank, torch.rank), broken=broken)


def _torch_choices(row: Row, torches: Sequence[Option], case: Case) -> Iterator[tuple[Option, Constraints]]:
    if not case.request.torch or isinstance(row, HipSdk):
        yield NOTHING, unmet(wheels=not case.request.torch)
        return
    near = wheels.torches_for(row, torches)
    yield from choices(near, [each for each in near if wheels.goes_with(each.row, row)], "wheels")


def _rank(row: Row, case: Case) -> tuple[Any, ...]:
    return (
        isinstance(row, HipSdk),
        _promise(row, case),
        STATUS_RANK[row.status],
        newest_first(row.version),
        channel_of(row),
    )


def _promise(row: Row, case: Case) -> int:
    if isinstance(row, RocmWheels):
        return wheels.promise(row, case.request.targets)
    supported = set(case.request.targets) <= set(_targets(row, case, supported=True))
    return wheels.SUPPORTED if supported else wheels.BUILT


def _broken(row: Row, case: Case) -> Constraints:
    request = case.request
    unfit = case.unknown_target | unmet(
        rocm=meets(
            request.rocm, row.version, "--rocm", floating=isinstance(row, RocmWheels) and row.floating
        ),
        channel=request.channel in ("", channel_of(row)),
    )
    if isinstance(row, HipSdk):
        each = (replace(case, request=structs.replace(request, target=name)) for name in request.targets)
        return unfit | unmet(target=all(has_kernels(row, one) for one in each))
    return unfit | wheels.broken(row, case) | unmet(target=set(request.targets) <= set(row.targets))


def channel_of(row: Row) -> str:
    """Return a row's channel."""
    return row.channel if isinstance(row, RocmWheels) else CHANNEL


def _targets(sdk: HipSdk, case: Case, *, supported: bool) -> tuple[str, ...]:
    """List the targets with kernels in an SDK, or only those that AMD supports."""
    levels = ("official", "deprecated") if supported else SERVING
    found = {
        target
        for each in case.matrix.support
        if (each.platform, each.rocm) == ("windows", series(sdk.version)) and each.level in levels
        for target in each.targets
    }
    return tuple(sorted(found, key=lambda target: (len(target), target)))


# ---------------------------------------------------------------- the chosen set


def candidate(parts: Parts, case: Case) -> Candidate:
    """Implement `Kind.candidate`."""
    row, torch = parts.rocm, parts.torch
    chosen = [Choice(kind="rocm", row=row, version=row.version, channel=channel_of(row), why=_why(row, case))]
    if torch is not None:
        why = f"built for ROCm {torch.rocm}"
        chosen.append(Choice(kind="torch", row=torch, version=torch.version, channel=torch.index, why=why))
    notes = (*_notes(row, case), *verdicts.notes(parts.facts, case))
    return Candidate(parts=tuple(chosen), runs_as=case.request.target, notes=notes)


def _why(row: Row, case: Case) -> str:
    if isinstance(row, RocmWheels):
        return f"{case.matrix.channels[row.channel].title}; {wheels.promised(row, case.request.targets)}"
    target = case.request.target
    supported = target in _targets(row, case, supported=True)
    return "AMD's installer; " + (
        f"AMD supports {target}" if supported else f"works on {target}, but AMD does not support it"
    )


def _notes(row: Row, case: Case) -> Iterator[str]:
    if isinstance(row, RocmWheels) and row.driver and not case.driver:
        yield f"needs display driver {row.driver}, but the installed version is unknown (use `--driver`)"
    if row.note:
        yield row.note


# ---------------------------------------------------------------- why nothing works


def rejection(constraint: str, parts: Parts, case: Case) -> Rejection:
    """Implement `Kind.rejection`."""
    row, request = parts.rocm, case.request
    name = _title(row)
    if verdicts.is_verdict(constraint):
        return verdicts.rejection(constraint, name, case)
    if isinstance(row, RocmWheels) and constraint in wheels.broken(row, case):
        return wheels.rejection(constraint, row, name, case)
    if isinstance(row, RocmWheels) and parts.torch is not None and constraint == "wheels":
        return wheels.other_release(parts.torch, row, name, case)
    if parts.torch is not None and constraint in ("torch", "python", "glibc"):
        return wheels.torch_rejection(constraint, parts.torch, case)
    if constraint == "target":
        served = row.targets if isinstance(row, RocmWheels) else _targets(row, case, supported=False)
        missing = ", ".join(each for each in request.targets if each not in served)
        return wheels.not_built(row, name, missing, served)
    wanted, found = {
        "rocm": (f"ROCm {request.rocm}", row.version),
        "channel": (f"channel {request.channel}", channel_of(row)),
        "wheels": ("torch", "does not include torch: use ROCm's own wheels, or ZLUDA (`--zluda`)"),
    }[constraint]
    return rejected(row, name, wanted, found, f"{name} {found}" if constraint == "wheels" else "")


def _title(row: Row) -> str:
    if isinstance(row, RocmWheels):
        return f"ROCm {row.version} from channel {row.channel}"
    return f"HIP SDK {row.version}"

"""Sets for Windows without ZLUDA: ROCm as Python wheels, or AMD's HIP SDK alone where no torch is wanted.

Order, the first difference decides: wheels before the SDK; the maker supports the target, before it is only
built for it; how well that is known; the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Rejection
from rocenv.core.versions import allows, any_fits, joined, newest_first, series, wish
from rocenv.data.known import STATUS_RANK
from rocenv.data.releases import HipSdk, RocmWheels
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import SERVING, UNKNOWN, WISHES, Candidate, Choice
from rocenv.resolve.engine import Option, Problem
from rocenv.resolve.zluda.shelf import CHANNEL, promises

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import Verdict
    from rocenv.data.rows import Matrix
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Rules, Whole


def problem(case: Case) -> Problem:
    """Return what there is to choose from."""
    rows = _rows(case.matrix)
    marks = verdicts.Marks(case.matrix.kept("windows", _placed), case)
    served = _served(case)
    roots = tuple(_root(row, marks.of(0, number), served, case) for number, row in enumerate(rows))
    return Problem(roots=roots, bad=marks.bad, wishes=frozenset(WISHES))


def _rows(matrix: Matrix) -> list[RocmWheels | HipSdk]:
    return [*(row for row in matrix.rocm_wheels if "windows" in row.platforms), *matrix.hip_sdk]


def _placed(matrix: Matrix) -> verdicts.Placed:
    finders = (verdicts.versions("rocm", [row.version for row in _rows(matrix)]), _of_zluda)
    return verdicts.placed(matrix.verdict, "windows", finders)


def _of_zluda(row: Verdict) -> list[int] | None:
    """Return that nothing here meets conditions on ZLUDA, its torch or packs."""
    return [] if row.zluda or row.project or row.flavour or row.pack or row.torch else None


def _served(case: Case) -> dict[str, str]:
    """Return what each HIP SDK does for the target, by its series."""
    return {release: row.level for release, row in promises(case).items() if row.level in SERVING}


def _root(row: RocmWheels | HipSdk, marks: tuple[Rules, Rules], served: dict[str, str], case: Case) -> Option:
    request = case.request
    rules = set()
    if not wish(request.rocm, "--rocm").meets(row.version):
        rules.add("rocm")
    if request.channel and request.channel != channel_of(row):
        rules.add("channel")
    if not case.knows_target:
        rules.add(UNKNOWN)
    if isinstance(row, RocmWheels):
        serves, supported = request.target in row.targets, request.target in row.official
        rules |= _against_wheels(row, case)
    else:
        level = served.get(series(row.version), "")
        serves, supported = bool(level), level in ("official", "deprecated")
        if request.torch:
            rules.add("wheels")
    if not serves:
        rules.add("target")
    breaks, hits = marks
    rank = (
        isinstance(row, HipSdk),
        not supported,
        STATUS_RANK[row.status],
        newest_first(row.version),
        channel_of(row),
        row.index if isinstance(row, RocmWheels) else "",
    )
    return Option(part=row, rank=rank, breaks=breaks | rules, hits=hits)


def _against_wheels(row: RocmWheels, case: Case) -> set[str]:
    request = case.request
    rules = set()
    if not any_fits(request.python, row.python):
        rules.add("python")
    if row.torch and not any(map(wish(request.torch, "--torch").meets, row.torch)):
        rules.add("torch")
    if row.driver and case.driver and not allows(row.driver, case.driver):
        rules.add("driver")
    if row.nightly and request.channel != row.channel:
        rules.add("nightly")
    return rules


def channel_of(row: RocmWheels | HipSdk) -> str:
    """Return the channel that a row is of."""
    return row.channel if isinstance(row, RocmWheels) else CHANNEL


def _targets(row: RocmWheels | HipSdk, case: Case, *, supported: bool) -> tuple[str, ...]:
    """Return the targets that a row has kernels for, or that its maker supports."""
    if isinstance(row, RocmWheels):
        return row.official if supported else row.targets
    levels = ("official", "deprecated") if supported else SERVING
    found = {
        target
        for each in case.matrix.support
        if each.platform == "windows"
        and not each.channel
        and each.rocm == series(row.version)
        and each.level in levels
        for target in each.targets
    }
    return tuple(sorted(found, key=lambda target: (len(target), target)))


def candidate(whole: Whole, case: Case) -> Candidate:
    """Return a whole that fits, with what should be said about it."""
    row: RocmWheels | HipSdk = whole[0].part
    target = case.request.target
    supported = target in _targets(row, case, supported=True)
    promise = f"AMD supports {target}" if supported else f"built for {target}, without AMD's promise"
    kind = "wheels for Windows" if isinstance(row, RocmWheels) else "AMD's installer"
    choice = Choice(
        kind="rocm",
        row=row,
        version=row.version,
        channel=channel_of(row),
        why=f"{kind}; {promise}",
        python=_python(row, case),
    )
    return Candidate(parts=(choice,), runs_as=target, notes=tuple(_notes(row, case)))


def _python(row: RocmWheels | HipSdk, case: Case) -> str:
    """Return the newest Python that a release has wheels for and that was asked for."""
    known = row.python if isinstance(row, RocmWheels) else ()
    wanted = [python for python in known if any_fits(case.request.python, (python,))]
    return min(wanted, key=newest_first, default="")


def _notes(row: RocmWheels | HipSdk, case: Case) -> Iterator[str]:
    if isinstance(row, RocmWheels):
        if row.driver and not case.driver:
            yield f"needs display driver {row.driver}; this machine's is not known: say it with `--driver`"
        if case.request.torch and not row.torch:
            yield f"which releases of torch {row.index} holds is not known here: the newest there is taken"
    if row.note:
        yield row.note


def title(row: RocmWheels | HipSdk) -> str:
    """Return how a row is called."""
    return (
        f"ROCm {row.version} of channel {channel_of(row)}"
        if isinstance(row, RocmWheels)
        else f"HIP SDK {row.version}"
    )


def reason(rule: str, whole: Whole, case: Case) -> Rejection:
    """Return in words why a whole breaks a rule, with the source of the fact."""
    row: RocmWheels | HipSdk = whole[0].part
    name, request = title(row), case.request
    if verdicts.is_verdict(rule):
        return verdicts.reason(rule, name, case)
    needs, found, text = {
        "rocm": (f"ROCm {request.rocm}", row.version, ""),
        "channel": (f"channel {request.channel}", channel_of(row), ""),
        "target": (
            f"target {request.target}",
            f"made for {joined(_targets(row, case, supported=False), 30)}",
            f"{name} is not made for {request.target}",
        ),
        "wheels": (
            "torch",
            "holds no torch: that needs ROCm's own wheels, or ZLUDA (`--zluda`)",
            f"{name} holds no torch, which needs ROCm's own wheels, or ZLUDA (`--zluda`)",
        ),
        "nightly": (
            "a release",
            "nightly builds only",
            f"{name} has nightly builds only, taken where asked for (`--channel {channel_of(row)}`)",
        ),
        "python": (f"Python {request.python}", f"Python {joined(getattr(row, 'python', ()))}", ""),
        "torch": (f"torch {request.torch}", f"torch {joined(getattr(row, 'torch', ()))}", ""),
        "driver": (
            f"display driver {getattr(row, 'driver', '')}",
            case.driver,
            f"{name} needs display driver {getattr(row, 'driver', '')}, and this one is {case.driver}",
        ),
    }[rule]
    text = text or f"{needs} is asked for, which leaves out {name} with {found}"
    return Rejection(component=name, requirement=needs, found=found, source=row.source, text=text)


def remarks(_case: Case) -> tuple[str, ...]:
    """Return nothing: the suggestions name what there is besides."""
    return ()

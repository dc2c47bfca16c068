"""Sets for Linux: a ROCm release from a channel, PyTorch built for it, and an override if needed.

A release comes as packages or as wheels (`RocmWheels`); both are ranked together.

Sets are compared by these criteria, and the first difference decides:

1. How the release supports the target: with its own kernels; with an override that works; with one that
needs care; with wheels that are built for it but possibly never tested on it; or with a compiler that
supports the target although rocBLAS has no kernels for it.
2. A release tested with the machine's kernel driver, or on a kernel no newer than the machine's, if known.
3. Packages before wheels, unless PyTorch or `--dev` is requested: non-Python programs look for libraries
under the names that packages use, but wheels use different names and have no search path.
4. Support for the target: by the vendor; marked release-ready by the builders; only in the libraries.
5. The vendor's own channel before a distribution's.
6. How reliable the data about the release and the target is: stated by the vendor or tested, reported,
inferred.
7. The newest release.
8. A released PyTorch before a release candidate; for wheels, one that AMD lists; then the newest.

As a result, a set with PyTorch uses ROCm 10.0 wheels rather than 7.2 packages if AMD supports the GPU in
both, and 6.3 packages rather than wheels that are merely built for the GPU. `--rocm` and `--channel`
override this. Opt-in channels (`only_named`) are used only if the request specifies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocenv.core.versions import allows, joined, meets, meets_whole, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.data.releases import RocmSet, RocmWheels
from rocenv.resolve import verdicts, wheels
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.combination import (
    NONE,
    NOTHING,
    SERVING,
    Combination,
    Constraints,
    Option,
    choices,
    rejected,
    unmet,
)
from rocenv.resolve.drivers import driver_notes, untested_releases
from rocenv.resolve.verdicts import Facts, without_zluda

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.core.model import Rejection
    from rocenv.data.knowledge import Override
    from rocenv.data.releases import TorchSet
    from rocenv.resolve.combination import Case

_WAYS = {"native": 0, "ok": 1, "caution": 2, "built": 3, "compile": 4, "block": 5, "reject": 6}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """How a ROCm release supports a target."""

    row: RocmSet | RocmWheels
    runs_as: str  # target that its kernels are built for
    kind: str  # a key of `_WAYS`
    override: Override | None = None

    @property
    def title(self) -> str:
        """The release and its channel."""
        return f"ROCm {self.row.version} from channel {self.row.channel}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One choice for every component."""

    way: Way
    torch: TorchSet | None = None

    @property
    def facts(self) -> Facts:
        """The facts that verdicts depend on."""
        return without_zluda(self.way.row.version, self.torch.version if self.torch else "")


# ---------------------------------------------------------------- combinations


def combinations(case: Case) -> Iterator[Combination]:
    """Yield every combination of a release, a way to support the target, and a PyTorch release."""
    torches = [wheels.torch_option(row, case) for row in case.matrix.torch if row.rocm]
    rows = verdicts.certain(case)
    untested = untested_releases({row.version for row in _rows(case)}, case)
    for way in _ways(case):
        rank, broken = _rank(way, untested, case), _broken(way, case)
        for torch, torch_broken in _torch_choices(way, torches, case):
            parts = Parts(way=way, torch=torch.row)
            known = verdicts.against(rows, parts.facts, apart="wheels" in torch_broken)
            yield Combination(
                root=way,
                parts=parts,
                rank=(rank, torch.rank),
                broken=broken | torch_broken | known,
            )


def _ways(case: Case) -> Iterator[Way]:
    target = case.request.target
    overrides = [row for row in case.matrix.override if row.target == target and row.runs_as != "*"]
    for row in _rows(case):
        has_kernels = set(case.request.targets) <= set(row.blas)
        yield Way(row=row, runs_as=target, kind=_native(row, case) if has_kernels else "compile")
        if has_kernels and (isinstance(row, RocmWheels) or not case.request.torch):
            continue  # no requested target needs an override
        if case.request.more_targets:
            continue  # an override applies to all targets
        for override in overrides:
            yield Way(row=row, runs_as=override.runs_as, kind=override.verdict, override=override)


def _is_requested(row: RocmSet | RocmWheels, case: Case) -> bool:
    if isinstance(row, RocmSet) and row.is_mixed:
        return meets_whole(case.request.rocm, row.version, "--rocm")
    floating = isinstance(row, RocmWheels) and row.floating
    return meets(case.request.rocm, row.version, "--rocm", floating=floating)


def _native(row: RocmSet | RocmWheels, case: Case) -> str:
    """Return `built` for wheels whose kernels might be untested, and `native` otherwise."""
    unproved = isinstance(row, RocmWheels) and wheels.promise(row, case.request.targets) == wheels.BUILT
    return "built" if unproved else "native"


def _rows(case: Case) -> list[RocmSet | RocmWheels]:
    channels, named = case.matrix.channels, case.request.channel
    packages = [
        row for row in case.matrix.rocm if row.channel == named or not channels[row.channel].only_named
    ]
    return [*packages, *wheels.rows(case)]


def _broken(way: Way, case: Case) -> Constraints:
    request, row, override = case.request, way.row, way.override
    served = row.compiles if way.kind == "compile" else row.blas
    broken = case.unknown_target | unmet(
        rocm=_is_requested(row, case),
        channel=request.channel in ("", row.channel),
        target=way.runs_as in served and set(request.more_targets) <= set(served),
    )
    if isinstance(row, RocmWheels):
        broken |= wheels.broken(row, case)
    if override is None:
        return broken
    return broken | unmet(
        **{
            f"override {override.value}": override.verdict not in ("block", "reject"),
            f"override {override.value} {override.rocm}": allows(override.rocm, row.version),
        }
    )


def _rank(way: Way, untested: frozenset[str], case: Case) -> tuple[Any, ...]:
    row = way.row
    return (
        _WAYS[way.kind],
        series(row.version) in untested,
        isinstance(row, RocmWheels) and not (case.request.torch or case.request.dev),
        _promise(way, case.request.more_targets),
        case.matrix.channels[row.channel].by != "maker",
        _doubt(way, case),
        newest_first(row.version),
        row.channel,
        way.override.value if way.override else "",
    )


def _promise(way: Way, more: Sequence[str]) -> int:
    """Rate official support for the targets, as `wheels.promise` does."""
    if isinstance(way.row, RocmWheels):
        return wheels.promise(way.row, (way.runs_as, *more))
    return wheels.SUPPORTED if {way.runs_as, *more} <= set(way.row.official) else wheels.BUILT


def _doubt(way: Way, case: Case) -> int:
    """Rate how uncertain the data about the release and its target support is; 0 means certain."""
    of_release = STATUS_RANK[way.row.status]
    if isinstance(way.row, RocmWheels):
        return of_release
    stated = [
        STATUS_RANK[row.status]
        for row in case.matrix.support
        if (row.platform, row.rocm) == ("linux", series(way.row.version))
        and row.level in SERVING
        and way.runs_as in row.targets
    ]
    return max(of_release, min(stated, default=of_release))


def _torch_choices(way: Way, torches: Sequence[Option], case: Case) -> Iterator[tuple[Option, Constraints]]:
    if not case.request.torch:
        yield NOTHING, NONE
        return
    if isinstance(way.row, RocmWheels):
        torches = wheels.torches_for(way.row, torches)
    yield from choices(torches, [each for each in torches if _goes_with(each.row, way, case)], "wheels")


def _goes_with(torch: TorchSet, way: Way, case: Case) -> bool:
    target = case.request.target
    if isinstance(way.row, RocmWheels) or torch.channel:
        return wheels.goes_with(torch, way.row)
    # An override is useless if every component supports the target natively.
    is_native = way.override is not None and target in way.row.blas and target in torch.targets
    served = {way.runs_as, *case.request.more_targets} <= set(torch.targets)
    is_for = series(torch.rocm) == series(way.row.version) and served
    return is_for and not is_native


# ---------------------------------------------------------------- the chosen set


def candidate(parts: Parts, case: Case) -> Candidate:
    """Implement `Kind.candidate`."""
    way, torch = parts.way, parts.torch
    row = way.row
    chosen = [Choice(kind="rocm", row=row, version=row.version, channel=row.channel, why=_why(way, case))]
    if torch is not None:
        kernels = ", ".join((way.runs_as, *case.request.more_targets))
        why = f"built for ROCm {torch.rocm}, with kernels for {kernels}"
        chosen.append(Choice(kind="torch", row=torch, version=torch.version, channel=torch.index, why=why))
    return Candidate(
        parts=tuple(chosen),
        runs_as=way.runs_as,
        override=way.override,
        warnings=tuple(_warnings(way, case)),
        notes=tuple(_notes(parts, case)),
        local_notes=tuple(driver_notes(row.version, case)),
    )


def _why(way: Way, case: Case) -> str:
    channel = case.matrix.channels[way.row.channel]
    if isinstance(way.row, RocmWheels):
        return f"{channel.title}; {wheels.promised(way.row, (way.runs_as, *case.request.more_targets))}"
    by = "the maker" if channel.by == "maker" else "a distribution"
    if way.kind == "compile":
        return f"{channel.title}, {by}; only its compiler supports {', '.join(_without_kernels(way, case))}"
    kernels = ", ".join((way.runs_as, *case.request.more_targets))
    return f"{channel.title}, {by}; its rocBLAS has kernels for {kernels}"


def _without_kernels(way: Way, case: Case) -> list[str]:
    """List the targets without kernels in the release's BLAS, or the first if all have them."""
    served = (way.runs_as, *case.request.more_targets)
    return [each for each in served if each not in way.row.blas] or [way.runs_as]


def _notes(parts: Parts, case: Case) -> Iterator[str]:
    way, torch = parts.way, parts.torch
    row = way.row
    official = row.official if isinstance(row, RocmSet) else ()
    unlisted = [each for each in case.request.targets if each not in official] if official else []
    if unlisted and way.kind != "compile" and way.override is None:
        them = "it" if len(unlisted) == 1 else "them"
        found = ", ".join(unlisted)
        yield f"its libraries have kernels for {found}, but its maker does not officially support {them}"
    if torch is not None and not torch.released and not torch.channel:
        yield f"torch {torch.version} is a release candidate and might not be in its index yet"
    yield from verdicts.notes(parts.facts, case)
    if row.note:
        yield f"{way.title}: {row.note}"


def _warnings(way: Way, case: Case) -> Iterator[str]:
    target = case.request.target
    if way.override is not None:
        advice = "works" if way.kind == "ok" else "be careful"
        yield (
            f"{target} runs as {way.runs_as}: the env sets HSA_OVERRIDE_GFX_VERSION={way.override.value} "
            f"({advice}: {way.override.note}; {way.override.source})"
        )
    elif way.kind == "compile":
        lacking = ", ".join(_without_kernels(way, case))
        yield (
            f"the rocBLAS of ROCm {way.row.version} from {way.row.channel} has no kernels for {lacking}, so "
            "`verify` can pass `gemm` but not `blas`"
        )


# ---------------------------------------------------------------- why nothing works


def rejection(constraint: str, parts: Parts, case: Case) -> Rejection:
    """Implement `Kind.rejection`."""
    way, request = parts.way, case.request
    row = way.row
    if verdicts.is_verdict(constraint):
        return verdicts.rejection(constraint, way.title, case)
    if isinstance(row, RocmWheels) and constraint in wheels.broken(row, case):
        return wheels.rejection(constraint, row, way.title, case)
    if constraint == "target":
        return _no_kernels(way, case)
    if way.override is not None and constraint.startswith("override"):
        return _no_override(way.override, way.title, constraint)
    if constraint == "channel":
        return rejected(row, way.title, f"channel {request.channel}", row.channel)
    return _not_this_rocm(way, case) if constraint == "rocm" else _no_torch(constraint, parts, case)


def _not_this_rocm(way: Way, case: Case) -> Rejection:
    spec, rows = case.request.rocm, _rows(case)
    text = ""
    if not any(_is_requested(each, case) for each in rows):
        versions = sorted({each.version for each in rows}, key=lambda each: (newest_first(each), each))
        text = f"rocenv has no ROCm release that matches {spec}, only {', '.join(versions)}"
        near = [each for each in rows if meets(spec, each.version, "--rocm", floating=True)]
        text += "".join(f"; channel {row.channel} mixes releases of {row.version}" for row in near)
    return rejected(way.row, way.title, f"ROCm {spec}", way.row.version, text)


def _no_kernels(way: Way, case: Case) -> Rejection:
    row, target = way.row, case.request.target
    served = row.blas if way.override or case.request.more_targets else row.compiles
    if way.override is not None:
        return wheels.not_built(row, way.title, f"{way.runs_as}, which {target} could run as", served)
    missing = [each for each in case.request.targets if each not in served]
    return wheels.not_built(row, way.title, ", ".join(missing), served)


def _no_override(override: Override, name: str, constraint: str) -> Rejection:
    setting = f"HSA_OVERRIDE_GFX_VERSION={override.value}"
    is_limited = override.rocm and constraint.endswith(f" {override.rocm}")
    found = f"only with ROCm {override.rocm}" if is_limited else "known to fail"
    limit = f"works only with ROCm {override.rocm}, not" if is_limited else "is known to fail"
    found += f": {override.note}"
    text = f"{setting} ({override.target} as {override.runs_as}) {limit} with {name}: {override.note}"
    component = f"{override.target} as {override.runs_as}"
    return rejected(override, component, f"{setting} with {name}", found, text)


def _no_torch(constraint: str, parts: Parts, case: Case) -> Rejection:
    assert parts.torch is not None
    if constraint == "wheels":
        return _no_wheels(parts, parts.torch, case)
    return wheels.torch_rejection(constraint, parts.torch, case)


def _no_wheels(parts: Parts, torch: TorchSet, case: Case) -> Rejection:
    """Describe why no PyTorch release, or no requested one, matches a ROCm release."""
    way = parts.way
    if isinstance(way.row, RocmWheels):
        return wheels.other_release(torch, way.row, way.title, case)
    targets = (way.runs_as, *case.request.more_targets)
    release, target, needed = series(way.row.version), ", ".join(targets), set(targets)
    built = [row for row in case.matrix.torch if row.rocm and not row.channel and series(row.rocm) == release]
    if any(needed <= set(row.targets) for row in built):
        return _not_this_torch(parts, torch, case)
    built.sort(key=lambda row: (newest_first(row.version), row.rocm))
    served = [row.targets for row in case.matrix.torch] + [row.targets for row in wheels.rows(case)]
    nowhere = [each for each in targets if not any(each in row for row in served)]
    if nowhere:
        text = found = f"no PyTorch release for any ROCm has kernels for {', '.join(nowhere)}"
    elif not any(needed <= set(row) for row in served):
        text = found = f"no single PyTorch release has kernels for all of {target}"
    elif not built:
        found = f"no PyTorch release is built for ROCm {release}"
        text = f"{found}, so none has kernels for {target}"
    else:
        kernels = sorted({each for row in built for each in row.targets})
        names = joined(list(dict.fromkeys(row.version for row in built)))
        found = f"torch for ROCm {release} ({names}) has kernels for {', '.join(kernels)}"
        if any(needed <= set(row.compiled) for row in built):
            found += f"; it is compiled for {target}, but its own rocBLAS has no kernels for it"
        text = f"no torch for ROCm {release} has kernels for {target}: {found}"
    return rejected(
        built[0] if built else way.row, way.title, f"torch with kernels for {target}", found, text
    )


def _not_this_torch(parts: Parts, torch: TorchSet, case: Case) -> Rejection:
    """Describe why a PyTorch release does not match a ROCm release, although others do."""
    way, name = parts.way, wheels.title(torch)
    release, target = series(way.row.version), way.runs_as
    missing = [each for each in (target, *case.request.more_targets) if each not in torch.targets]
    if series(torch.rocm) != release or torch.channel:
        found = f"built for ROCm {torch.rocm}"
        text = f"{name} does not work with {way.title}"
    elif missing:
        found = f"has kernels for {', '.join(torch.targets)}"
        text = f"{name} {found}, but not for {', '.join(missing)}"
    else:
        found = f"has kernels for {case.request.target} itself"
        text = f"{name} {found}, as does {way.title}, so an override to {target} is unnecessary"
    return rejected(torch, name, f"torch for ROCm {release} with kernels for {target}", found, text)

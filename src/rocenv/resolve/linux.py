"""Sets for Linux: a ROCm release from a channel, PyTorch built for it, and an override if the GPU needs one.

The order of preference; the first difference decides:

1. how the target is served: by kernels of its own, by an override that works, by one that needs care, or by
   a compiler that knows the target while rocBLAS has no kernels for it;
2. a release tested with the machine's kernel driver, or on a kernel as old, where that is known;
3. the maker supports the target, before it is only in the libraries;
4. the maker's own channel, before a distribution's;
5. how well it is known that the release serves the target: stated by the maker or tested, reported, inferred;
6. the newest release;
7. a released PyTorch before a release candidate, then the newest.

A channel that is `only_named` counts only if the request names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocenv.core.versions import allows, any_meets, joined, meets, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.resolve import verdicts
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
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested, tested_drivers
from rocenv.resolve.verdicts import Facts, without_zluda

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.core.model import Rejection
    from rocenv.data.knowledge import Override
    from rocenv.data.releases import RocmSet, TorchSet
    from rocenv.resolve.combination import Case

_WAYS = {"native": 0, "ok": 1, "caution": 2, "compile": 3, "block": 4, "reject": 5}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """How a ROCm release serves a target."""

    row: RocmSet
    runs_as: str  # the target that its kernels are made for
    kind: str  # a key of `_WAYS`
    override: Override | None = None

    @property
    def title(self) -> str:
        """The release and where it comes from."""
        return f"ROCm {self.row.version} from channel {self.row.channel}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One choice for every part."""

    way: Way
    torch: TorchSet | None = None

    @property
    def facts(self) -> Facts:
        """What verdicts have conditions on."""
        return without_zluda(self.way.row.version, self.torch.version if self.torch else "")

    @property
    def torch_title(self) -> str:
        """The PyTorch release and the ROCm it is built for."""
        return f"torch {self.torch.version} for ROCm {self.torch.rocm}" if self.torch else "no torch"


# ---------------------------------------------------------------- combinations


def combinations(case: Case) -> Iterator[Combination]:
    """Yield every combination of a release, a way to serve the target and a PyTorch release."""
    wheels = [_torch_option(row, case) for row in case.matrix.torch if row.rocm] if case.request.torch else []
    rows = verdicts.certain(case)
    untested = _untested(case)
    for way in _ways(case):
        rank, broken = _rank(way, untested, case), _broken(way, case)
        for torch, torch_broken in _torch_choices(way, wheels, case):
            parts = Parts(way=way, torch=torch.row)
            known = verdicts.against(rows, parts.facts, apart="wheels" in torch_broken)
            yield Combination(
                root=way,
                parts=parts,
                rank=(rank, torch.rank),
                broken=broken | torch_broken | known,
            )


def _ways(case: Case) -> Iterator[Way]:
    target, channel = case.request.target, case.request.channel
    overrides = [row for row in case.matrix.override if row.target == target and row.runs_as != "*"]
    for row in case.matrix.rocm:
        if row.channel != channel and case.matrix.channels[row.channel].only_named:
            continue
        has_kernels = target in row.blas
        yield Way(row=row, runs_as=target, kind="native" if has_kernels else "compile")
        if has_kernels and not case.request.torch:
            continue  # an override would serve nothing that needs one
        for override in overrides:
            yield Way(row=row, runs_as=override.runs_as, kind=override.verdict, override=override)


def _broken(way: Way, case: Case) -> Constraints:
    request, row, override = case.request, way.row, way.override
    broken = case.unknown_target | unmet(
        rocm=meets(request.rocm, row.version, "--rocm", floating=row.floating),
        channel=request.channel in ("", row.channel),
        target=way.runs_as in (row.compiles if way.kind == "compile" else row.blas),
    )
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
        way.runs_as not in row.official,
        case.matrix.channels[row.channel].by != "maker",
        _doubt(way, case),
        newest_first(row.version),
        row.channel,
        way.override.value if way.override else "",
    )


def _doubt(way: Way, case: Case) -> int:
    """Rate the doubt that the release serves the target; 0 = certain."""
    stated = [
        STATUS_RANK[row.status]
        for row in case.matrix.support
        if (row.platform, row.rocm, row.channel) == ("linux", series(way.row.version), "")
        and row.level in SERVING
        and way.runs_as in row.targets
    ]
    return min(stated, default=STATUS_RANK[way.row.status])


def _untested(case: Case) -> frozenset[str]:
    """List the releases that were not tested with the kernel driver, or only on newer kernels."""
    matrix, kernel = case.matrix, case.machine.kernel
    driver = kernel_driver(case.driver, matrix)
    releases = {series(row.version) for row in matrix.rocm}
    if driver:
        return frozenset(each for each in releases if tested(driver, each, matrix) is False)
    if kernel and not case.driver:
        return frozenset(each for each in releases if kernel_is_older(kernel, oldest_kernel(each, matrix)[0]))
    return frozenset()


def _torch_option(row: TorchSet, case: Case) -> Option:
    request, glibc = case.request, case.machine.glibc
    broken = unmet(
        # A request may name the build: `==2.5.1+rocm6.2`.
        torch=meets(request.torch, row.version, "--torch", floating=True, local=f"+rocm{row.rocm}"),
        python=any_meets(request.python, row.python, "--python"),
        glibc=not (row.glibc and glibc) or allows(f">={row.glibc}", glibc),
    )
    rank = (not row.released, newest_first(row.version), newest_first(row.rocm), STATUS_RANK[row.status])
    return Option(row=row, rank=rank, broken=broken)


def _torch_choices(way: Way, wheels: Sequence[Option], case: Case) -> Iterator[tuple[Option, Constraints]]:
    if not case.request.torch:
        yield NOTHING, NONE
        return
    yield from choices(wheels, [each for each in wheels if _goes_with(each.row, way, case)], "wheels")


def _goes_with(torch: TorchSet, way: Way, case: Case) -> bool:
    target = case.request.target
    # An override is not for a set of which every part serves the target natively.
    is_native = way.override is not None and target in way.row.blas and target in torch.targets
    is_for = series(torch.rocm) == series(way.row.version) and way.runs_as in torch.targets
    return is_for and not is_native


# ---------------------------------------------------------------- the set that is taken


def candidate(parts: Parts, case: Case) -> Candidate:
    """See `Kind`."""
    way, torch = parts.way, parts.torch
    row = way.row
    chosen = [Choice(kind="rocm", row=row, version=row.version, channel=row.channel, why=_why(way, case))]
    if torch is not None:
        why = f"built for ROCm {torch.rocm}, with kernels for {way.runs_as}"
        chosen.append(Choice(kind="torch", row=torch, version=torch.version, channel=torch.index, why=why))
    notes = tuple(_notes(parts, case))
    return Candidate(parts=tuple(chosen), notes=notes, runs_as=way.runs_as, override=way.override)


def _why(way: Way, case: Case) -> str:
    channel = case.matrix.channels[way.row.channel]
    by = "the maker" if channel.by == "maker" else "a distribution"
    kernels = "only its compiler knows" if way.kind == "compile" else "its rocBLAS has kernels for"
    return f"{channel.title}, {by}; {kernels} {way.runs_as}"


def _notes(parts: Parts, case: Case) -> Iterator[str]:
    way, torch = parts.way, parts.torch
    yield from _target_notes(way, case.request.target)
    yield from _driver_notes(way.row, case)
    if torch is not None and not torch.released:
        yield f"torch {torch.version} is a release candidate and may not be in its index yet"
    yield from remarks(case)
    for row in verdicts.about(case):
        if row.verdict != "works" and verdicts.applies(row, parts.facts):
            yield verdicts.note(row)
    if way.row.note:
        yield f"{way.title}: {way.row.note}"


def remarks(case: Case) -> tuple[str, ...]:
    """Name the wheels for the target that AMD has for Linux and rocenv cannot install there.

    Nothing if it supports the target in a release that rocenv installs.
    """
    if any(case.request.target in row.official for row in case.matrix.rocm):
        return ()
    rows = [
        row
        for row in case.matrix.rocm_wheels
        if "linux" in row.platforms and not row.nightly and case.request.target in row.official
    ]
    if not rows:
        return ()
    newest = min(rows, key=lambda row: (newest_first(row.version), row.channel, row.index, row.source))
    return (
        f"AMD supports {case.request.target} on Linux with ROCm {newest.version} as Python wheels "
        f"({newest.index}; {newest.source}), which rocenv cannot install on Linux yet",
    )


def _target_notes(way: Way, target: str) -> Iterator[str]:
    if way.override is not None:
        advice = "works" if way.kind == "ok" else "be careful"
        yield (
            f"{target} runs as {way.runs_as}: the env sets HSA_OVERRIDE_GFX_VERSION={way.override.value} "
            f"({advice}: {way.override.note}; {way.override.source})"
        )
    elif way.kind == "compile":
        yield f"its rocBLAS has no kernels for {target}, so `verify` can pass `gemm` but not `blas`"
    elif way.row.official and target not in way.row.official:
        yield f"this set's libraries have kernels for {target}, but its maker does not officially support it"


def _driver_notes(row: RocmSet, case: Case) -> Iterator[str]:
    matrix, kernel, release = case.matrix, case.machine.kernel, series(row.version)
    driver = kernel_driver(case.driver, matrix)
    if tested(driver, release, matrix) is False:
        drivers, source = tested_drivers(release, matrix)
        yield (
            f"driver skew: the kernel driver is from ROCm {driver}, but ROCm {release} was tested with "
            f"drivers from {joined(drivers) or 'no known release'} ({source}); versions too far apart cause "
            "memory faults"
        )
    oldest, source = oldest_kernel(release, matrix)
    if kernel and not case.driver and kernel_is_older(kernel, oldest):
        yield (
            f"old kernel: {kernel} is older than {oldest}, the oldest that ROCm {release} was tested on "
            f"({source})"
        )


# ---------------------------------------------------------------- why nothing fits


def rejection(constraint: str, parts: Parts, case: Case) -> Rejection:
    """See `Kind`."""
    way, request = parts.way, case.request
    row = way.row
    if verdicts.is_verdict(constraint):
        return verdicts.rejection(constraint, way.title, case)
    if constraint == "target":
        return _no_kernels(way, case)
    if way.override is not None and constraint.startswith("override"):
        return _no_override(way.override, way.title, constraint)
    if constraint == "channel":
        return rejected(row, way.title, f"channel {request.channel}", row.channel)
    return _not_this_rocm(way, case) if constraint == "rocm" else _no_torch(constraint, parts, case)


def _not_this_rocm(way: Way, case: Case) -> Rejection:
    spec, rows = case.request.rocm, case.matrix.rocm
    text = ""
    if not any(meets(spec, each.version, "--rocm", floating=each.floating) for each in rows):
        versions = sorted({each.version for each in rows}, key=lambda each: (newest_first(each), each))
        text = f"rocenv knows no ROCm release that matches {spec}, only {', '.join(versions)}"
    return rejected(way.row, way.title, f"ROCm {spec}", way.row.version, text)


def _no_kernels(way: Way, case: Case) -> Rejection:
    row, target = way.row, case.request.target
    targets = ", ".join(row.blas if way.override else row.compiles)
    wanted = way.runs_as if way.override is None else f"{way.runs_as}, which {target} could run as"
    text = f"{way.title} is not built for {wanted}; it is built for {targets}"
    return rejected(row, way.title, f"target {wanted}", f"built for {targets}", text)


def _no_override(override: Override, name: str, constraint: str) -> Rejection:
    setting = f"HSA_OVERRIDE_GFX_VERSION={override.value}"
    is_limited = override.rocm and constraint.endswith(f" {override.rocm}")
    found = f"only with ROCm {override.rocm}" if is_limited else "known to fail"
    found += f": {override.note}"
    text = f"{override.target} must not run as {override.runs_as} with {name} ({setting}): {found}"
    component = f"{override.target} as {override.runs_as}"
    return rejected(override, component, f"{setting} with {name}", found, text)


def _no_torch(constraint: str, parts: Parts, case: Case) -> Rejection:
    torch, request, glibc = parts.torch, case.request, case.machine.glibc
    assert torch is not None
    name = parts.torch_title
    if constraint == "torch":
        return rejected(torch, name, f"torch {request.torch}", torch.version)
    if constraint == "python":
        wanted, found = f"Python {request.python}", f"Python {torch.python[0]} to {torch.python[-1]}"
        return rejected(
            torch, name, wanted, found, f"You asked for {wanted}, and {name} is built for {found}"
        )
    if constraint == "glibc":
        text = f"{name} needs glibc {torch.glibc}, and this machine has {glibc}"
        return rejected(torch, name, f"the machine's C library, {glibc}", f"needs {torch.glibc}", text)
    return _no_wheels(parts, torch, case)


def _no_wheels(parts: Parts, torch: TorchSet, case: Case) -> Rejection:
    """Word why no PyTorch, or none that meets the request, goes with a release."""
    way = parts.way
    release, target = series(way.row.version), way.runs_as
    built = [row for row in case.matrix.torch if row.rocm and series(row.rocm) == release]
    if any(target in row.targets for row in built):
        return _not_this_torch(parts, torch, case)
    built.sort(key=lambda row: (newest_first(row.version), row.rocm))
    if not any(target in row.targets for row in case.matrix.torch):
        text = found = f"no PyTorch release, for any ROCm, has kernels for {target}"
    elif not built:
        found = f"no PyTorch release is built for ROCm {release}"
        text = f"{found}, so none has kernels for {target}"
    else:
        kernels = sorted({each for row in built for each in row.targets})
        names = joined(list(dict.fromkeys(row.version for row in built)))
        found = f"torch for ROCm {release} ({names}) has kernels for {', '.join(kernels)}"
        if any(target in row.compiled for row in built):
            found += f"; it is compiled for {target}, but its own rocBLAS has no kernels for it"
        text = f"no torch for ROCm {release} has kernels for {target}: {found}"
    return rejected(
        built[0] if built else way.row, way.title, f"torch with kernels for {target}", found, text
    )


def _not_this_torch(parts: Parts, torch: TorchSet, case: Case) -> Rejection:
    """Word why a PyTorch release does not go with a ROCm that others go with."""
    way, name = parts.way, parts.torch_title
    release, target = series(way.row.version), way.runs_as
    if series(torch.rocm) != release:
        found = f"built for ROCm {torch.rocm}"
        text = f"{name} does not work with ROCm {release}"
    elif target not in torch.targets:
        found = f"has kernels for {', '.join(torch.targets)}"
        text = f"{name} has no kernels for {target}: it {found}"
    else:
        found = f"has kernels for {case.request.target} itself"
        text = f"{name} {found}, as does {way.title}, so nothing needs to run as {target}"
    return rejected(torch, name, f"torch for ROCm {release} with kernels for {target}", found, text)

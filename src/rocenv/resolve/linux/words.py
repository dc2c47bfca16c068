"""What is said of a set for Linux: why it was taken, what to know about it, what is against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Rejection
from rocenv.core.versions import allows, joined, newest_first, series, specifier, version_fits
from rocenv.resolve import verdicts
from rocenv.resolve.candidate import Candidate, Choice
from rocenv.resolve.drivers import kernel_driver, kernel_is_older, oldest_kernel, tested, tested_drivers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import Override
    from rocenv.data.releases import RocmSet, TorchSet
    from rocenv.resolve.candidate import Case
    from rocenv.resolve.engine import Whole
    from rocenv.resolve.linux.choices import Way


def candidate(whole: Whole, case: Case) -> Candidate:
    """Return a whole that fits, with what should be said about it."""
    way: Way = whole[0].part
    torch: TorchSet | None = whole[1].part if len(whole) > 1 else None
    row, target = way.row, case.request.target
    parts = [
        Choice(kind="rocm", row=row, version=row.version, channel=row.channel, why=_why(way, case)),
    ]
    if torch is not None:
        why = f"built for ROCm {torch.rocm}, with kernels for {way.runs_as}"
        parts.append(Choice(kind="torch", row=torch, version=torch.version, channel=torch.index, why=why))
    notes = [*_notes(way, target), *_driver_notes(row, case)]
    if torch is not None and not torch.released:
        notes.append(f"torch {torch.version} is a candidate for release, and may not be in its index yet")
    notes += remarks(case)
    notes += _known(way, torch, case)
    if row.note:
        notes.append(f"{title(row)}: {row.note}")
    return Candidate(parts=tuple(parts), notes=tuple(notes), runs_as=way.runs_as, override=way.override)


def remarks(case: Case) -> tuple[str, ...]:
    """Return what the maker has for the target on Linux that rocenv does not install there.

    Nothing where no set that it installs is behind: one of them is supported too, or nothing is.
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
        f"AMD supports {case.request.target} on Linux from ROCm {newest.version} as Python wheels "
        f"({newest.index}; {newest.source}), which rocenv does not install there",
    )


def _why(way: Way, case: Case) -> str:
    channel = case.matrix.channels[way.row.channel]
    by = "the maker" if channel.by == "maker" else "a distribution"
    if way.kind == "compile":
        return f"{channel.title}, {by}; only its compiler knows {way.runs_as}"
    return f"{channel.title}, {by}; its rocBLAS has kernels for {way.runs_as}"


def _notes(way: Way, target: str) -> Iterator[str]:
    if way.override is not None:
        yield (
            f"{target} runs as {way.runs_as}: HSA_OVERRIDE_GFX_VERSION={way.override.value} is set in the env"
            f" ({'works' if way.kind == 'ok' else 'be careful'}: {way.override.note}; {way.override.source})"
        )
    elif way.kind == "compile":
        yield f"its rocBLAS has no kernels for {target}: `verify` can pass `gemm`, but not `blas`"
    elif way.row.official and target not in way.row.official:
        yield f"{target} is in this set's libraries, but not among the targets that its maker supports"


def _driver_notes(row: RocmSet, case: Case) -> Iterator[str]:
    driver = kernel_driver(case.driver, case.matrix)
    if tested(driver, series(row.version), case.matrix) is False:
        known, source = tested_drivers(series(row.version), case.matrix)
        yield (
            f"driver skew: the kernel driver is that of ROCm {driver}, and ROCm {series(row.version)} was "
            f"tested with the drivers of {joined(known) or 'none that is known'} ({source}); what is too far "
            "apart ends as memory faults"
        )
    kernel = case.machine.kernel
    oldest, source = oldest_kernel(series(row.version), case.matrix)
    if kernel and not case.driver and kernel_is_older(kernel, oldest):
        yield (
            f"old kernel: {kernel} runs the GPU's driver, and the oldest that ROCm {series(row.version)} was "
            f"tested on is {oldest} ({source})"
        )


def _known(way: Way, torch: TorchSet | None, case: Case) -> Iterator[str]:
    for row in verdicts.about(case):
        if row.verdict == "works" or (row.torch and torch is None):
            continue
        if allows(row.rocm, way.row.version) and (torch is None or allows(row.torch, torch.version)):
            yield verdicts.told(row)


def title(row: RocmSet) -> str:
    """Return how a set is called: `ROCm 5.7.1 of channel debian-trixie`."""
    return f"ROCm {row.version} of channel {row.channel}"


def reason(rule: str, whole: Whole, case: Case) -> Rejection:
    """Return in words why a whole breaks a rule, with the source of the fact."""
    way: Way = whole[0].part
    row, request = way.row, case.request
    name = title(row)
    if rule == "rocm":
        text = f"ROCm {request.rocm} is asked for, which leaves out {name}"
        wanted = specifier(request.rocm, "--rocm")
        if not any(version_fits(wanted, each.version, floating=each.floating) for each in case.matrix.rocm):
            versions = {each.version for each in case.matrix.rocm}
            known = sorted(versions, key=lambda version: (newest_first(version), version))
            text = f"no release of ROCm is known that is {request.rocm}; known are {', '.join(known)}"
        return Rejection(
            component=name,
            requirement=f"ROCm {request.rocm}",
            found=row.version,
            source=row.source,
            text=text,
        )
    if rule == "channel":
        text = f"channel {request.channel} is asked for, which leaves out {name}"
        return Rejection(
            component=name,
            requirement=f"channel {request.channel}",
            found=row.channel,
            source=row.source,
            text=text,
        )
    if rule == "target":
        return _no_kernels(way, case)
    if verdicts.is_verdict(rule):
        return verdicts.reason(rule, name, case)
    if way.override is not None and rule.startswith("override"):
        return _no_override(way.override, name, rule)
    return _no_torch(rule, whole, case)


def _no_kernels(way: Way, case: Case) -> Rejection:
    name, row, target = title(way.row), way.row, case.request.target
    made_for = f"made for {', '.join(row.blas if way.override else row.compiles)}"
    wanted = way.runs_as if way.override is None else f"{way.runs_as}, which {target} could run as"
    return Rejection(
        component=name,
        requirement=f"target {wanted}",
        found=made_for,
        source=row.source,
        text=f"{name} is not made for {wanted}: it is {made_for}",
    )


def _no_override(override: Override, name: str, rule: str) -> Rejection:
    setting = f"HSA_OVERRIDE_GFX_VERSION={override.value}"
    if override.rocm and rule.endswith(f" {override.rocm}"):
        found = f"only with ROCm {override.rocm}: {override.note}"
    else:
        found = f"known to go wrong: {override.note}"
    return Rejection(
        component=f"{override.target} as {override.runs_as}",
        requirement=f"{setting} with {name}",
        found=found,
        source=override.source,
        text=f"{override.target} must not run as {override.runs_as} with {name} ({setting}): {found}",
    )


def _no_torch(rule: str, whole: Whole, case: Case) -> Rejection:
    way: Way = whole[0].part
    torch: TorchSet = whole[1].part
    request, name = case.request, f"torch {torch.version} for ROCm {torch.rocm}"
    if rule == "torch":
        wish = f"torch {request.torch}"
        text = f"{wish} is asked for, which leaves out {name}"
        found = torch.version
    elif rule == "python":
        wish = f"Python {request.python}"
        found = f"Python {torch.python[0]} to {torch.python[-1]}"
        text = f"{name} is built for {found}, and {wish} is asked for"
    elif rule == "glibc":
        wish = f"the machine's C library, {case.machine.glibc}"
        found = f"needs {torch.glibc}"
        text = f"{name} needs glibc {torch.glibc}, and this machine has {case.machine.glibc}"
    else:
        return _no_wheels(way, torch, case)
    return Rejection(component=name, requirement=wish, found=found, source=torch.source, text=text)


def _no_wheels(way: Way, torch: TorchSet, case: Case) -> Rejection:
    """Return why no torch, or none that meets what is asked for, goes with a set."""
    release, target = series(way.row.version), way.runs_as
    built = [row for row in case.matrix.torch if row.rocm and series(row.rocm) == release]
    if any(target in row.targets for row in built):
        return _not_this_wheel(way, torch, case)
    built.sort(key=lambda row: (newest_first(row.version), row.rocm))
    if not any(target in row.targets for row in case.matrix.torch):
        found = f"no torch, for whichever ROCm, has kernels for {target}"
        source = built[0].source if built else way.row.source
    elif not built:
        found = f"no torch is built for ROCm {release}"
        source = way.row.source
    else:
        kernels = sorted({each for row in built for each in row.targets})
        names = joined(list(dict.fromkeys(row.version for row in built)))
        found = f"torch for ROCm {release} ({names}) has kernels for {', '.join(kernels)}"
        source = built[0].source
        if any(target in row.compiled for row in built):
            found += f"; it is compiled for {target}, but the rocBLAS inside has none"
    return Rejection(
        component=title(way.row),
        requirement=f"torch with kernels for {target}",
        found=found,
        source=source,
        text=found
        if found.endswith(target)
        else f"no torch for ROCm {release} has kernels for {target}: {found}",
    )


def _not_this_wheel(way: Way, torch: TorchSet, case: Case) -> Rejection:
    """Return why a torch does not go with a set that others go with."""
    name, target = f"torch {torch.version} for ROCm {torch.rocm}", way.runs_as
    release = series(way.row.version)
    if series(torch.rocm) != release:
        found = f"built for ROCm {torch.rocm}"
        text = f"{name} does not go with ROCm {release}"
    elif target not in torch.targets:
        found = f"has kernels for {', '.join(torch.targets)}"
        text = f"{name} has no kernels for {target}: it {found}"
    else:
        found = f"has kernels for {case.request.target} itself"
        text = f"{name} {found}, as {title(way.row)} does, so that nothing is run as {target}"
    return Rejection(
        component=name,
        requirement=f"torch for ROCm {release} with kernels for {target}",
        found=found,
        source=torch.source,
        text=text,
    )

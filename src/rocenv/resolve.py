"""Which sets of the matrix fit a request, best first. Pure: no I/O, no clock.

The order, the first difference decides:

1. the set's rocBLAS has kernels for the target, before a set that can only compile for it;
2. the target is one that the set's maker supports;
3. the maker's own channel before a distribution's;
4. the newest version.

Whether a channel can be reached is not known here: `plan` takes the first candidate that can be had, and says
which ones could not.
"""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from rocenv.errors import ResolutionImpossible, RocenvError
from rocenv.model import Rejection, Suggestion

if TYPE_CHECKING:
    from rocenv.matrix.rows import Matrix, RocmSet, TorchSet
    from rocenv.model import ComponentKind, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One set that fits, with what should be said about it."""

    rocm: RocmSet
    torch: TorchSet | None
    why: str
    notes: tuple[str, ...]


def specifier(text: str, option: str) -> SpecifierSet:
    """Return what a SPEC of the command line allows: `5.7` is 5.7 and its patch releases.

    Raises:
        RocenvError: It is neither a version nor a PEP 440 specifier; exit code 2.
    """
    text = text.strip()
    try:
        if "+" in text and text[:1].isdigit():
            text = f"=={text}"  # with a local version it is one release
        elif text[:1].isdigit():
            text = f"=={text.removesuffix('.*')}.*"
        return SpecifierSet("" if text == "*" else text, prereleases=True)
    except InvalidSpecifier:
        error = RocenvError(
            f"`{text}` is no version for {option}",
            hints=(f"give a version (`{option} 5.7`) or a range (`{option} '>=6.1,<6.3'`)",),
            code="usage",
        )
        error.exit_code = 2
        raise error from None


def resolve(request: Request, matrix: Matrix) -> tuple[Candidate, ...]:
    """Return every set that fits, best first.

    Raises:
        RocenvError: A wish is no SPEC; exit code 2.
        ResolutionImpossible: None does; carries why each candidate was dropped.
    """
    for name in ("rocm", "torch", "python"):
        # A slip is told even where nothing depends on it.
        specifier(getattr(request, name) or "*", f"--{name}")
    rejections: list[Rejection] = []
    fitting: list[Candidate] = []
    for row in matrix.rocm:
        reason = _against(row, request)
        if reason is not None:
            rejections.append(reason)
            continue
        torch, reason = _torch_for(row, request, matrix)
        if reason is not None:
            rejections.append(reason)
            continue
        fitting.append(_candidate(row, torch, request, matrix))
    if not fitting:
        # Those of another version were no near misses.
        rejections.sort(key=lambda each: (each.requirement.startswith("ROCm "), each.component))
        raise ResolutionImpossible(
            f"no set fits {describe(request)}",
            rejections=tuple(rejections),
            suggestions=_suggestions(request, matrix),
        )
    return tuple(sorted(fitting, key=lambda found: _rank(found, request, matrix)))


def describe(request: Request) -> str:
    """Return a request in words: `ROCm 5.7 for gfx1100`."""
    parts = [f"ROCm {request.rocm}" if request.rocm else "any ROCm"]
    if request.torch:
        parts.append(f"with torch{'' if request.torch == '*' else ' ' + request.torch}")
    parts.append(f"for {request.target}")
    if request.platform != "linux":
        parts.append(f"on {request.platform}")
    if request.channel:
        parts.append(f"from channel {request.channel}")
    return " ".join(parts)


def version_fits(wanted: SpecifierSet, version: str, *, floating: bool, local: str = "") -> bool:
    """Tell whether a set's version is one that was asked for.

    The version of a floating set is only its series: it fits if any release of the series could, which `plan`
    checks again once the channel's index has named the exact one.
    """
    if wanted.contains(version):
        return True
    return floating and any(wanted.contains(f"{version}.{patch}{local}") for patch in range(100))


def _against(row: RocmSet, request: Request) -> Rejection | None:
    """Return the first reason against a set, or None."""
    name = title(row)
    wanted = specifier(request.rocm or "*", "--rocm")
    if not version_fits(wanted, row.version, floating=row.floating):
        return Rejection(
            component=name, requirement=f"ROCm {request.rocm}", found=row.version, source=row.source
        )
    if request.channel and row.channel != request.channel:
        return Rejection(
            component=name, requirement=f"channel {request.channel}", found=row.channel, source=row.source
        )
    if request.platform != "linux":
        return Rejection(
            component=name, requirement=f"platform {request.platform}", found="linux", source=row.source
        )
    if request.target not in row.compiles:
        return Rejection(
            component=name,
            requirement=f"target {request.target}",
            found=f"made for {', '.join(row.compiles)}",
            source=row.source,
        )
    return None


def _torch_for(row: RocmSet, request: Request, matrix: Matrix) -> tuple[TorchSet | None, Rejection | None]:
    """Return the newest torch that goes with a set, None where none was asked for, or why there is none."""
    if not request.torch:
        return None, None
    series = ".".join(row.version.split(".")[:2])
    wanted = specifier(request.torch, "--torch")
    built = [torch for torch in matrix.torch if ".".join(torch.rocm.split(".")[:2]) == series]
    built.sort(key=lambda torch: (Version(torch.version), Version(torch.rocm)), reverse=True)
    for torch in built:
        if _torch_fits(torch, wanted, request):
            return torch, None
    known = [torch for torch in built if request.target in torch.targets] or built[:1]
    found = ", ".join(f"{torch.version} (Python {torch.python[0]} to {torch.python[-1]})" for torch in known)
    if known and request.target not in known[0].targets:
        found = f"made for {', '.join(known[0].targets)}"
    return None, Rejection(
        component=title(row),
        requirement=f"torch {request.torch} for {request.target}".replace(" *", "")
        + (f" and Python {request.python}" if request.python else ""),
        found=f"without: torch for ROCm {series} is {found or 'not built'}",
        source=built[0].source if built else row.source,
    )


def _torch_fits(torch: TorchSet, wanted: SpecifierSet, request: Request) -> bool:
    local = f"+rocm{torch.rocm}"  # a wish may name the build: `==2.5.1+rocm6.2`
    if not version_fits(wanted, torch.version, floating=True, local=local):
        return False
    if request.target not in torch.targets:
        return False
    pythons = specifier(request.python or "*", "--python")
    return any(version_fits(pythons, python, floating=True) for python in torch.python)


def _candidate(row: RocmSet, torch: TorchSet | None, request: Request, matrix: Matrix) -> Candidate:
    notes = []
    if request.target not in row.blas:
        notes.append(
            f"its rocBLAS has no kernels for {request.target}: `verify` can pass `gemm`, but not `blas`"
        )
    elif row.official and request.target not in row.official:
        notes.append(
            f"{request.target} is in this set's libraries, but not among the targets that its maker supports"
        )
    if row.note:
        notes.append(f"{title(row)}: {row.note}")
    channel = matrix.channels[row.channel]
    why = f"{channel.title}, {'the maker' if channel.by == 'maker' else 'a distribution'}; "
    has_kernels = request.target in row.blas
    why += (
        f"its rocBLAS has kernels for {request.target}"
        if has_kernels
        else "only its compiler knows the target"
    )
    return Candidate(rocm=row, torch=torch, why=why, notes=tuple(notes))


def _rank(found: Candidate, request: Request, matrix: Matrix) -> tuple[object, ...]:
    row = found.rocm
    return (
        request.target not in row.blas,
        request.target not in row.official,
        matrix.channels[row.channel].by != "maker",
        (*(-part for part in Version(row.version).release), 1),
        row.channel,
    )


def title(row: RocmSet) -> str:
    """Return how a set is called: `ROCm 5.7.1 of channel debian-trixie`."""
    return f"ROCm {row.version} of channel {row.channel}"


def _suggestions(request: Request, matrix: Matrix) -> tuple[Suggestion, ...]:
    """Return commands that do resolve, with as few wishes given up as can be."""
    wishes = [name for name in ("channel", "rocm", "python", "torch") if getattr(request, name)]
    for number in range(1, len(wishes) + 1):
        given_up = itertools.combinations(wishes, number)
        found = [_suggestion(request, names, matrix) for names in given_up]
        if any(found):
            return tuple(filter(None, found))
    return ()


def _suggestion(request: Request, given_up: tuple[str, ...], matrix: Matrix) -> Suggestion | None:
    other = replace(request, **dict.fromkeys(given_up, ""))
    if not _any_fits(other, matrix):
        return None
    best = resolve(other, matrix)[0]
    if "rocm" in given_up:
        other = replace(other, rocm=best.rocm.version)
    parts: list[tuple[ComponentKind, str]] = [("rocm", best.rocm.version)]
    if best.torch is not None:
        parts.append(("torch", best.torch.version))
    return Suggestion(command=f"rocenv resolve {options(other)}", components=tuple(parts))


def _any_fits(request: Request, matrix: Matrix) -> bool:
    return any(
        _against(row, request) is None and _torch_for(row, request, matrix)[1] is None for row in matrix.rocm
    )


def options(request: Request) -> str:
    """Return a request as command line options."""
    parts = []
    for name in ("rocm", "torch", "python", "target", "channel"):
        value = getattr(request, name)
        if value == "*":
            parts.append(f"--{name}")
        elif value:
            parts.append(f"--{name} {shlex.quote(value)}")
    return " ".join(parts)

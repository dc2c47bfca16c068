"""Query the resolver, so that pages show only sets that `create` can install."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Request
from rocenv.data.windows import HipSdk, ZludaBuild
from rocenv.explain.page import Step
from rocenv.explain.phrases import either, range_in_words
from rocenv.resolve import resolve
from rocenv.resolve.request import create_command, resolve_command
from rocenv.resolve.verdicts import Facts, applies, is_certain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.known import Platform
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The sets for a request, best first, or the error if there are none."""

    request: Request
    candidates: tuple[Candidate, ...] = ()
    refusal: ResolutionImpossible | None = None

    @property
    def best(self) -> Candidate | None:
        """The set that `create` would install."""
        return self.candidates[0] if self.candidates else None

    def reasons(self, added: str) -> list[str]:
        """Explain why no set exists; leave out the requirement `added`, which is not the user's."""
        rejections = self.refusal.rejections if self.refusal else ()
        return [
            each.found if each.requirement.startswith("no ") else f"no {_bare(each.requirement)}"
            for each in rejections
            if each.requirement != added
        ]


def _bare(requirement: str) -> str:
    return requirement.removeprefix("an ").removeprefix("a ")


def find_sets(matrix: Matrix, request: Request) -> Found:
    """Resolve a request without information about the machine."""
    try:
        return Found(request=request, candidates=tuple(resolve(request, matrix)))
    except ResolutionImpossible as refusal:
        return Found(request=request, refusal=refusal)


def sets_for(matrix: Matrix, target: str, platform: Platform, *, zluda: str = "", torch: str = "*") -> Found:
    """Resolve a request for a target; by default with torch and without ZLUDA."""
    return find_sets(matrix, Request(platform=platform, target=target, zluda=zluda, torch=torch))


def step(found: Found, matrix: Matrix, label: str) -> Step:
    """Describe the best set, with the command that creates it, or that plans it if it includes ZLUDA."""
    request, best = found.request, found.best
    # ZLUDA needs AMD's HIP SDK, whose installer only the user can download.
    command = resolve_command(request, "") if request.zluda else create_command("demo", request, "")
    return Step(
        command=command,
        gives=set_in_words(best, matrix, found.request.target) if best else "",
        label=label,
    )


def first_step(matrix: Matrix, label: str, request: Request, targets: Iterable[str]) -> list[Step]:
    """Describe the best set for the first target that has one; return [] if there is none."""
    for target in targets:
        found = find_sets(matrix, structs.replace(request, target=target))
        if found.best is not None:
            return [step(found, matrix, label)]
    return []


def set_in_words(candidate: Candidate, matrix: Matrix, target: str) -> str:
    """List a set's parts: `ROCm 6.4.2 (amd: AMD's own packages), torch 2.9, run as gfx1030`."""
    rocm = candidate.rocm
    known = matrix.channels.get(rocm.channel)
    origin = f"{rocm.channel}: {known.title}" if known else rocm.channel
    is_sdk = isinstance(rocm.row, HipSdk)
    parts = [f"HIP SDK {rocm.version}" if is_sdk else f"ROCm {rocm.version} ({origin})"]
    if zluda := candidate.part("zluda"):
        flavour = zluda.asset.flavour if zluda.asset else "plain"
        parts.append(f"ZLUDA {zluda.version}{'' if flavour == 'plain' else f' ({flavour})'}")
    if candidate.part("libraries"):
        parts.append("a library pack")
    if torch := candidate.part("torch"):
        parts.append(f"torch {torch.version}")
    if candidate.override is not None:
        parts.append(f"run as {candidate.runs_as}")
    limit = driver_limit(matrix, candidate, target)
    return ", ".join([*parts, limit] if limit else parts)


def driver_limit(matrix: Matrix, candidate: Candidate, target: str) -> str:
    """Return a set's display driver requirement, or "" if no driver is known to fail."""
    build = candidate.row(ZludaBuild)
    if build is None:
        needed = getattr(candidate.rocm.row, "driver", "")
        return f"display driver {range_in_words(needed)}" if needed else ""
    if build.driver:
        return f"display driver {range_in_words(build.driver)}"
    rocm = candidate.rocm.version
    facts = Facts(target=target, project=build.project, rocm=rocm, zluda=build.version)
    bad = {
        range_in_words(row.driver)
        for row in matrix.verdict
        if row.targets and row.driver and is_certain(row) and applies(row, facts)
    }
    return f"not with display driver {either(sorted(bad))}" if bad else ""

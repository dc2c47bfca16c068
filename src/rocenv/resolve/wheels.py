"""ROCm as Python wheels, on every platform: what a release requires, and the matching PyTorch.

Everything in an env is built for one ROCm release: libraries from 7.14.1 fail with PyTorch for 7.14.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import allows, any_meets, joined, meets, newest_first, series
from rocenv.data.known import STATUS_RANK
from rocenv.data.releases import RocmWheels
from rocenv.resolve.combination import Option, rejected, unmet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rocenv.core.model import Rejection
    from rocenv.data.known import Known
    from rocenv.data.releases import TorchSet
    from rocenv.resolve.combination import Case, Constraints


# Supported by AMD; only marked as release-ready by its builders; neither, or unknown.
SUPPORTED, READY, BUILT = range(3)


def rows(case: Case) -> list[RocmWheels]:
    """List the releases for the platform; opt-in channels are included only if the request specifies them."""
    return [
        row
        for row in case.matrix.rocm_wheels
        if row.platform == case.request.platform
        and (row.channel == case.request.channel or not case.matrix.channels[row.channel].only_named)
    ]


def broken(row: RocmWheels, case: Case) -> Constraints:
    """Return the constraints that a release violates, other than version, channel and targets."""
    request, glibc = case.request, case.machine.glibc
    return unmet(
        python=any_meets(request.python, row.python, "--python"),
        alone=bool(row.packages) or bool(request.torch),
        driver=not (row.driver and case.driver) or allows(row.driver, case.driver),
        glibc=not (row.glibc and glibc) or bool(row.loader) or allows(f">={row.glibc}", glibc),
    )


def promise(row: RocmWheels, targets: Collection[str]) -> int:
    """Rate the support for the least supported target; lower is better."""
    if set(targets) <= set(row.official):
        return SUPPORTED
    return READY if set(targets) <= {*row.official, *row.ready} else BUILT


def promised(row: RocmWheels, targets: Collection[str]) -> str:
    """Describe AMD's support for targets; support and readiness are separate lists."""
    names = ", ".join(targets)
    if not row.has_lists:
        return f"built for {names}; AMD's support is not known yet"
    supported, ready = set(targets) <= set(row.official), set(targets) <= set(row.ready)
    if supported and not row.ready:
        return f"AMD supports {names}"  # there is no list of release-ready targets
    if supported and ready:
        return f"AMD supports {names}, tests the build and calls it release-ready"
    if supported:
        return f"AMD supports {names}, but does not call the build tested and release-ready"
    if ready:
        return (
            f"AMD tests the build for {names} and calls it release-ready, but does not list it as supported"
        )
    return f"built for {names}, which AMD neither supports nor tests"


def torch_option(row: TorchSet, case: Case) -> Option:
    """Describe a PyTorch release as an option; of two otherwise equal builds, the newer one ranks higher."""
    request, glibc = case.request, case.machine.glibc
    unfit = unmet(
        # A request can include the build: `==2.5.1+rocm6.2`.
        torch=meets(request.torch, row.version, "--torch", floating=True, local=f"+rocm{row.rocm}"),
        python=any_meets(request.python, row.python, "--python"),
        glibc=not (row.glibc and glibc) or allows(f">={row.glibc}", glibc),
    )
    # Prefer builds on AMD's lists, which have matching torchvision and torchaudio.
    doubt = STATUS_RANK[row.status] if row.channel else 0
    rank = (not row.released, doubt, newest_first(row.version), newest_first(row.rocm), row.channel)
    return Option(row=row, rank=rank, broken=unfit)


def torches_for(row: RocmWheels, options: Sequence[Option]) -> list[Option]:
    """Keep only PyTorch releases for this release's series, if there are any."""
    near = [
        each
        for each in options
        if each.row.channel == row.channel and series(each.row.rocm) == series(row.version)
    ]
    return near or list(options)


def goes_with(torch: TorchSet, row: Known) -> bool:
    """Whether a PyTorch release is built for exactly this wheel release."""
    return isinstance(row, RocmWheels) and torch.channel == row.channel and torch.rocm == row.version


# ---------------------------------------------------------------- why a release is ruled out


def rejection(constraint: str, row: RocmWheels, name: str, case: Case) -> Rejection:
    """Describe how a release violates one of the constraints in `broken`."""
    request = case.request
    if constraint == "glibc":
        return too_old(row, name, row.glibc, case)
    if constraint == "alone":
        text = f"{name} comes only with PyTorch: add `--torch`"
        return rejected(row, name, "ROCm without torch", "comes only with PyTorch", text)
    if constraint == "python":
        wanted, found = f"Python {request.python}", f"Python {joined(row.python)}"
        return rejected(row, name, wanted, found, f"You asked for {wanted}, but {name} is for {found}")
    wanted = f"display driver {row.driver}"
    return rejected(
        row, name, wanted, case.driver, f"{name} needs {wanted}, but this machine has {case.driver}"
    )


def too_old(row: Known, name: str, glibc: str, case: Case) -> Rejection:
    """Explain that the system's C library is too old for a component."""
    found = case.machine.glibc
    text = f"{name} needs glibc {glibc}, but this machine has {found}"
    return rejected(row, name, f"the machine's C library, {found}", f"needs {glibc}", text)


def title(torch: TorchSet) -> str:
    """Format a PyTorch release and its ROCm version."""
    return f"torch {torch.version} for ROCm {torch.rocm}"


def torch_rejection(constraint: str, torch: TorchSet, case: Case) -> Rejection:
    """Describe how a PyTorch release violates one of the constraints in `torch_option`."""
    name = title(torch)
    if constraint == "torch":
        return rejected(torch, name, f"torch {case.request.torch}", torch.version)
    if constraint == "glibc":
        return too_old(torch, name, torch.glibc, case)
    wanted, found = f"Python {case.request.python}", f"Python {torch.python[0]} to {torch.python[-1]}"
    return rejected(torch, name, wanted, found, f"You asked for {wanted}, but {name} is built for {found}")


def other_release(torch: TorchSet, row: RocmWheels, name: str, case: Case) -> Rejection:
    """Describe why a PyTorch release for a different ROCm version does not match a wheel release."""
    text = f"{title(torch)} does not work with {name}"
    if not any(goes_with(each, row) for each in case.matrix.torch):
        text = f"no PyTorch release is built for {name}, and {title(torch)} does not work with it"
    text += ": all wheels in an env must be for the same ROCm release"
    if row.note and not row.floating:  # the note warns about mixing releases
        text += f"; {row.note}"
    return rejected(
        torch, title(torch), f"torch for ROCm {row.version}", f"built for ROCm {torch.rocm}", text
    )


def not_built(row: Known, name: str, wanted: str, served: Iterable[str]) -> Rejection:
    """Explain that a release has no kernels for a target."""
    targets = ", ".join(sorted(served, key=lambda each: (len(each), each)))
    text = f"{name} is not built for {wanted}; it is built for {targets}"
    return rejected(row, name, f"target {wanted}", f"built for {targets}", text)

"""A brute-force model of `resolve` that tries every combination of components and checks every rule.

It implements the documented order and rules of `rocenv.resolve` without using its code. It is slow but easy
to read.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocenv.data.releases import RocmWheels, TorchSet
from rocenv.data.windows import HipSdk, Pack, ZludaBuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.core.model import Machine, Request
    from rocenv.data.knowledge import GoodSet, Override, Verdict
    from rocenv.data.releases import RocmSet, Support
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import Asset
    from rocenv.resolve import Candidate

SURE = {"maker": 0, "tested": 0, "reported": 1, "inferred": 2}
SERVES = ("official", "deprecated", "libraries")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One combination of components."""

    rocm: RocmSet | HipSdk | RocmWheels
    override: Override | None = None
    build: ZludaBuild | None = None
    asset: Asset | None = None
    pack: Pack | None = None
    torch: TorchSet | None = None

    @property
    def root(self) -> tuple[object, ...]:
        """The key of a group of sets, of which only the best is shown."""
        return (self.rocm, self.override)


@dataclass(frozen=True, kw_only=True)
class World:
    request: Request
    matrix: Matrix
    machine: Machine

    @property
    def target(self) -> str:
        return self.request.target

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that the set must support."""
        return self.request.targets

    @property
    def driver(self) -> str:
        return self.request.driver or self.machine.driver


def best_sets(request: Request, matrix: Matrix, machine: Machine) -> list[Parts]:
    """Return the best set for each root, in order, or an empty list if nothing works."""
    world = World(request=request, matrix=matrix, machine=machine)
    enumerate_all, fits, rank = KINDS[request.platform, bool(request.zluda)]
    fitting = sorted(
        (parts for parts in enumerate_all(world) if fits(parts, world)), key=lambda parts: rank(parts, world)
    )
    first: dict[tuple[object, ...], Parts] = {}
    for parts in fitting:
        first.setdefault(tuple(map(id, parts.root)), parts)
    return list(first.values())


def parts_of(candidate: Candidate) -> Parts:
    rocm: Any = candidate.rocm.row
    zluda = candidate.part("zluda")
    return Parts(
        rocm=rocm,
        override=candidate.override,
        build=candidate.row(ZludaBuild),
        asset=zluda.asset if zluda else None,
        pack=candidate.row(Pack),
        torch=candidate.row(TorchSet),
    )


# ---------------------------------------------------------------- versions and conditions


def series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def in_range(text: str, version: str) -> bool:
    """Whether a range in the data includes a version; an empty range includes all versions."""
    return SpecifierSet(text, prereleases=True).contains(version)


def is_requested(spec: str, version: str, *, floating: bool = False, local: str = "") -> bool:
    """Whether the user requested a version; a rolling version matches if any release in it could match."""
    if spec in ("", "*"):
        return True
    if re.fullmatch(r"[0-9.]+(\.\*)?", spec):
        spec = f"=={spec.removesuffix('.*')}.*"
    elif spec[0].isdigit():
        spec = f"=={spec}"
    wanted = SpecifierSet(spec, prereleases=True)
    releases = [version, *(f"{version}.{patch}{local}" for patch in range(100))] if floating else [version]
    if floating and any(
        is_build_of(each.version.removesuffix(".*"), version) for each in wanted if "==" in each.operator
    ):
        return True
    return any(wanted.contains(release) for release in releases)


def release_is_requested(spec: str, row: RocmSet | RocmWheels) -> bool:
    """Whether a request includes a row's release, or its whole series if the row has no release."""
    if isinstance(row, RocmWheels) or row.version.count(".") > 1:
        return is_requested(spec, row.version, floating=getattr(row, "floating", False))
    return all(is_requested(spec, f"{row.version}.{patch}") for patch in range(100))


def is_build_of(version: str, series_of_row: str) -> bool:
    """Whether a version is a nightly build or other pre-release in a series."""
    release = ".".join(map(str, (*Version(version).release, 0)[:2]))
    return Version(version).is_prerelease and release == series_of_row


@dataclass(frozen=True)
class newest:  # noqa: N801 - reads as the function that it is
    """A sort key that puts the newest version first."""

    version: str

    def __lt__(self, other: newest) -> bool:
        return Version(other.version) < Version(self.version)


def target_known(world: World) -> bool:
    return not world.matrix.targets or all(each in world.matrix.targets for each in world.targets)


def python_is_requested(world: World, row: TorchSet | RocmWheels) -> bool:
    return any(is_requested(world.request.python, python, floating=True) for python in row.python)


def known_bad(parts: Parts, world: World) -> bool:
    return any(applies(row, parts, world) for row in world.matrix.verdict)


def applies(row: Verdict, parts: Parts, world: World) -> bool:
    """Whether a row marks a set as broken, which it does if all of its conditions match."""
    if row.verdict != "broken" or row.only_if or row.platform != world.request.platform:
        return False
    if row.targets and not any(each in row.targets for each in world.targets):
        return False
    if row.driver and not (world.driver and in_range(row.driver, world.driver)):
        return False
    if not in_range(row.rocm, parts.rocm.version):
        return False
    if row.torch and (parts.torch is None or not in_range(row.torch, parts.torch.version)):
        return False
    if not (row.zluda or row.project or row.flavour or row.pack):
        return True
    return (
        parts.build is not None
        and parts.asset is not None
        and in_range(row.zluda, parts.build.version)
        and row.project in ("", parts.build.project)
        and (not row.flavour or parts.asset.flavour in row.flavour)
        and (row.pack != "none" or parts.pack is None)
    )


# ---------------------------------------------------------------- Linux


def linux_sets(world: World) -> Iterator[Parts]:
    wheels = [row for row in world.matrix.torch if row.rocm] if world.request.torch else [None]
    ways = [None, *(row for row in world.matrix.override if row.target == world.target)]
    rows: list[RocmSet | RocmWheels] = [*world.matrix.rocm, *own_wheels(world)]
    for rocm, override, torch in itertools.product(rows, ways, wheels):
        yield Parts(rocm=rocm, override=override, torch=torch)


def linux_fits(parts: Parts, world: World) -> bool:
    row: Any = parts.rocm
    request = world.request
    return (
        target_known(world)
        and release_is_requested(request.rocm, row)
        and (request.channel == row.channel or (not request.channel and not by_name_only(row, world)))
        and way_fits(parts, row, world)
        and (not isinstance(row, RocmWheels) or runs_here(row, world))
        and (parts.torch is None or wheel_fits(parts, parts.torch, world))
        and not known_bad(parts, world)
    )


def own_wheels(world: World) -> list[RocmWheels]:
    """Return the rows for ROCm wheels on the requested platform."""
    return [row for row in world.matrix.rocm_wheels if row.platform == world.request.platform]


def runs_here(row: RocmWheels, world: World) -> bool:
    """Whether the Python, driver and C library support a release of ROCm wheels."""
    glibc = world.machine.glibc
    return (
        python_is_requested(world, row)
        and (row.packages != () or world.request.torch != "")  # if empty, PyTorch's wheel bundles ROCm
        and not (row.driver and world.driver and not in_range(row.driver, world.driver))
        and (row.loader != "" or not (row.glibc and glibc and Version(glibc) < Version(row.glibc)))
    )


def by_name_only(row: RocmSet | RocmWheels, world: World) -> bool:
    """Whether the set is used only if the user requests it."""
    return world.matrix.channels[row.channel].only_named


def way_fits(parts: Parts, row: RocmSet | RocmWheels, world: World) -> bool:
    override = parts.override
    blas, compiles = kernels_of(row)
    if override is None:
        return set(world.targets) <= blas or set(world.targets) <= compiles
    torch_natively = isinstance(row, RocmWheels) or parts.torch is None or world.target in parts.torch.targets
    return (
        not (world.target in blas and torch_natively)
        and len(world.targets) == 1  # an override applies to every GPU
        and override.verdict in ("ok", "caution")
        and override.runs_as in blas
        and in_range(override.rocm, row.version)
    )


def kernels_of(row: RocmSet | RocmWheels) -> tuple[set[str], set[str]]:
    """Return the targets that the libraries support, and those that the compiler supports."""
    if isinstance(row, RocmWheels):
        return set(row.targets), set(row.targets)
    return set(row.blas), set(row.compiles)


def wheel_fits(parts: Parts, torch: TorchSet, world: World) -> bool:
    glibc, row = world.machine.glibc, parts.rocm
    served = (parts.override.runs_as,) if parts.override else world.targets
    if isinstance(row, RocmWheels):
        # PyTorch uses the libraries from these wheels, so even the patch release must match.
        goes = (torch.channel, torch.rocm) == (row.channel, row.version)
    else:
        goes = not torch.channel and series(torch.rocm) == series(row.version)
        goes = goes and set(served) <= set(torch.targets)
    return (
        goes
        and is_requested(world.request.torch, torch.version, floating=True, local=f"+rocm{torch.rocm}")
        and python_is_requested(world, torch)
        and not (torch.glibc and glibc and Version(glibc) < Version(torch.glibc))
    )


def wheel_rank(torch: TorchSet | None) -> tuple[object, ...]:
    """A sort key: releases before candidates, then (ROCm wheels only) those on AMD's lists, then newest."""
    if torch is None:
        return ()
    sure = SURE[torch.status] if torch.channel else 0
    return (not torch.released, sure, newest(torch.version), newest(torch.rocm))


def promised(row: RocmSet | RocmWheels, targets: tuple[str, ...]) -> int:
    """Return 0 if AMD supports all targets, 1 if the wheels are release-ready for the others, else 2."""
    if set(targets) <= set(row.official):
        return 0
    ready = set(row.ready) if isinstance(row, RocmWheels) else set()
    return 1 if ready and set(targets) <= {*row.official, *ready} else 2


def linux_rank(parts: Parts, world: World) -> tuple[object, ...]:
    row: Any = parts.rocm
    override, matrix = parts.override, world.matrix
    runs_as = override.runs_as if override else world.target
    served = (runs_as, *world.request.more_targets)
    is_wheels = isinstance(row, RocmWheels)
    if override:
        way: str = override.verdict
    elif set(served) <= kernels_of(row)[0]:
        way = "built" if is_wheels and promised(row, served) == 2 else "native"
    else:
        way = "compile"
    said = [
        SURE[each.status]
        for each in matrix.support
        if each.platform == "linux"
        and each.rocm == series(row.version)
        and not is_wheels
        and each.level in SERVES
        and runs_as in each.targets
    ]
    return (
        ("native", "ok", "caution", "built", "compile").index(way),
        not tested_with_driver(series(row.version), world),
        is_wheels and not world.request.torch and not world.request.dev,
        promised(row, served),
        matrix.channels[row.channel].by != "maker",
        max(SURE[row.status], min(said, default=0)),
        newest(row.version),
        row.channel,
        override.value if override else "",
        wheel_rank(parts.torch),
    )


def tested_with_driver(release: str, world: World) -> bool:
    """Whether the kernel driver supports a release; also true if that is unknown."""
    pairs = world.matrix.driver_pair
    driver = world.driver
    heard = any(driver in row.drivers or release in row.rocm for row in pairs)
    if not driver:
        return tested_on_kernel(release, world)
    return not heard or any(driver in row.drivers and release in row.rocm for row in pairs)


def tested_on_kernel(release: str, world: World) -> bool:
    """Whether a release was tested on this kernel or an older one; unknown for kernels with backports."""
    rows = [row for row in world.matrix.system_kernel if row.rocm == release and not row.backports]
    kernels = [Version(kernel) for row in rows for kernel in row.kernels]
    own = world.machine.kernel.partition("-")[0]
    return not own or not kernels or Version(own).release[:2] >= min(kernels).release[:2]


# ---------------------------------------------------------------- Windows with ZLUDA


def zluda_sets(world: World) -> Iterator[Parts]:
    matrix = world.matrix
    archives = [(build, asset) for build in matrix.zluda for asset in build.assets]
    wheels = [row for row in matrix.torch if row.cuda] if world.request.torch else [None]
    for sdk, (build, asset), pack, torch in itertools.product(
        matrix.hip_sdk, archives, [None, *matrix.pack], wheels
    ):
        yield Parts(rocm=sdk, build=build, asset=asset, pack=pack, torch=torch)


def zluda_fits(parts: Parts, world: World) -> bool:
    sdk, build, asset = parts.rocm, parts.build, parts.asset
    assert build is not None
    assert asset is not None
    release, request = series(sdk.version), world.request
    return (
        target_known(world)
        and is_requested(request.rocm, sdk.version)
        and request.channel in ("", "hip-sdk")
        and is_requested(request.zluda, build.version)
        and not (build.driver and world.driver and not in_range(build.driver, world.driver))
        and asset.platform == "windows"
        and (
            release in asset.rocm
            or release.split(".")[0] in asset.rocm
            or world.target in asset.also.get(release, ())
        )
        and pack_fits(parts, world)
        and (parts.torch is None or cuda_wheel_fits(parts.torch, world))
        and not known_bad(parts, world)
    )


def promise(sdk: HipSdk | RocmSet | RocmWheels, world: World) -> Support | None:
    """Return AMD's support level for a target in an SDK."""
    found = [
        row
        for row in world.matrix.support
        if row.platform == "windows" and row.rocm == series(sdk.version) and world.target in row.targets
    ]
    return min(found, key=lambda row: SURE[row.status], default=None)


def has_kernels(sdk: HipSdk | RocmSet | RocmWheels, world: World) -> bool:
    said = promise(sdk, world)
    return said is not None and said.level in SERVES


def pack_fits(parts: Parts, world: World) -> bool:
    if has_kernels(parts.rocm, world):
        return parts.pack is None
    return parts.pack in packs_for(parts.rocm, world)


def packs_for(sdk: HipSdk | RocmSet | RocmWheels, world: World) -> list[Pack]:
    """Return the packs that add kernels for the target to an SDK."""
    return [
        row
        for row in world.matrix.pack
        if row.kind == "rocblas"
        and not row.absent
        and any(target.split(":")[0] == world.target for target in row.targets)
        and series(sdk.version) in map(series, row.rocm)
    ]


def named_sets(sdk: HipSdk | RocmSet | RocmWheels, world: World) -> list[GoodSet]:
    """Return sets that app developers recommend for the target, SDK and requested ZLUDA build."""
    return [
        row
        for row in world.matrix.good_set
        if row.platform == "windows"
        and row.zluda
        and world.target in row.targets
        and in_range(row.rocm, sdk.version)
        and any(
            in_range(row.zluda, build.version) and is_requested(world.request.zluda, build.version)
            for build in world.matrix.zluda
        )
    ]


def cuda_wheel_fits(torch: TorchSet, world: World) -> bool:
    wish = world.request.torch
    right = is_requested(wish, torch.version) or is_requested(
        wish, f"{torch.version}+cu{torch.cuda.replace('.', '')}"
    )
    return right and python_is_requested(world, torch)


def zluda_rank(parts: Parts, world: World) -> tuple[object, ...]:
    sdk, build, asset, pack, torch = parts.rocm, parts.build, parts.asset, parts.pack, parts.torch
    assert build is not None
    assert asset is not None
    said = promise(sdk, world)
    named = named_sets(sdk, world)
    levels = ("official", "deprecated", "libraries", "runtime", "unsupported")
    return (
        not named,
        not has_kernels(sdk, world),
        pack is not None and not any(each.url for each in packs_for(sdk, world)),
        levels.index(said.level) if said else len(levels),
        SURE[said.status] if said else 3,
        newest(sdk.version),
        not build.preferred,
        asset.flavour == "nightly",
        build.project,
        SURE[build.status],
        newest(build.version),
        asset.name,
        (
            not pack.url,
            not pack.proven,
            not pack.sha256,
            len(pack.targets),
            SURE[pack.status],
            pack.provider,
            pack.asset,
        )
        if pack
        else (),
        pack.rocm if pack else (),
        (
            not any(
                row.torch and in_range(row.torch, torch.version) and in_range(row.zluda, build.version)
                for row in named
            ),
            not (torch.zluda and in_range(torch.zluda, build.version)),
            SURE[torch.status],
            newest(torch.version),
        )
        if torch
        else (),
    )


# ---------------------------------------------------------------- Windows without ZLUDA


def windows_sets(world: World) -> Iterator[Parts]:
    torches = [row for row in world.matrix.torch if row.channel] if world.request.torch else [None]
    for row, torch in itertools.product(own_wheels(world), torches):
        yield Parts(rocm=row, torch=torch)
    yield from (Parts(rocm=row) for row in world.matrix.hip_sdk)


def windows_fits(parts: Parts, world: World) -> bool:
    row, request = parts.rocm, world.request
    if not target_known(world) or known_bad(parts, world):
        return False
    if not isinstance(row, RocmWheels):
        return (
            request.channel in ("", "hip-sdk")
            and is_requested(request.rocm, row.version)
            and all(has_kernels(row, replace(world, request=one)) for one in alone(request))
            and not request.torch
        )
    return (
        is_requested(request.rocm, row.version, floating=row.floating)
        and set(world.targets) <= set(row.targets)
        and (request.channel == row.channel or (not request.channel and not by_name_only(row, world)))
        and runs_here(row, world)
        and (parts.torch is None or wheel_fits(parts, parts.torch, world))
    )


def alone(request: Request) -> list[Request]:
    """Split a request into one request per target."""
    return [structs.replace(request, target=target, more_targets=()) for target in request.targets]


def windows_rank(parts: Parts, world: World) -> tuple[object, ...]:
    row = parts.rocm
    if isinstance(row, RocmWheels):
        vouched, channel = promised(row, world.targets), row.channel
    else:
        said = [promise(row, replace(world, request=one)) for one in alone(world.request)]
        vouched = 0 if all(each and each.level in ("official", "deprecated") for each in said) else 2
        channel = "hip-sdk"
    return (
        not isinstance(row, RocmWheels),
        vouched,
        SURE[row.status],
        newest(row.version),
        channel,
        wheel_rank(parts.torch),
    )


Kind = tuple[
    "Callable[[World], Iterator[Parts]]",
    "Callable[[Parts, World], bool]",
    "Callable[[Parts, World], tuple[object, ...]]",
]
KINDS: dict[tuple[str, bool], Kind] = {
    ("linux", False): (linux_sets, linux_fits, linux_rank),
    ("windows", True): (zluda_sets, zluda_fits, zluda_rank),
    ("windows", False): (windows_sets, windows_fits, windows_rank),
}

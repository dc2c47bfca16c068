"""Small random matrices and requests for hypothesis.

Tables have only a few rows, with versions and targets from small pools, so that components are often
compatible.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hypothesis import strategies as st
from msgspec import structs

from rocenv.core.model import Layout, Machine, Request
from rocenv.core.versions import series
from rocenv.data.knowledge import DisplayDriver, DriverPair, GoodSet, Override, Target, Verdict
from rocenv.data.known import Platform
from rocenv.data.releases import Channel, RocmSet, RocmWheels, Support, SystemKernel, TorchSet
from rocenv.data.rows import Matrix
from rocenv.data.windows import Asset, HipSdk, Pack, ZludaBuild

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.known import Platform

T = TypeVar("T")
Make = Callable[[random.Random], T]  # generates a random value

TARGETS = ("gfx1030", "gfx1031", "gfx1100")
OTHER_TARGET = "gfx906"  # has a row but is never requested
UNKNOWN_TARGET = "gfx9999"
SERIES = ("5.7", "6.2", "7.1")
ROCM = ("5.7.1", "6.2", "6.2.4", "6.4.2", "7.1.1")
TORCH = ("2.2", "2.5", "2.7.1")
BUILDS = ("3.8.4", "3.8.4.post1", "3.9.5", "6rc60", "6")
PYTHONS = ("3.10", "3.11", "3.12")
DISPLAY_DRIVERS = ("25.4.1", "25.5.1", "26.1.1")
KERNEL_DRIVERS = ("5.7", "6.2")
CHANNELS = {
    "amd": "maker",
    "debian": "distribution",
    "unstable": "distribution",
    "therock": "maker",
    "therock-nightly": "maker",
}
PACKAGES = ("amd", "debian", "unstable")
WHEELS = ("therock", "therock", "therock-nightly")
ONLY_NAMED = ("unstable", "therock-nightly")  # users must request these explicitly
Flavour = Literal["plain", "rocm5", "rocm6", "nightly"]
FLAVOURS: tuple[Flavour, ...] = ("plain", "rocm5", "rocm6", "nightly")
LEVELS = ("official", "official", "deprecated", "libraries", "runtime", "unsupported")
LAYOUT = Layout(root="opt", library_dirs=("lib",), libraries={})


def strategy(make: Make[T]) -> st.SearchStrategy[T]:
    """Return a hypothesis strategy that draws only a seed, which is fast and evenly distributed."""
    return st.integers(0, 1 << 32).map(lambda seed: make(random.Random(seed)))


def pick(pool: Sequence[T]) -> Make[T]:
    return lambda dice: dice.choice(pool)


def just(value: T) -> Make[T]:
    return lambda dice: value


def often(most: T, pool: tuple[T, ...]) -> Make[T]:
    """Usually draw `most`, and otherwise a value from `pool`."""
    return lambda dice: most if dice.random() < 0.7 else dice.choice(pool)


def some(pool: tuple[T, ...], least: int = 0) -> Make[tuple[T, ...]]:
    """Draw a subset of `pool` in its order; large subsets are more likely."""
    sizes = [*range(least, len(pool) + 1), *[len(pool)] * 2]
    return pick([found for size in sizes for found in itertools.combinations(pool, size)])


def build(what: Callable[..., T], /, **fields: Make[Any]) -> Make[T]:
    return lambda dice: what(**{name: make(dice) for name, make in fields.items()})


def rows(row: Make[T], key: Callable[[T], Any], most: int = 4, least: int = 1) -> Make[tuple[T, ...]]:
    """Draw rows with distinct identities."""
    return lambda dice: tuple(
        {key(found): found for found in (row(dice) for _ in range(dice.randint(least, most)))}.values()
    )


known: dict[str, Any] = {
    "status": pick(["maker", "tested", "reported", "inferred"]),
    "source": pick(["one report", "another report"]),
    "checked": just("2026-11-20"),
}
targets = some(TARGETS)
few_targets = pick(((), (), ("gfx1030",), ("gfx1031", "gfx1100")))
rocm_range = often("", ("<7", "==6.2.*", ">=6.2.4"))
build_range = often("", ("==3.8.4", "<=3.9.5", ">=3.8.4.post1", ">=6rc60"))
torch_range = often("", (">=2.5", "<2.5"))
display_range = often("", (">=25.5.1", "<25.5.1", "==25.4.1"))

rocm = build(
    RocmSet,
    version=pick(ROCM),
    channel=pick(PACKAGES),
    packages=just(("hip",)),
    layout=just(LAYOUT),
    compiles=targets,
    blas=targets,
    official=targets,
    **known,
)


def _mixed(row: RocmSet) -> RocmSet:
    """Reduce a distribution row's version to a series: its packages are from several releases."""
    return row if row.channel == "amd" else structs.replace(row, version=series(row.version))


def _nightly(row: RocmWheels) -> RocmWheels:
    """Make rows for nightly builds rolling, as they are in the real data."""
    if row.channel == "therock":
        return row
    return structs.replace(row, floating=True, version=series(row.version))


linux_torch = build(
    TorchSet,
    version=pick(TORCH),
    index=just("https://download.pytorch.org/whl/rocm"),
    python=some(PYTHONS, least=1),
    rocm=pick(("5.7", "6.2", "6.2.4", "7.1")),
    targets=targets,
    glibc=often("", ("2.28",)),
    released=pick((False, True)),
    **known,
)
cuda_torch = build(
    TorchSet,
    version=pick(TORCH),
    index=just("https://download.pytorch.org/whl/cu118"),
    python=some(PYTHONS, least=1),
    cuda=just("11.8"),
    zluda=build_range,
    **known,
)
hip_sdk = build(
    HipSdk,
    version=pick(("5.7.1", "6.2.4", "7.1.1")),
    installer=just("AMD.exe"),
    url=just("https://download.amd.com/AMD.exe"),
    os=just("Windows 11"),
    install_dir=just("ROCm"),
    variables=just(()),
    **known,
)


def assets(dice: random.Random) -> tuple[Asset, ...]:
    return tuple(
        Asset(
            name=f"ZLUDA-{flavour}.zip",
            rocm=some(("5.7", "6", "6.2", "7.1"), least=1)(dice),
            flavour=flavour,
            platform="windows" if dice.random() < 0.8 else "linux",
        )
        for flavour in some(FLAVOURS, least=1)(dice)
    )


zluda = build(
    ZludaBuild,
    project=pick(["lshqqytiger", "vosen"]),
    version=pick(BUILDS),
    tag=just("v"),
    commit=just("c"),
    assets=assets,
    preferred=pick((False, True)),
    driver=often("", ("<25.5.1", ">=26")),
    **known,
)
pack = build(
    Pack,
    provider=pick(["likelovewant", "brknsoul"]),
    rocm=some(("5.7", "6.2.4", "7.1.1"), least=1),
    asset=pick(["one.7z", "two.7z"]),
    targets=pick([("gfx1031",), ("gfx1031:xnack-", "gfx1030"), ("gfx1100",), ("gfx906",), ()]),
    kind=often("rocblas", ("hipblaslt",)),
    absent=often(False, (True,)),
    url=pick(["", "https://github.com/one.7z"]),
    sha256=pick(["", "0" * 64]),
    **known,
)
wheels = build(
    RocmWheels,
    version=pick(ROCM),
    channel=pick(WHEELS),
    index=pick(["https://repo.amd.com/a", "https://repo.amd.com/b"]),
    platform=pick(["linux", "windows"]),
    packages=often(("rocm",), ((),)),
    layout=just(LAYOUT),
    targets=targets,
    python=often(PYTHONS, (PYTHONS[:1], PYTHONS[1:])),
    official=few_targets,
    ready=few_targets,
    driver=often("", (">=26.1.1",)),
    glibc=often("", ("2.28",)),
    loader=often("", ("ld.so",)),
    **known,
)


def wheels_torch(dice: random.Random, *, rocm: str = "9.9", channel: str = "therock") -> TorchSet:
    """Draw a PyTorch release for a wheel release."""
    make = build(
        TorchSet,
        version=pick(TORCH),
        index=just("https://repo.amd.com/a"),
        python=often(PYTHONS, (PYTHONS[:1], PYTHONS[1:])),
        rocm=just(rocm),
        channel=just(channel),
        glibc=often("", ("2.28",)),
        released=pick((False, True)),
        **known,
    )
    return make(dice)


def _with_torch_for_wheels(matrix: Matrix, dice: random.Random) -> Matrix:
    """Add PyTorch for most wheel releases, and for a release that has no wheels."""
    releases = [(row.version, row.channel) for row in matrix.rocm_wheels] * 2 + [("6.2.3", "therock")]
    found = {
        (row.version, row.rocm, row.channel): row
        for version, channel in releases
        for row in [wheels_torch(dice, rocm=version, channel=channel)]
        if dice.random() < 0.7
    }
    return replace(matrix, torch=(*matrix.torch, *found.values()))


override = build(
    Override,
    target=pick(["gfx1031", "gfx1031", "gfx1100", OTHER_TARGET]),
    runs_as=pick(["gfx1030", "gfx1030", "gfx1030", "*"]),
    value=pick(["10.3.0", "11.0.0"]),
    verdict=pick(["ok", "caution", "block"]),
    note=just("as they say"),
    rocm=rocm_range,
    **known,
)
verdict = build(
    Verdict,
    platform=pick(["linux", "windows"]),
    verdict=often("broken", ("workaround", "works")),
    what=pick(["it crashes", "it hangs"]),
    targets=often((), (("gfx1031",), ("gfx1100", "gfx1030"), (OTHER_TARGET,))),
    rocm=rocm_range,
    torch=torch_range,
    driver=often("", (">=25.5.1", "==6.2")),
    only_if=often("", ("the moon is full",)),
    **known,
)
windows_verdict = build(
    Verdict,
    platform=just("windows"),
    verdict=often("broken", ("works",)),
    what=pick(["it crashes", "it hangs"]),
    targets=often((), (("gfx1031",),)),
    rocm=rocm_range,
    project=often("", ("lshqqytiger", "vosen")),
    zluda=build_range,
    flavour=often((), (("nightly", "plain"), ("rocm6",))),
    pack=often("", ("none",)),
    torch=torch_range,
    driver=display_range,
    **known,
)
good_set = build(
    GoodSet,
    platform=just("windows"),
    by=pick(["SD.Next", "ComfyUI"]),
    rocm=rocm_range,
    targets=targets,
    zluda=build_range,
    torch=torch_range,
    driver=display_range,
    **known,
)
driver_pair = build(
    DriverPair,
    drivers=some(KERNEL_DRIVERS, least=1),
    rocm=some(SERIES, least=1),
    rule=just("tested"),
    **known,
)


system_kernel = build(
    SystemKernel,
    rocm=pick(SERIES),
    os=pick(("ubuntu", "rhel")),
    kernels=some(("5.10", "5.15", "6.8"), least=1),
    backports=pick((False, False, True)),
    **known,
)


def support(dice: random.Random) -> tuple[Support, ...]:
    """Draw up to two rows per target and release, with the same level, as the checks require."""
    found = []
    platforms: tuple[Platform, ...] = ("linux", "windows")
    for platform, release, target in itertools.product(platforms, SERIES, TARGETS):
        said = build(
            Support,
            platform=just(platform),
            rocm=just(release),
            level=just(dice.choice(LEVELS)),
            targets=just((target,)),
            **known,
        )
        found += [said(dice) for _ in range(dice.choice((0, 1, 1, 2)))]
    return tuple(
        {
            (row.platform, row.source, row.status, row.level, row.rocm, row.targets): row for row in found
        }.values()
    )


def _condition(row: Verdict) -> tuple[object, ...]:
    """Return the fields that make rows different: `what` and the conditions, but not the verdict."""
    return structs.astuple(
        structs.replace(
            row,
            verdict="works",
            status="maker",
            source="",
            checked="",
            remedy="",
            instead=(),
            app="",
            code="",
        )
    )


def _target(name: str) -> Target:
    return Target(
        name=name,
        arch="RDNA2",
        kind="card",
        wave=32,
        products=name,
        status="maker",
        source="AMD",
        checked="2026-11-20",
    )


def _channel(name: str) -> Channel:
    by: Any = CHANNELS[name]
    return Channel(
        name=name,
        title=name,
        by=by,
        repos=(),
        only_named=name in ONLY_NAMED,
        status="maker",
        source="a page",
        checked="2026-11-20",
    )


def _display_driver(version: str) -> DisplayDriver:
    return DisplayDriver(version=version, status="maker", source="AMD", checked="2026-11-20")


_parts = build(
    Matrix,
    channel=just(tuple(map(_channel, CHANNELS))),
    target=just(tuple(map(_target, (*TARGETS, OTHER_TARGET)))),
    rocm=rows(lambda dice: _mixed(rocm(dice)), lambda row: (row.version, row.channel)),
    torch=lambda dice: (
        *rows(linux_torch, lambda row: (row.version, row.rocm))(dice),
        *rows(cuda_torch, lambda row: row.version, 3)(dice),
    ),
    rocm_wheels=rows(
        lambda dice: _nightly(wheels(dice)), lambda row: (row.version, row.channel, row.platform), 6
    ),
    hip_sdk=rows(hip_sdk, lambda row: row.version, 3),
    zluda=rows(zluda, lambda row: (row.project, row.version)),
    pack=rows(pack, lambda row: (row.provider, row.rocm, row.asset, row.targets)),
    support=support,
    override=rows(override, lambda row: (row.target, row.value), 4, 0),
    verdict=rows(lambda dice: dice.choice((verdict, windows_verdict))(dice), _condition, 3, 0),
    good_set=rows(good_set, lambda row: (row.by, row.rocm, row.zluda, row.targets), 3, 0),
    driver_pair=rows(driver_pair, lambda row: (row.drivers, row.rocm), 3, 0),
    system_kernel=rows(system_kernel, lambda row: (row.rocm, row.os), 3, 0),
    display_driver=just(tuple(map(_display_driver, DISPLAY_DRIVERS))),
)
matrices = strategy(lambda dice: _with_torch_for_wheels(_parts(dice), dice))

target = pick((*TARGETS * 6, UNKNOWN_TARGET))
_more: tuple[tuple[str, ...], ...] = (("gfx1030",), ("gfx1100", "gfx1031"), (UNKNOWN_TARGET,))
more_targets = often((), ((), *_more))
rocm_wish = often("", ("6.2", "5.7.1", ">=6.2,<7.1", "7.*", "4.0"))
torch_wish = pick(["", "", "*", "*", "*", "2.5", "<2.7", "==2.5.1+rocm6.2", "9"])
python_wish = often("", ("3.11", "3.12.4", "2.7"))
linux_requests = strategy(
    build(
        Request,
        rocm=rocm_wish,
        torch=torch_wish,
        python=python_wish,
        target=target,
        more_targets=more_targets,
        channel=often("", (*CHANNELS, "nobody")),
        platform=just("linux"),
        driver=often("", KERNEL_DRIVERS),
        dev=often(False, (True,)),
    )
)
zluda_requests = strategy(
    build(
        Request,
        rocm=rocm_wish,
        zluda=often("*", ("3.9.5", "<3.9", ">=6rc1", "1.0")),
        torch=torch_wish,
        python=python_wish,
        target=target,
        channel=often("", ("hip-sdk", "nobody")),
        platform=just("windows"),
        driver=often("", DISPLAY_DRIVERS),
    )
)
windows_requests = strategy(
    build(
        Request,
        rocm=rocm_wish,
        torch=torch_wish,
        python=python_wish,
        target=target,
        more_targets=more_targets,
        channel=often("", ("therock", "therock-nightly", "hip-sdk", "nobody")),
        platform=just("windows"),
        driver=often("", DISPLAY_DRIVERS),
    )
)
linux_machines = strategy(
    build(
        Machine,
        glibc=pick(("", "2.17", "2.39")),
        driver=often("", KERNEL_DRIVERS),
        kernel=often("", ("5.4.0-173-generic", "5.10.6", "6.2.0", "6.11.0-29-generic")),
    ),
)
windows_machines = strategy(build(Machine, driver=often("", DISPLAY_DRIVERS)))

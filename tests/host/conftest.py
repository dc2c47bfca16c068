"""An empty machine, a matrix with a few rows, and detection that uses both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import Layout
from rocenv.data.knowledge import DisplayDriver, GpuName, Override, PciId, Target, UnsupportedGpu
from rocenv.data.releases import RocmWheels, Support
from rocenv.data.rows import Matrix
from rocenv.host import Host, detect
from tests.host.roots import Root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, Literal

    from rocenv.data.known import Platform, Status

KNOWN: dict[str, Any] = {"source": "tests/host/conftest.py", "checked": "2026-11-20"}
MAKER: Status = "maker"


def target(name: str, kind: Literal["card", "apu"], wave: Literal[32, 64] = 32) -> Target:
    return Target(name=name, arch="", kind=kind, wave=wave, products="", status=MAKER, **KNOWN)


def pci(device: str, name: str, product: str, revision: str = "") -> PciId:
    products = (product,) if product else ()
    return PciId(device=device, target=name, products=products, revision=revision, status=MAKER, **KNOWN)


def support(
    rocm: str, level: Literal["official", "libraries"], *targets: str, platform: Platform = "linux"
) -> Support:
    return Support(platform=platform, rocm=rocm, level=level, targets=targets, status=MAKER, **KNOWN)


def wheels(version: str, official: tuple[str, ...], built: tuple[str, ...] = ()) -> RocmWheels:
    return RocmWheels(
        version=version,
        channel="therock",
        index="https://stable.repo.amd.com/",
        platform="linux",
        packages=(),
        targets=(*official, *built),
        official=official,
        layout=Layout(root="", library_dirs=(), libraries={}),
        python=("3.12",),
        status=MAKER,
        **KNOWN,
    )


TARGETS = (
    *(target(name, "card") for name in ("gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1201")),
    *(target(name, "card", 64) for name in ("gfx803", "gfx906", "gfx908", "gfx90a", "gfx940", "gfx942")),
    *(target(name, "apu") for name in ("gfx1035", "gfx1036", "gfx1103", "gfx1151")),
    target("gfx90c", "apu", 64),
)
PCI = (
    pci("73bf", "gfx1030", "Radeon RX 6800 XT"),
    pci("67df", "gfx803", "Radeon RX 580"),
    pci("164e", "gfx1036", "Radeon 610M"),
    pci("744c", "gfx1100", "Radeon RX 7900 XTX"),
    pci("1586", "gfx1151", "Radeon 8060S"),
    pci("15bf", "gfx1103", "Radeon 780M"),
    pci("74a1", "gfx942", "Instinct MI300X"),
    pci("74a0", "gfx942", "Instinct MI300A"),
    pci("74a0", "gfx940", "Instinct MI300A (early)", revision="00"),
)
MATRIX = Matrix(
    target=TARGETS,
    pci=PCI,
    gpu_name=(
        GpuName(title="6800", pattern=r"\bRX 6800\b", target="gfx1030", status=MAKER, **KNOWN),
        GpuName(title="780M", pattern=r"\b780M\b", target="gfx1103", status=MAKER, **KNOWN),
    ),
    unsupported_gpu=(
        UnsupportedGpu(
            title="GCN 1 (old)",
            pattern=r"\bHD 7870\b",
            device="68[01].",
            why="ROCm never supported GCN 1",
            instead="Vulkan",
            status=MAKER,
            **KNOWN,
        ),
    ),
    support=(
        support("6.4", "official", "gfx1030", "gfx1100", "gfx1103", platform="windows"),
        support("5.7", "official", "gfx906"),
        support("7.2", "official", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"),
        support("7.2", "libraries", "gfx1151"),
    ),
    rocm_wheels=(
        wheels("7.14.0", ("gfx906",)),
        wheels("10.0.0", ("gfx1151", "gfx1103"), ("gfx1036", "gfx906")),
    ),
    override=(
        Override(
            target="gfx1031",
            runs_as="gfx1030",
            value="10.3.0",
            verdict="ok",
            note="same",
            status=MAKER,
            **KNOWN,
        ),
        Override(
            target="gfx1035",
            runs_as="gfx1030",
            value="10.3.0",
            verdict="block",
            note="wrong results",
            status=MAKER,
            **KNOWN,
        ),
    ),
    display_driver=(DisplayDriver(version="24.12.1", file_version="32.0.12033.1030", status=MAKER, **KNOWN),),
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """An empty machine at `ROCENV_SYSROOT`."""
    path = tmp_path / "machine"
    path.mkdir()
    monkeypatch.setenv("ROCENV_SYSROOT", str(path))
    for name in ("ROCENV_TARGET", "HSA_OVERRIDE_GFX_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return Root(path)


@pytest.fixture
def look() -> Callable[[], Host]:
    """A function that runs detection with the small matrix."""
    return lambda: detect(MATRIX)

"""The matrix: all rows, by table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from rocenv.data.apps import AppBuild, AppPackages, AppRelease, Compiler, Launcher
from rocenv.data.knowledge import (
    DisplayDriver,
    DriverPair,
    DriverTrain,
    EnvRow,
    Fact,
    GenericTarget,
    GoodSet,
    GpuName,
    Incident,
    Override,
    PciId,
    Target,
    UnsupportedGpu,
    Variable,
    Verdict,
    Watched,
    WslNeeds,
)
from rocenv.data.mirrors import Mirror, Origin
from rocenv.data.recipes import CodeObjects, KernelRecipe
from rocenv.data.releases import (
    Channel,
    CLibrary,
    FileHash,
    Index,
    KeepOut,
    Kernels,
    Release,
    Repo,
    RocmSet,
    RocmWheels,
    Support,
    SystemKernel,
    TorchSet,
)
from rocenv.data.rules import Advice, Extractor, FirstKernel, Messages, Rule, Threshold
from rocenv.data.settings import NeverTogether, Reclaim, Setting
from rocenv.data.windows import HipSdk, InstallerNote, Pack, PackPlace, ShimMap, TorchSwitch, ZludaBuild

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """All data in `profiles/`.

    This is the only list of tables: each field is a table, and its type defines the rows. The order of rows
    does not matter.
    """

    repo: tuple[Repo, ...] = ()
    channel: tuple[Channel, ...] = ()
    keep_out: tuple[KeepOut, ...] = ()
    c_library: tuple[CLibrary, ...] = ()
    release: tuple[Release, ...] = ()
    rocm: tuple[RocmSet, ...] = ()
    support: tuple[Support, ...] = ()
    kernels: tuple[Kernels, ...] = ()
    system_kernel: tuple[SystemKernel, ...] = ()
    torch: tuple[TorchSet, ...] = ()
    rocm_wheels: tuple[RocmWheels, ...] = ()
    file_hash: tuple[FileHash, ...] = ()
    hip_sdk: tuple[HipSdk, ...] = ()
    installer_note: tuple[InstallerNote, ...] = ()
    zluda: tuple[ZludaBuild, ...] = ()
    pack: tuple[Pack, ...] = ()
    pack_place: tuple[PackPlace, ...] = ()
    shim_map: tuple[ShimMap, ...] = ()
    torch_switch: tuple[TorchSwitch, ...] = ()
    index: tuple[Index, ...] = ()
    origin: tuple[Origin, ...] = ()
    mirror: tuple[Mirror, ...] = ()
    target: tuple[Target, ...] = ()
    generic_target: tuple[GenericTarget, ...] = ()
    pci: tuple[PciId, ...] = ()
    gpu_name: tuple[GpuName, ...] = ()
    unsupported_gpu: tuple[UnsupportedGpu, ...] = ()
    override: tuple[Override, ...] = ()
    verdict: tuple[Verdict, ...] = ()
    good_set: tuple[GoodSet, ...] = ()
    driver_pair: tuple[DriverPair, ...] = ()
    driver_train: tuple[DriverTrain, ...] = ()
    display_driver: tuple[DisplayDriver, ...] = ()
    wsl: tuple[WslNeeds, ...] = ()
    incident: tuple[Incident, ...] = ()
    fact: tuple[Fact, ...] = ()
    variable: tuple[Variable, ...] = ()
    environment: tuple[EnvRow, ...] = ()
    watched: tuple[Watched, ...] = ()
    launcher: tuple[Launcher, ...] = ()
    app_packages: tuple[AppPackages, ...] = ()
    app_build: tuple[AppBuild, ...] = ()
    app_release: tuple[AppRelease, ...] = ()
    compiler: tuple[Compiler, ...] = ()
    kernel_recipe: tuple[KernelRecipe, ...] = ()
    code_objects: tuple[CodeObjects, ...] = ()
    setting: tuple[Setting, ...] = ()
    never_together: tuple[NeverTogether, ...] = ()
    reclaim: tuple[Reclaim, ...] = ()
    rule: tuple[Rule, ...] = ()
    extractor: tuple[Extractor, ...] = ()
    advice: tuple[Advice, ...] = ()
    messages: tuple[Messages, ...] = ()
    threshold: tuple[Threshold, ...] = ()
    first_kernel: tuple[FirstKernel, ...] = ()

    @cached_property
    def repos(self) -> Mapping[str, Repo]:
        """Repositories by name."""
        return {row.name: row for row in self.repo}

    @cached_property
    def channels(self) -> Mapping[str, Channel]:
        """Channels by name."""
        return {row.name: row for row in self.channel}

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """Targets by name."""
        return {row.name: row for row in self.target}

    @property
    def keep_out_patterns(self) -> tuple[str, ...]:
        """Name patterns for packages to exclude."""
        return tuple(row.pattern for row in self.keep_out)

    def names(self, table: str, field: str = "name") -> set[str]:
        """Collect the names or codes of a table's rows."""
        rows = getattr(self, table)
        return self.kept(f"{field} of {table}", lambda _: {getattr(row, field) for row in rows})

    def kept(self, name: str, make: "Callable[[Matrix], T]") -> T:
        """Compute a value from the rows and cache it under a name for this matrix's lifetime."""
        kept = self._derived
        if name not in kept:
            kept[name] = make(self)
        found: T = kept[name]
        return found

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}

"""The rows about where packages come from and what activation changes, and the matrix of all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rocenv.core.model import EnvChange  # noqa: TC001 - the reader needs the type at run time
from rocenv.data.known import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.data import (
        app_builds,
        app_releases,
        app_sets,
        apps,
        hardware,
        knobs,
        knowledge,
        recipes,
        reference,
        releases,
        rules,
    )
    from rocenv.data import zluda as zluda_rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repo(Known):
    """An apt repository.

    `base` is an address, or `debian:` or `host:` for what the machine's own apt is set up with; `{apt_dir}`
    and the `suite` may be filled in by the set that uses it.
    """

    name: str
    base: str
    suite: str = ""  # "" = the set names it, or for `host:` the machine's own release
    components: tuple[str, ...] = ("main",)
    keyrings: tuple[str, ...] = ()  # paths on the machine; those that are there count
    key_url: str = ""  # where the key is fetched where there is no keyring; needs fingerprints
    fingerprints: tuple[str, ...] = ()  # of the only keys to trust, in capitals; () = all of the keyrings
    suites_known: tuple[str, ...] = ()  # releases, or names for one, by which a mirror is recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Known):
    """Who builds a set, and from which repositories it is put together."""

    name: str
    title: str
    by: Literal["maker", "distribution"]
    repos: tuple[str, ...]  # the preferred one first
    only_named: bool = False  # its sets are only for who asks for the channel by its name


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOut(Known):
    """Packages that a prefix has no use for."""

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CLibrary(Known):
    """The packages that make up the C library, and the program loader they bring."""

    package: str
    loader: str
    files: tuple[str, ...]  # library names that come from the machine where its own C library is used


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRow(Known):
    """One change that activation makes, and why."""

    change: EnvChange
    when: Literal["always", "rocm", "torch", "zluda"]
    platform: Literal["linux", "windows"] = "linux"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Known):
    """A variable that acts on every set, so that a value left from another installation is reported."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Everything that `profiles/` says: of each table its rows, in an order that means nothing."""

    repos: Mapping[str, Repo] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    targets: Mapping[str, hardware.Target] = field(default_factory=dict)
    generic_target: Sequence[hardware.GenericTarget] = ()
    pci: Sequence[hardware.PciId] = ()
    gpu_name: Sequence[hardware.GpuName] = ()
    release: Sequence[releases.Release] = ()
    rocm: tuple[releases.RocmSet, ...] = ()
    support: tuple[releases.Support, ...] = ()
    kernels: Sequence[releases.Kernels] = ()
    system_kernel: Sequence[releases.SystemKernel] = ()
    torch: tuple[releases.TorchSet, ...] = ()
    rocm_wheels: tuple[releases.RocmWheels, ...] = ()
    hip_sdk: tuple[releases.HipSdk, ...] = ()
    installer_note: tuple[releases.InstallerNote, ...] = ()
    zluda: tuple[releases.ZludaBuild, ...] = ()
    pack: tuple[releases.Pack, ...] = ()
    pack_place: tuple[releases.PackPlace, ...] = ()
    shim_map: tuple[zluda_rows.ShimMap, ...] = ()
    torch_switch: tuple[zluda_rows.TorchSwitch, ...] = ()
    index: Sequence[releases.Index] = ()
    override: tuple[knowledge.Override, ...] = ()
    verdict: tuple[knowledge.Verdict, ...] = ()
    good_set: tuple[knowledge.GoodSet, ...] = ()
    driver_pair: tuple[knowledge.DriverPair, ...] = ()
    driver_train: tuple[knowledge.DriverTrain, ...] = ()
    display_driver: tuple[knowledge.DisplayDriver, ...] = ()
    incident: Sequence[reference.Incident] = ()
    fact: Sequence[reference.Fact] = ()
    variable: Sequence[reference.Variable] = ()
    app: Sequence[reference.App] = ()
    launcher: Sequence[apps.Launcher] = ()
    app_packages: Sequence[app_sets.AppPackages] = ()
    app_build: Sequence[app_builds.AppBuild] = ()
    compiler: Sequence[app_sets.Compiler] = ()
    app_program: Sequence[app_releases.AppProgram] = ()
    app_release: Sequence[app_releases.AppRelease] = ()
    kernel_source: Sequence[recipes.KernelSource] = ()
    kernel_recipe: Sequence[recipes.KernelRecipe] = ()
    code_objects: Sequence[recipes.CodeObjects] = ()
    knob: Sequence[knobs.Knob] = ()
    never_together: Sequence[knobs.NeverTogether] = ()
    reclaim: Sequence[knobs.Reclaim] = ()
    rule: Sequence[rules.Rule] = ()
    clue: Sequence[rules.Clue] = ()
    advice: Sequence[rules.Advice] = ()
    gauge: Sequence[rules.Gauge] = ()
    first_kernel: Sequence[rules.FirstKernel] = ()
    library: Sequence[reference.Library] = ()
    keep_out: tuple[KeepOut, ...] = ()
    c_libraries: tuple[CLibrary, ...] = ()
    environment: tuple[EnvRow, ...] = ()
    watched: tuple[Watched, ...] = ()
    # What readers have worked out from the rows, to be kept as long as these rows are.
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def kept(self, name: str, make: Callable[[Matrix], T]) -> T:
        """Return what `make` works out from this matrix; it is asked once."""
        if name not in self.derived:
            self.derived[name] = make(self)
        found: T = self.derived[name]
        return found

    @property
    def keep_out_patterns(self) -> tuple[str, ...]:
        """The name patterns of the packages to keep out."""
        return tuple(row.pattern for row in self.keep_out)

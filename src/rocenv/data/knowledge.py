"""Rows about GPUs, and about combinations that work or fail on them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from rocenv.core.model import EnvChange, Value
from rocenv.data.known import NEWS_DAYS, Known, Platform

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Target(Known, frozen=True, kw_only=True):
    """A gfx target."""

    IDENTITY = ("name",)
    REFERS = (("generic", "generic_target"),)

    name: str  # "gfx1031"
    arch: str  # "RDNA2"
    kind: Literal["card", "apu"]
    wave: Literal[32, 64]
    products: str
    codename: str = ""
    memory: str = ""
    gc_ip: str = ""  # the kernel driver's names for the graphics core, comma-separated
    kfd: int = 0  # the kernel's `gfx_target_version`; 0 if it has none yet
    generic: str = ""  # generic target whose code it can run
    family: str = ""  # TheRock's name for the build group


class GenericTarget(Known, frozen=True, kw_only=True):
    """A target whose code objects run on all its members."""

    IDENTITY = ("name",)

    name: str
    members: tuple[str, ...]
    version: int
    note: str = ""


class PciId(Known, frozen=True, kw_only=True):
    """A PCI device from vendor 1002 (AMD)."""

    IDENTITY = ("device", "revision")

    device: str  # four lowercase hexadecimal digits
    target: str
    products: tuple[str, ...] = ()
    codename: str = ""
    revision: str = ""  # two hexadecimal digits, if the device ID does not determine the target
    kind: Literal["", "card", "apu"] = ""  # set only if it differs from the target's `kind`


class GpuName(Known, frozen=True, kw_only=True):
    """The target for GPUs that Windows identifies only by name."""

    IDENTITY = ("pattern",)
    PATTERNS = ("pattern",)

    title: str
    pattern: str  # regular expression to find in the name without (TM) and (R), case-insensitive
    target: str


class UnsupportedGpu(Known, frozen=True, kw_only=True):
    """A GPU generation that no ROCm release supports, and what its owners can use."""

    IDENTITY = ("pattern",)
    PATTERNS = ("pattern", "device")

    title: str
    pattern: str  # regular expression to find in a name without (TM) and (R), case-insensitive
    device: str  # regular expression that matches a whole PCI device ID
    why: str
    instead: str


class Override(Known, frozen=True, kw_only=True):
    """How HSA_OVERRIDE_GFX_VERSION affects a target.

    `ok` and `caution` are usable, with a note. `block` is known to fail. `reject` means that the target
    needs no override.
    """

    IDENTITY = ("target", "value")
    RANGES = ("rocm",)

    target: str
    runs_as: str  # "*" for any
    value: str  # "10.3.0"; "*" for any
    verdict: Literal["ok", "caution", "block", "reject"]
    note: str
    rocm: str = ""  # PEP 440; affected ROCm releases, including those bundled in wheels


class Alternative(Value, frozen=True, kw_only=True):
    """A ROCm release, a ZLUDA build or both, to use instead of a failing combination; "" for any."""

    rocm: str = ""  # ROCm release or HIP SDK: "6.2.4"
    zluda: str = ""  # ZLUDA build: "3.9.5"


class Verdict(Known, frozen=True, kw_only=True):
    """A combination with a known verdict; unspecified fields match anything.

    A `broken` row excludes a set if all its conditions can be checked; otherwise it becomes a note.
    """

    CONDITIONS: ClassVar = (
        "platform",
        "targets",
        "rocm",
        "zluda",
        "project",
        "flavour",
        "torch",
        "driver",
        "pack",
        "only_if",
    )
    IDENTITY = (*CONDITIONS, "what")
    RANGES = ("rocm", "zluda", "torch", "driver")

    platform: Platform
    verdict: Literal["broken", "workaround", "works"]
    what: str  # what happens, in one sentence
    targets: tuple[str, ...] = ()
    rocm: str = ""  # PEP 440 specifier for ROCm or HIP SDK versions
    zluda: str = ""  # PEP 440 specifier for ZLUDA versions
    project: str = ""  # the ZLUDA build's project
    flavour: tuple[str, ...] = ()  # flavors of the ZLUDA archive
    torch: str = ""
    # PEP 440 specifier for display drivers; the row becomes a note if the driver is unknown.
    driver: str = ""
    pack: Literal["", "none"] = ""  # `none`: only with the SDK's own rocBLAS
    only_if: str = ""  # a further condition that the resolver cannot check
    remedy: str = ""  # text for users
    instead: tuple[Alternative, ...] = ()  # versions that `create` can use instead, best first
    app: str = ""
    code: str = ""  # identifier for `explain`

    @property
    def on_wheels(self) -> bool:
        """Whether it applies to AMD's Windows wheels, which use neither ZLUDA nor a HIP SDK."""
        return bool(self.platform == "windows" and self.torch and not (self.zluda or self.project))

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the row's conditions and its verdict; `broken` and `works` contradict each other."""
        values = (getattr(self, name) for name in self.CONDITIONS)
        about = tuple(value if isinstance(value, str) else ", ".join(value) for value in values)
        yield about, "" if self.verdict == "workaround" else self.verdict

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Verdict | None":
        """Drop this row if a user's row has the same conditions."""
        return None if claimed.intersection(about for about, _ in self.claims()) else self

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report alternatives without a version."""
        for each in self.instead:
            if not (each.rocm or each.zluda):
                yield "`instead` names neither `rocm` nor `zluda`"


class GoodSet(Known, frozen=True, kw_only=True):
    """A set that app developers recommend."""

    IDENTITY = ("platform", "by", "rocm", "zluda", "targets")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("python",)
    RANGES = ("rocm", "zluda", "torch", "driver")

    platform: Platform
    by: str
    rocm: str  # PEP 440 specifiers
    targets: tuple[str, ...] = ()  # () for all targets of the release
    zluda: str = ""
    torch: str = ""
    python: tuple[str, ...] = ()
    driver: str = ""
    note: str = ""


class DriverPair(Known, frozen=True, kw_only=True):
    """Kernel driver series and ROCm releases that were tested together."""

    IDENTITY = ("drivers", "rocm")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("drivers", "rocm")

    drivers: tuple[str, ...]  # driver series: "6.1", as for ROCm, or "30.10" since ROCm 7.0
    rocm: tuple[str, ...]
    rule: str


class DriverTrain(Known, frozen=True, kw_only=True):
    """The ROCm release that an amdgpu package shipped with."""

    IDENTITY = ("amdgpu",)
    VERSIONS = ("amdgpu", "rocm")

    amdgpu: str  # "22.20"
    rocm: str  # "5.2"


class DisplayDriver(Known, frozen=True, kw_only=True):
    """A Windows display driver that rows refer to."""

    IDENTITY = ("version",)
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "file_version")

    version: str  # Adrenalin version: "25.4.1"
    file_version: str = ""  # version in Windows: "32.0.12033.1030"
    note: str = ""


class WslNeeds(Known, frozen=True, kw_only=True):
    """What ROCm releases require for GPU access from WSL 2."""

    IDENTITY = ("rocm",)
    FRESH_DAYS = NEWS_DAYS
    RANGES = ("rocm",)
    VERSIONS = ("driver", "driver_file")

    rocm: str  # ">=7.1,<7.13"
    # Where librocdxg, the runtime's link to the GPU, comes from: included in ROCm, installed separately, or
    # unsupported.
    library: Literal["included", "separate", "none"]
    needs: str  # noun phrase that completes "ROCm 7.1 needs ..."
    switched: bool = False  # needs HSA_ENABLE_DXG_DETECTION=1 to find the GPU
    driver: str = ""  # oldest Windows display driver, in AMD's numbering
    driver_file: str = ""  # the same driver in Windows' numbering
    targets: tuple[str, ...] = ()  # targets that AMD lists for WSL; () if unknown


class Incident(Known, frozen=True, kw_only=True):
    """A documented incident, shown by `explain`."""

    IDENTITY = ("code",)
    FRESH_DAYS = None

    code: str
    title: str
    text: str
    facts: dict[str, str] = msgspec.field(default_factory=dict)


class Fact(Known, frozen=True, kw_only=True):
    """A fact for `explain`."""

    about: str  # "override", "hip-sdk", "pack", "zluda", "torch", "repository" …
    text: str
    key: str = ""


class Variable(Known, frozen=True, kw_only=True):
    """An environment variable that ROCm, ZLUDA or rocenv reads."""

    IDENTITY = ("name", "by")

    name: str
    meaning: str
    by: Literal["rocm", "zluda", "rocenv"]
    value: str = ""  # its default, or the value that envs set
    set_by: str = ""
    fragile: bool = False  # its files do not work in a read-only or network home directory
    folder: str = ""  # the env's folder for its files, relative to the prefix


class EnvRow(Known, frozen=True, kw_only=True):
    """A change that activation makes, with the reason."""

    IDENTITY = ("change", "when", "platform")
    RANGES = ("rocm",)

    change: EnvChange
    # What the set must contain. `rocm`, `torch`, `zluda`: that component; `tree`, `wheels`: ROCm as its own
    # tree, or as wheels; `venv`: any wheels; `guard`: wheels that pip must not replace; `wsl`: ROCm on WSL.
    when: Literal["always", "rocm", "torch", "zluda", "tree", "wheels", "venv", "guard", "wsl"]
    platform: Literal["linux", "windows"] = "linux"
    rocm: str = ""  # PEP 440; ROCm releases that need it; "" for all sets
    reason: str

    @property
    def note(self) -> str:
        """The note about a change that applies only to some machines."""
        return f"{self.change.name}={self.change.value} in the env: {self.reason}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report settings in the value that conflict with each other."""
        for rule in matrix.never_together:
            yield from rule.violations((self.change.name,), self.change.value)


class Watched(Known, frozen=True, kw_only=True):
    """A variable that affects every set; rocenv reports values left over from other installations."""

    IDENTITY = ("name",)

    name: str
    reason: str

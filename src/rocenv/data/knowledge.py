"""Rows about GPUs, and about what works on them and what does not."""

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
    gc_ip: str = ""  # what the kernel driver calls the graphics core; several with commas
    kfd: int = 0  # the kernel's gfx_target_version; 0 = it has none yet
    generic: str = ""  # the generic target whose code runs on it
    family: str = ""  # TheRock's name for its group of builds


class GenericTarget(Known, frozen=True, kw_only=True):
    """A target of which one code object runs on all members."""

    IDENTITY = ("name",)

    name: str
    members: tuple[str, ...]
    version: int
    note: str = ""


class PciId(Known, frozen=True, kw_only=True):
    """A PCI device of vendor 1002."""

    IDENTITY = ("device", "revision")

    device: str  # four lower-case hexadecimal digits
    target: str
    products: tuple[str, ...] = ()
    codename: str = ""
    revision: str = ""  # two hexadecimal digits, where the device id alone does not tell the target
    kind: Literal["", "card", "apu"] = ""  # where it is not what its target mostly is


class GpuName(Known, frozen=True, kw_only=True):
    """The target of GPUs that Windows knows by name only."""

    IDENTITY = ("pattern",)
    PATTERNS = ("pattern",)

    title: str
    pattern: str  # regular expression, searched in the name without (TM) and (R), ignoring case
    target: str


class Override(Known, frozen=True, kw_only=True):
    """What HSA_OVERRIDE_GFX_VERSION does to a target.

    `ok` and `caution` may be used, with a note. `block` is known to go wrong; `reject`: the target needs
    none.
    """

    IDENTITY = ("target", "value")
    RANGES = ("rocm",)

    target: str
    runs_as: str  # "*" = any
    value: str  # "10.3.0"; "*" = any
    verdict: Literal["ok", "caution", "block", "reject"]
    note: str
    rocm: str = ""  # only with these releases, of ROCm or of the one inside a wheel


class Alternative(Value, frozen=True, kw_only=True):
    """A release, a build or both that work where a combination does not; "" = any."""

    rocm: str = ""  # the ROCm release or HIP SDK, "6.2.4"
    zluda: str = ""  # the ZLUDA build, "3.9.5"


class Verdict(Known, frozen=True, kw_only=True):
    """A combination with a known verdict; what is not named may be anything.

    `broken` rows whose every condition can be checked drop a set; the others become notes.
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
    what: str  # what happens, one sentence
    targets: tuple[str, ...] = ()
    rocm: str = ""  # PEP 440 specifier on the ROCm release or HIP SDK
    zluda: str = ""  # … on the ZLUDA build
    project: str = ""  # the ZLUDA project
    flavour: tuple[str, ...] = ()  # of the ZLUDA archive
    torch: str = ""
    # … on the display driver; of a machine whose driver is not known it holds that it may not be so
    driver: str = ""
    pack: Literal["", "none"] = ""  # `none`: with the SDK's own rocBLAS
    only_if: str = ""  # a further condition that no resolver can check
    remedy: str = ""  # for people
    instead: tuple[Alternative, ...] = ()  # the same for `create`, the best first
    app: str = ""
    code: str = ""  # how `explain` finds it

    @property
    def on_wheels(self) -> bool:
        """Whether it is about AMD's wheels for Windows: only under ZLUDA does PyTorch go with a HIP SDK."""
        return bool(self.platform == "windows" and self.torch and not (self.zluda or self.project))

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what it says of its conditions: `broken` and `works` contradict each other."""
        values = (getattr(self, name) for name in self.CONDITIONS)
        about = tuple(value if isinstance(value, str) else ", ".join(value) for value in values)
        yield about, "" if self.verdict == "workaround" else self.verdict

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Verdict | None":
        """Drop the row if a row of the user's has the same conditions, whatever it says."""
        return None if claimed.intersection(about for about, _ in self.claims()) else self

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield alternatives that `create` could not be given."""
        for each in self.instead:
            if not (each.rocm or each.zluda):
                yield "`instead` names neither `rocm` nor `zluda`"


class GoodSet(Known, frozen=True, kw_only=True):
    """A set that people who make the apps name."""

    IDENTITY = ("platform", "by", "rocm", "zluda", "targets")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("python",)
    RANGES = ("rocm", "zluda", "torch", "driver")

    platform: Platform
    by: str
    rocm: str  # PEP 440 specifiers
    targets: tuple[str, ...] = ()  # () = all that the release supports
    zluda: str = ""
    torch: str = ""
    python: tuple[str, ...] = ()
    driver: str = ""
    note: str = ""


class DriverPair(Known, frozen=True, kw_only=True):
    """Kernel drivers and ROCm releases that were tested with each other."""

    IDENTITY = ("drivers", "rocm")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("drivers", "rocm")

    drivers: tuple[str, ...]  # series of the kernel driver, by the ROCm it came with: "6.1", "30.10"
    rocm: tuple[str, ...]
    rule: str


class DriverTrain(Known, frozen=True, kw_only=True):
    """Which ROCm an amdgpu package belongs to."""

    IDENTITY = ("amdgpu",)
    VERSIONS = ("amdgpu", "rocm")

    amdgpu: str  # "22.20"
    rocm: str  # "5.2"


class DisplayDriver(Known, frozen=True, kw_only=True):
    """A display driver for Windows that rows name."""

    IDENTITY = ("version",)
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "file_version")

    version: str  # of the Adrenalin package, "25.4.1"
    file_version: str = ""  # what Windows calls it, "32.0.12033.1030"
    note: str = ""


class WslNeeds(Known, frozen=True, kw_only=True):
    """What the ROCm of some releases needs to reach the GPU from WSL 2."""

    IDENTITY = ("rocm",)
    FRESH_DAYS = NEWS_DAYS
    RANGES = ("rocm",)
    VERSIONS = ("driver", "driver_file")

    rocm: str  # ">=7.1,<7.13"
    # Where librocdxg comes from, through which the runtime reaches the GPU: with ROCm, from elsewhere, or
    # nowhere, as the runtime does not know it.
    library: Literal["included", "separate", "none"]
    needs: str  # as an object: "ROCm 7.1 needs ..."
    switched: bool = False  # it looks for the GPU only where HSA_ENABLE_DXG_DETECTION is 1
    driver: str = ""  # the oldest display driver of Windows, as AMD counts
    driver_file: str = ""  # what Windows calls it


class Incident(Known, frozen=True, kw_only=True):
    """A report that taught something."""

    IDENTITY = ("code",)
    FRESH_DAYS = None

    code: str
    title: str
    text: str
    facts: dict[str, str] = msgspec.field(default_factory=dict)


class Fact(Known, frozen=True, kw_only=True):
    """Something to know about a subject."""

    about: str  # "override", "hip-sdk", "pack", "zluda", "torch", "repository" …
    text: str
    key: str = ""


class Variable(Known, frozen=True, kw_only=True):
    """An environment variable that matters."""

    IDENTITY = ("name", "by")

    name: str
    meaning: str
    by: Literal["rocm", "zluda"]
    value: str = ""  # its default, or what it is set to
    set_by: str = ""
    fragile: bool = False  # its files break on a network home or a read-only one
    folder: str = ""  # below the env, where it can be put


class EnvRow(Known, frozen=True, kw_only=True):
    """One change that activation makes, and why."""

    IDENTITY = ("change", "when", "platform")
    RANGES = ("rocm",)

    change: EnvChange
    # A kind of component; `tree` and `wheels`: ROCm as a tree of its own, or as wheels; `venv`: any wheels;
    # `guard`: wheels that other programs must not replace; `wsl`: ROCm on that machine.
    when: Literal["always", "rocm", "torch", "zluda", "tree", "wheels", "venv", "guard", "wsl"]
    platform: Literal["linux", "windows"] = "linux"
    rocm: str = ""  # the releases that need it; "" = all sets
    reason: str

    @property
    def note(self) -> str:
        """What to say where only some machines get the change."""
        return f"{self.change.name}={self.change.value} in the env: {self.reason}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield settings that must never meet."""
        for rule in matrix.never_together:
            yield from rule.violations((self.change.name,), self.change.value)


class Watched(Known, frozen=True, kw_only=True):
    """A variable that acts on every set, so that a value left from another installation is reported."""

    IDENTITY = ("name",)

    name: str
    reason: str

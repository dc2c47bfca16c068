"""Rows about what goes together and what does not, and what else is worth telling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocenv.data.known import Known
from rocenv.data.releases import Platform  # noqa: TC001 - the reader needs the type at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Override(Known):
    """What HSA_OVERRIDE_GFX_VERSION does to a target. Table `override`.

    `ok` and `caution` may be used, with a note. `block` is known to go wrong; `reject`: the target needs
    none.
    """

    target: str
    runs_as: str  # "*" = any
    value: str  # "10.3.0"; "*" = any
    verdict: Literal["ok", "caution", "block", "reject"]
    note: str
    rocm: str = ""  # only with these releases, of ROCm or of the one inside a wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A release, a build or both that work where a combination does not; "" = any."""

    rocm: str = ""  # the ROCm release or HIP SDK, "6.2.4"
    zluda: str = ""  # the ZLUDA build, "3.9.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Known):
    """A combination with a known verdict; what is not named may be anything. Table `verdict`.

    `broken` rows whose every condition can be checked drop a set; the others become notes.
    """

    platform: Platform
    verdict: Literal["broken", "workaround", "works"]
    what: str  # what happens, one sentence
    targets: tuple[str, ...] = ()
    rocm: str = ""  # PEP 440 specifier on the ROCm release or HIP SDK
    zluda: str = ""  # … on the ZLUDA build
    project: str = ""  # the ZLUDA project
    flavour: tuple[str, ...] = ()  # of the ZLUDA archive
    torch: str = ""
    driver: str = (
        ""  # … on the display driver; of a machine whose driver is not known it holds that it may not be so
    )
    pack: Literal["", "none"] = ""  # `none`: with the SDK's own rocBLAS
    only_if: str = ""  # a further condition that no resolver can check
    remedy: str = ""  # for people
    instead: tuple[Alternative, ...] = ()  # the same for `create`, the best first
    app: str = ""
    code: str = ""  # how `explain` finds it


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodSet(Known):
    """A set that people who make the apps name. Table `good_set`."""

    platform: Platform
    by: str
    rocm: str  # PEP 440 specifiers
    targets: tuple[str, ...] = ()  # () = all that the release supports
    zluda: str = ""
    torch: str = ""
    python: tuple[str, ...] = ()
    driver: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPair(Known):
    """Kernel drivers and ROCm releases that were tested with each other. Table `driver_pair`."""

    drivers: tuple[str, ...]  # series of the kernel driver, by the ROCm it came with: "6.1", "30.10"
    rocm: tuple[str, ...]
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTrain(Known):
    """Which ROCm an amdgpu package belongs to. Table `driver_train`."""

    amdgpu: str  # "22.20"
    rocm: str  # "5.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayDriver(Known):
    """A display driver for Windows that rows name. Table `display_driver`."""

    version: str  # of the Adrenalin package, "25.4.1"
    file_version: str = ""  # what Windows calls it, "32.0.12033.1030"
    note: str = ""


TABLES: dict[str, type[Known]] = {
    "override": Override,
    "verdict": Verdict,
    "good_set": GoodSet,
    "driver_pair": DriverPair,
    "driver_train": DriverTrain,
    "display_driver": DisplayDriver,
}

"""Row classes for Windows: AMD's HIP SDK, builds of ZLUDA, and library packs for the SDK."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import ShimFile, Value, series
from rocenv.data.known import NEWS_DAYS, Known, Platform

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class HipSdk(Known, frozen=True, kw_only=True):
    """A candidate: AMD's HIP SDK for Windows."""

    IDENTITY = ("version",)
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version",)
    provided_by = "windows"

    version: str
    installer: str
    url: str
    os: str
    install_dir: str
    variables: tuple[str, ...]
    runtime: tuple[str, ...] = ()  # DLL names; () if unknown
    comgr: tuple[str, ...] = ()
    hiprtc: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    not_included: tuple[str, ...] = ()
    server_installer: str = ""
    note: str = ""


class InstallerNote(Known, frozen=True, kw_only=True):
    """A note for users who run the HIP SDK's installer themselves."""

    IDENTITY = ("text",)

    order: int
    text: str


class Asset(Value, frozen=True, kw_only=True):
    """An archive of a ZLUDA build."""

    name: str
    rocm: tuple[str, ...] = ()  # HIP SDK series: "6.2", or "6" for every 6.x; () if none
    # Other HIP SDK series -> targets that are reported to work with it.
    also: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    flavour: Literal["plain", "rocm5", "rocm6", "nightly"] = "plain"
    platform: Platform = "windows"
    sha256: str = ""
    size_bytes: int = 0


class ZludaBuild(Known, frozen=True, kw_only=True):
    """One ZLUDA build; each of its Windows archives is a candidate."""

    IDENTITY = ("project", "version")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version",)
    RANGES = ("driver",)
    provided_by = "windows"

    project: Literal["lshqqytiger", "vosen"]
    version: str
    tag: str
    commit: str
    assets: tuple[Asset, ...]
    url: str = ""  # `{tag}` and `{asset}` are placeholders
    title: str = ""  # its name, if different from the version
    date: str = ""
    preferred: bool = False  # the build that app developers currently use
    driver: str = ""  # compatible display drivers, PEP 440
    built_against: str = ""
    files: tuple[str, ...] = ()
    files_note: str = ""
    nightly_files: tuple[str, ...] = ()
    nightly_note: str = ""
    cuda: str = ""  # CUDA version that it reports
    capability: str = ""
    default_in: str = ""
    caveats: str = ""

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield unknown HIP SDKs."""
        known = _sdk_series(matrix)
        for asset in self.assets:
            for name in (*asset.rocm, *asset.also):
                if name not in known and name not in {each.partition(".")[0] for each in known}:
                    yield f"`assets`: unknown HIP SDK `{name}`"


class Pack(Known, frozen=True, kw_only=True):
    """A pack of rocBLAS or hipBLASLt libraries for targets that a HIP SDK does not include."""

    IDENTITY = ("provider", "rocm", "asset", "targets")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("rocm",)
    provided_by = "windows"

    provider: str
    rocm: tuple[str, ...]  # HIP SDK versions
    asset: str  # "" if unknown
    targets: tuple[str, ...]  # in the provider's spelling, with features such as :xnack-
    kind: Literal["rocblas", "hipblaslt"] = "rocblas"
    absent: bool = False  # the pack is known not to exist
    proven: bool = False  # reported to work in a set
    tag: str = ""
    url: str = ""
    sha256: str = ""
    inner_folder: str = ""
    note: str = ""

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield unknown HIP SDKs."""
        for version in self.rocm:
            if series(version) not in _sdk_series(matrix):
                yield f"`rocm`: unknown HIP SDK `{version}`"


class PackPlace(Known, frozen=True, kw_only=True):
    """Where a library pack's file or folder belongs in a HIP SDK."""

    IDENTITY = ("kind", "member")

    kind: Literal["rocblas", "hipblaslt"]
    member: str  # file, or folder such as `library/`, at any depth in the archive
    place: str


class ShimMap(Known, frozen=True, kw_only=True):
    """The CUDA files that a ZLUDA build replaces."""

    IDENTITY = ("project", "zluda", "cuda")
    RANGES = ("zluda",)

    project: Literal["lshqqytiger", "vosen"]
    zluda: str  # PEP 440 specifier for the build
    cuda: str  # torch's CUDA version: "11.8"
    driver: tuple[str, ...]  # files loaded first under their own names, starting with the driver API
    behind: tuple[str, ...]  # HIP SDK libraries that `files` depend on, loaded before them
    files: tuple[ShimFile, ...]  # in load order, cuBLAS first
    first_run_s: int  # maximum time for compiling kernels on first use
    original: str = ""  # torch file that the build still uses
    note: str = ""


class TorchSwitch(Known, frozen=True, kw_only=True):
    """A torch setting that ZLUDA needs."""

    IDENTITY = ("name",)

    name: str
    how: Literal["set", "call", "disable"]
    value: bool = False
    reason: str


def _sdk_series(matrix: "Matrix") -> set[str]:
    return {series(row.version) for row in matrix.hip_sdk}

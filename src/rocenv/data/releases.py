"""Rows about what can be installed: ROCm sets, HIP SDKs, ZLUDA builds, library packs, torch wheels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rocenv.core.model import Layout  # noqa: TC001 - the reader needs the type at run time
from rocenv.data.known import Known

Platform = Literal["linux", "windows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Known):
    """A ROCm release and the versions of its parts. Table `release`."""

    version: str
    channel: str  # where it is published: "repo.radeon.com", "TheRock"
    parts: dict[str, str] = field(default_factory=dict)  # hip, rocblas, miopen … -> version
    deb_build: str = ""
    apt_dir: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmSet(Known):
    """One ROCm release from one channel of Linux packages: a candidate. Table `rocm`."""

    provided_by: ClassVar[str] = "apt"

    version: str
    channel: str
    packages: tuple[str, ...]  # what is asked for; their dependencies follow
    layout: Layout
    compiles: tuple[str, ...]  # targets that its run-time compiler knows
    blas: tuple[str, ...]  # targets that its rocBLAS has kernels for
    official: tuple[str, ...] = ()  # targets that its maker supports
    floating: bool = False  # the channel moves on: the exact version is read from its index
    glibc: str = ""  # the oldest C library it runs with, where its packages do not say it; "2.35"
    version_package: str = ""  # the package whose version is the set's, where it floats
    apt_dir: str = ""
    suite: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support(Known):
    """What a release does for targets. Table `support`.

    `official`: its maker supports them. `deprecated`: still, but not for long. `libraries`: its libraries
    are built for them, without a promise. `runtime`: programs run, but its libraries have no kernels.
    `unsupported`: said not to be.
    """

    platform: Platform
    rocm: str  # series, "6.2"
    level: Literal["official", "deprecated", "libraries", "runtime", "unsupported"]
    targets: tuple[str, ...]
    channel: str = ""  # "" = AMD's releases, "therock"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels(Known):
    """Targets that a release's rocBLAS is built for, or was found to hold. Table `kernels`."""

    rocm: str
    kind: Literal["source", "shipped"]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemKernel(Known):
    """Kernels that a release was tested on. Table `system_kernel`."""

    rocm: str
    os: str
    kernels: tuple[str, ...]
    backports: bool = False  # newer drivers are put into it: its number says less than it can do


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSet(Known):
    """One torch release built for one ROCm, or for the CUDA that ZLUDA stands in for. Table `torch`."""

    provided_by: ClassVar[str] = "wheels"

    version: str
    index: str
    python: tuple[str, ...]
    rocm: str = ""  # the ROCm it is built for
    cuda: str = ""  # or the CUDA: "11.8"
    targets: tuple[str, ...] = ()  # with BLAS kernels
    compiled: tuple[str, ...] = ()  # with kernels of its own, whether or not its BLAS has some; () = the same
    companions: dict[str, str] = field(
        default_factory=dict
    )  # torchvision, torchaudio, numpy … -> version that fits
    zluda: str = ""  # builds that it is named together with by who makes the apps
    triton: str = ""
    glibc: str = ""  # the oldest C library its wheels run with
    released: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmWheels(Known):
    """A ROCm release for Windows or Linux as Python wheels: a candidate. Table `rocm_wheels`."""

    provided_by: ClassVar[str] = "rocm_wheels"

    version: str
    channel: str
    index: str  # `{target}` and `{family}` may be filled in
    platforms: tuple[Platform, ...]
    targets: tuple[str, ...]
    python: tuple[str, ...]
    official: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()  # releases known to be there; () = not known which
    driver: str = ""  # display drivers it needs
    nightly: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HipSdk(Known):
    """AMD's HIP SDK for Windows: a candidate. Table `hip_sdk`."""

    provided_by: ClassVar[str] = "windows"

    version: str
    installer: str
    url: str
    os: str
    install_dir: str
    variables: tuple[str, ...]
    runtime: tuple[str, ...] = ()  # DLL names; () = not known
    comgr: tuple[str, ...] = ()
    hiprtc: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    not_included: tuple[str, ...] = ()
    server_installer: str = ""
    msi_path: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerNote(Known):
    """What to know before running the HIP SDK's installer by hand. Table `installer_note`."""

    order: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One archive of a ZLUDA build."""

    name: str
    rocm: tuple[str, ...] = ()  # series that it is for, "6.2", or "6" for all of them; () = it serves none
    # Further series with which it is reported to work, for some targets only.
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    flavour: Literal["plain", "rocm5", "rocm6", "nightly"] = "plain"
    platform: Platform = "windows"
    sha256: str = ""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZludaBuild(Known):
    """One build of ZLUDA; each of its archives for Windows is a candidate. Table `zluda`."""

    provided_by: ClassVar[str] = "windows"

    project: Literal["lshqqytiger", "vosen"]
    version: str
    tag: str
    commit: str
    assets: tuple[Asset, ...]
    url: str = ""  # `{tag}` and `{asset}` are filled in
    title: str = ""  # how it calls itself, where that is no version
    date: str = ""
    preferred: bool = False  # what the apps' makers take today
    driver: str = ""  # display drivers that it works with
    built_against: str = ""
    files: tuple[str, ...] = ()
    files_note: str = ""
    nightly_files: tuple[str, ...] = ()
    nightly_note: str = ""
    cuda: str = ""  # what it reports
    capability: str = ""
    default_in: str = ""
    caveats: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack(Known):
    """A pack of rocBLAS or hipBLASLt libraries for targets that a HIP SDK has none for. Table `pack`."""

    provided_by: ClassVar[str] = "windows"

    provider: str
    rocm: tuple[str, ...]  # versions of the HIP SDK
    asset: str  # "" = its name is not known
    targets: tuple[str, ...]  # features like :xnack- as the provider writes them
    kind: Literal["rocblas", "hipblaslt"] = "rocblas"
    absent: bool = False  # known not to exist
    proven: bool = False  # a set with it is reported to work
    tag: str = ""
    url: str = ""
    sha256: str = ""
    inner_folder: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlace(Known):
    """Where a part of a library pack belongs in the tree of a HIP SDK. Table `pack_place`."""

    kind: Literal["rocblas", "hipblaslt"]
    member: str  # a file, or a folder as `library/`, wherever in the archive it lies
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Known):
    """An address that packages or wheels come from. Table `index`."""

    name: str
    url: str
    platforms: tuple[Platform, ...]
    targets: tuple[str, ...] = ()
    note: str = ""


TABLES: dict[str, type[Known]] = {
    "release": Release,
    "rocm": RocmSet,
    "support": Support,
    "kernels": Kernels,
    "system_kernel": SystemKernel,
    "torch": TorchSet,
    "rocm_wheels": RocmWheels,
    "hip_sdk": HipSdk,
    "installer_note": InstallerNote,
    "zluda": ZludaBuild,
    "pack": Pack,
    "pack_place": PackPlace,
    "index": Index,
}

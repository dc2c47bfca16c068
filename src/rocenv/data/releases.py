"""Row classes for installable software, and the repositories and channels that provide it."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import Layout, ShimFile, Value, series
from rocenv.data.known import NEWS_DAYS, Known, Platform

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Repo(Known, frozen=True, kw_only=True):
    """An apt repository.

    `base` is a URL, or `debian:` or `host:` for this machine's own apt sources; the set that uses it can
    fill in `{apt_dir}` and `suite`.
    """

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS

    name: str
    base: str
    suite: str = ""  # "" if the set specifies it, or for the system's own release (`host:`)
    components: tuple[str, ...] = ("main",)
    keyrings: tuple[str, ...] = ()  # local paths; missing files are ignored
    key_url: str = ""  # where to get the key if no keyring exists; requires `fingerprints`
    fingerprints: tuple[str, ...] = ()  # the only trusted keys, in uppercase; () for all keys in the keyrings
    max_age_days: int = 0  # maximum age of a rolling suite's index; 0 for no limit
    suites_known: tuple[str, ...] = ()  # releases and aliases that identify a mirror of this repository

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report missing or malformed signing keys."""
        if not (self.fingerprints if self.key_url else self.keyrings):
            yield "set `keyrings`, or `key_url` and `fingerprints`, to the keys to trust"
        for fingerprint in self.fingerprints:
            if not re.fullmatch("[0-9A-F]{40,64}", fingerprint):
                yield f"`fingerprints`: `{fingerprint}` must be 40 uppercase hexadecimal digits"


class Channel(Known, frozen=True, kw_only=True):
    """A publisher of sets, and the repositories that provide them."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("repos", "repo"),)

    name: str
    title: str
    by: Literal["maker", "distribution"]
    repos: tuple[str, ...] = ()  # package repositories, best first; () for wheels, whose rows name an index
    only_named: bool = False  # opt-in: used only if the user requests the channel


class KeepOut(Known, frozen=True, kw_only=True):
    """Packages that prefixes never need."""

    pattern: str
    reason: str


class CLibrary(Known, frozen=True, kw_only=True):
    """A C library's package, and its dynamic loader."""

    package: str
    loader: str
    files: tuple[str, ...]  # libraries to take from the system if the system's C library is used


class Release(Known, frozen=True, kw_only=True):
    """A ROCm release and the versions of its parts."""

    IDENTITY = ("version", "channel")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version",)

    version: str
    channel: str  # where it is published: "repo.radeon.com", "TheRock"
    parts: dict[str, str] = msgspec.field(default_factory=dict)  # hip, rocblas, miopen … -> version
    apt_dir: str = ""
    note: str = ""


class RocmSet(Known, frozen=True, kw_only=True):
    """A candidate: one ROCm release in one channel for Linux packages.

    Distributions mix parts from several point releases, so the version is a series ("6.4") rather than one of
    its releases.
    """

    IDENTITY = ("version", "channel")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "glibc")
    NOT_EMPTY = ("packages",)
    REFERS = (("channel", "channel"),)
    provided_by = "apt"

    version: str
    channel: str
    packages: tuple[str, ...]  # packages to install; rocenv adds their dependencies
    layout: Layout
    compiles: tuple[str, ...]  # targets that its runtime compiler supports
    blas: tuple[str, ...]  # targets with kernels in its rocBLAS
    official: tuple[str, ...] = ()  # targets with official support
    glibc: str = ""  # oldest C library that it runs with, unless its packages declare it: "2.35"
    apt_dir: str = ""
    suite: str = ""
    note: str = ""

    @property
    def is_mixed(self) -> bool:
        """Whether it covers a series rather than one release."""
        return self.version == series(self.version)


class Support(Known, frozen=True, kw_only=True):
    """How AMD's packages and SDKs support targets; wheels have their own fields (`RocmWheels`).

    `official`: supported by the vendor. `deprecated`: supported, but about to be dropped. `libraries`: not
    supported, but the libraries have kernels. `runtime`: programs run, but the libraries have no kernels.
    `unsupported`: documented as unsupported.
    """

    IDENTITY = ("platform", "rocm", "level", "source", "status")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("rocm",)

    platform: Platform
    rocm: str  # series: "6.2"
    level: Literal["official", "deprecated", "libraries", "runtime", "unsupported"]
    targets: tuple[str, ...]
    note: str = ""

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each target's level."""
        for target in self.targets:
            yield (self.platform, self.rocm, target), self.level

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Support | None":
        """Remove the targets that the user's rows cover."""
        about = (self.platform, self.rocm)
        targets = tuple(target for target in self.targets if (*about, target) not in claimed)
        return msgspec.structs.replace(self, targets=targets) if targets else None


class Kernels(Known, frozen=True, kw_only=True):
    """The targets that a release's rocBLAS supports, according to its source or its shipped files."""

    IDENTITY = ("rocm", "kind")

    rocm: str
    kind: Literal["source", "shipped"]
    targets: tuple[str, ...]


class SystemKernel(Known, frozen=True, kw_only=True):
    """Linux kernels that a release was tested with."""

    IDENTITY = ("rocm", "os")
    VERSIONS = ("rocm",)

    rocm: str
    os: str
    kernels: tuple[str, ...]
    backports: bool = False  # the vendor backports drivers, so older kernels support newer GPUs


class TorchSet(Known, frozen=True, kw_only=True):
    """A torch release built for one ROCm release, or for a CUDA version that ZLUDA implements."""

    IDENTITY = ("version", "rocm", "cuda", "channel")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "rocm", "cuda", "python", "glibc")
    RANGES = ("zluda",)
    REFERS = (("channel", "channel"),)
    provided_by = "wheels"

    version: str
    index: str
    python: tuple[str, ...]
    rocm: str = ""  # the ROCm release that it is built for
    cuda: str = ""  # the CUDA version that it is built for: "11.8"
    channel: str = ""  # the channel with the ROCm wheels that it requires; "" if it bundles ROCm
    targets: tuple[str, ...] = ()  # targets with BLAS kernels
    # Targets with torch's own kernels, even without BLAS kernels; () if the same as `targets`.
    compiled: tuple[str, ...] = ()
    # Matching torchvision, torchaudio and numpy versions …
    companions: dict[str, str] = msgspec.field(default_factory=dict)
    # Project -> package with its kernels for `{target}`; one of the project's extras installs it.
    kernels: dict[str, str] = msgspec.field(default_factory=dict)
    zluda: str = ""  # ZLUDA builds that app developers combine it with
    triton: str = ""
    glibc: str = ""  # oldest C library that its wheels run with
    released: bool = True

    @property
    def build(self) -> str:
        """The version, including its local part: `2.5.1+rocm6.2`, `2.5.1+cu118`."""
        local = f"rocm{self.rocm}" if self.rocm else f"cu{self.cuda.replace('.', '')}"
        return f"{self.version}+{local}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report an error unless exactly one of `rocm` and `cuda` is set and all required `kernels` exist."""
        if bool(self.rocm) == bool(self.cuda):
            yield "exactly one of `rocm` and `cuda` must be set"
        rows = (row for row in matrix.rocm_wheels if (row.version, row.channel) == (self.rocm, self.channel))
        if not self.kernels and any("{target}" in name for row in rows for name in row.packages):
            yield "`kernels` is missing, but this ROCm release has one package per GPU"


class RocmWheels(Known, frozen=True, kw_only=True):
    """A candidate: a ROCm release as Python wheels for one platform."""

    IDENTITY = ("version", "channel", "platform")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "python", "glibc")
    RANGES = ("driver",)
    NOT_EMPTY = ("targets", "python")
    REFERS = (("channel", "channel"),)
    provided_by = "rocm_wheels"

    version: str
    channel: str
    index: str
    platform: Platform
    packages: tuple[str, ...]  # projects; `{target}` is replaced by each target; () if torch bundles ROCm
    targets: tuple[str, ...]  # targets that it is built for
    layout: Layout  # relative to the venv's site-packages
    python: tuple[str, ...]
    official: tuple[str, ...] = ()  # targets that AMD supports; unknown if `ready` is also empty
    ready: tuple[str, ...] = ()  # targets that its builders mark as release-ready
    devel: tuple[str, ...] = ()  # projects with compilers and headers for `--dev`; () if always included
    devel_root: str = ""  # ROCM_PATH if `devel` is installed
    flat: bool = False  # the index is a single page with all files
    floating: bool = False  # rolling channel; the index determines the exact version
    driver: str = ""  # required display drivers
    glibc: str = ""  # oldest C library that it runs with
    loader: str = ""  # the dynamic loader's name, if it includes its own C library
    note: str = ""

    @property
    def blas(self) -> tuple[str, ...]:
        """Targets with kernels in its rocBLAS."""
        return self.targets

    @property
    def compiles(self) -> tuple[str, ...]:
        """Targets that its runtime compiler supports."""
        return self.targets

    @property
    def has_lists(self) -> bool:
        """Whether AMD's lists of supported targets are known."""
        return bool(self.official or self.ready)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report supported targets that are missing from `targets`."""
        for target in {*self.official, *self.ready} - set(self.targets):
            yield f"`targets`: `{target}` is listed as supported, but missing here"


class FileHash(Known, frozen=True, kw_only=True):
    """The hash of a file, for indexes that do not publish hashes."""

    IDENTITY = ("index", "file")
    FRESH_DAYS = None

    index: str
    file: str
    sha256: str

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield an error unless it is a SHA-256 hash."""
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            yield "`sha256` must be 64 lowercase hexadecimal digits"


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


class Index(Known, frozen=True, kw_only=True):
    """A URL that provides packages or wheels."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS

    name: str
    url: str
    platforms: tuple[Platform, ...]
    published_at: tuple[str, ...] = ()  # other URLs for its files: "https://host/path/", "*.domain/path/"
    targets: tuple[str, ...] = ()
    note: str = ""


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

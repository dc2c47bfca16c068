"""Row classes for ROCm and PyTorch releases, and the repositories and channels that provide them."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import Layout, series
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

    Distributions mix parts from several point releases, so the version of their sets is a series ("6.4").
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
        """Yield an error unless `sha256` is a valid hash."""
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            yield "`sha256` must be 64 lowercase hexadecimal digits"


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

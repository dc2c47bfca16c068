"""Rows about what can be installed, and the repositories and channels that it comes from."""

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

    `base` is an address, or `debian:` or `host:` for what the machine's own apt is set up with; `{apt_dir}`
    and the `suite` may be filled in by the set that uses it.
    """

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS

    name: str
    base: str
    suite: str = ""  # "" = the set names it, or for `host:` the machine's own release
    components: tuple[str, ...] = ("main",)
    keyrings: tuple[str, ...] = ()  # paths on the machine; those that are there count
    key_url: str = ""  # where the key is fetched where there is no keyring; needs fingerprints
    fingerprints: tuple[str, ...] = ()  # of the only keys to trust, in capitals; () = all of the keyrings
    max_age_days: int = 0  # of the index of a rolling suite; 0 = an old index may be the newest there is
    suites_known: tuple[str, ...] = ()  # releases, or names for one, by which a mirror is recognised

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield what leaves its packages without a trusted key."""
        if not (self.fingerprints if self.key_url else self.keyrings):
            yield "`keyrings`, or `key_url` with `fingerprints`, must name the keys to trust"
        for fingerprint in self.fingerprints:
            if not re.fullmatch("[0-9A-F]{40,64}", fingerprint):
                yield f"`fingerprints`: `{fingerprint}` must be 40 hexadecimal digits in capitals"


class Channel(Known, frozen=True, kw_only=True):
    """Who builds a set, and from which repositories it is put together."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("repos", "repo"),)

    name: str
    title: str
    by: Literal["maker", "distribution"]
    repos: tuple[str, ...] = ()  # of packages, the preferred one first; () = wheels, whose rows name an index
    only_named: bool = False  # its sets are only for who asks for the channel by its name


class KeepOut(Known, frozen=True, kw_only=True):
    """Packages that a prefix has no use for."""

    pattern: str
    reason: str


class CLibrary(Known, frozen=True, kw_only=True):
    """The packages that make up the C library, and the program loader they bring."""

    package: str
    loader: str
    files: tuple[str, ...]  # library names that come from the machine where its own C library is used


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
    """One ROCm release from one channel of Linux packages: a candidate.

    A distribution puts parts of several point releases together, so its version is a series ("6.4"), which
    is none of that series' releases.
    """

    IDENTITY = ("version", "channel")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "glibc")
    NOT_EMPTY = ("packages",)
    REFERS = (("channel", "channel"),)
    provided_by = "apt"

    version: str
    channel: str
    packages: tuple[str, ...]  # what is asked for; their dependencies follow
    layout: Layout
    compiles: tuple[str, ...]  # targets that its run-time compiler knows
    blas: tuple[str, ...]  # targets that its rocBLAS has kernels for
    official: tuple[str, ...] = ()  # targets that its maker supports
    glibc: str = ""  # the oldest C library it runs with, where its packages do not say it; "2.35"
    apt_dir: str = ""
    suite: str = ""
    note: str = ""

    @property
    def is_mixed(self) -> bool:
        """Whether it is of a series rather than one release."""
        return self.version == series(self.version)


class Support(Known, frozen=True, kw_only=True):
    """What AMD's packages and SDKs of a release do for targets; wheels say it themselves (`RocmWheels`).

    `official`: its maker supports them. `deprecated`: still, but not for long. `libraries`: its libraries
    are built for them, without a promise. `runtime`: programs run, but its libraries have no kernels.
    `unsupported`: said not to be.
    """

    IDENTITY = ("platform", "rocm", "level", "source", "status")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("rocm",)

    platform: Platform
    rocm: str  # series, "6.2"
    level: Literal["official", "deprecated", "libraries", "runtime", "unsupported"]
    targets: tuple[str, ...]
    note: str = ""

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the level of each target."""
        for target in self.targets:
            yield (self.platform, self.rocm, target), self.level

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Support | None":
        """Leave the targets out that the user's rows are about."""
        about = (self.platform, self.rocm)
        targets = tuple(target for target in self.targets if (*about, target) not in claimed)
        return msgspec.structs.replace(self, targets=targets) if targets else None


class Kernels(Known, frozen=True, kw_only=True):
    """Targets that a release's rocBLAS is built for, or was found to hold."""

    IDENTITY = ("rocm", "kind")

    rocm: str
    kind: Literal["source", "shipped"]
    targets: tuple[str, ...]


class SystemKernel(Known, frozen=True, kw_only=True):
    """Kernels that a release was tested on."""

    IDENTITY = ("rocm", "os")
    VERSIONS = ("rocm",)

    rocm: str
    os: str
    kernels: tuple[str, ...]
    backports: bool = False  # newer drivers are put into it: its number says less than it can do


class TorchSet(Known, frozen=True, kw_only=True):
    """One torch release built for one ROCm, or for the CUDA that ZLUDA stands in for."""

    IDENTITY = ("version", "rocm", "cuda", "channel")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("version", "rocm", "cuda", "python", "glibc")
    RANGES = ("zluda",)
    REFERS = (("channel", "channel"),)
    provided_by = "wheels"

    version: str
    index: str
    python: tuple[str, ...]
    rocm: str = ""  # the ROCm it is built for
    cuda: str = ""  # or the CUDA: "11.8"
    channel: str = ""  # of the ROCm wheels whose libraries it uses; "" = it brings its own
    targets: tuple[str, ...] = ()  # with BLAS kernels
    compiled: tuple[str, ...] = ()  # with kernels of its own, whether or not its BLAS has some; () = the same
    # torchvision, torchaudio, numpy … -> the version that fits
    companions: dict[str, str] = msgspec.field(default_factory=dict)
    # Project -> the package with its kernels for `{target}`, which an extra of the project brings
    kernels: dict[str, str] = msgspec.field(default_factory=dict)
    zluda: str = ""  # builds that it is named together with by who makes the apps
    triton: str = ""
    glibc: str = ""  # the oldest C library its wheels run with
    released: bool = True

    @property
    def build(self) -> str:
        """The version with the local part that says what it is built for: `2.5.1+rocm6.2`, `2.5.1+cu118`."""
        local = f"rocm{self.rocm}" if self.rocm else f"cu{self.cuda.replace('.', '')}"
        return f"{self.version}+{local}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield a complaint unless it is built for either ROCm or CUDA, with kernels for GPUs."""
        if bool(self.rocm) == bool(self.cuda):
            yield "exactly one of `rocm` and `cuda` must be set"
        rows = (row for row in matrix.rocm_wheels if (row.version, row.channel) == (self.rocm, self.channel))
        if not self.kernels and any("{target}" in name for row in rows for name in row.packages):
            yield "`kernels` is missing, although that ROCm has packages for each GPU"


class RocmWheels(Known, frozen=True, kw_only=True):
    """A ROCm release as Python wheels for one platform: a candidate."""

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
    packages: tuple[str, ...]  # projects, in which `{target}` stands for each target; () = torch brings all
    targets: tuple[str, ...]  # that it is built for
    layout: Layout  # below the folder of packages of the venv
    python: tuple[str, ...]
    official: tuple[str, ...] = ()  # targets that AMD supports; without both lists nobody has read them
    ready: tuple[str, ...] = ()  # targets for which its builders call it ready for release
    devel: tuple[str, ...] = ()  # projects with compilers and headers, for `--dev`; () = not apart
    devel_root: str = ""  # what ROCM_PATH points to once they are installed
    flat: bool = False  # the index is one page that lists all files
    floating: bool = False  # the channel moves on: the exact version is read from its index
    driver: str = ""  # display drivers it needs
    glibc: str = ""  # the oldest C library it runs with
    loader: str = ""  # name of the program loader that comes with its own C library
    note: str = ""

    @property
    def blas(self) -> tuple[str, ...]:
        """Targets that its rocBLAS has kernels for."""
        return self.targets

    @property
    def compiles(self) -> tuple[str, ...]:
        """Targets that its run-time compiler knows."""
        return self.targets

    @property
    def has_lists(self) -> bool:
        """Whether it is known what AMD promises of the targets."""
        return bool(self.official or self.ready)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield targets that are supported although nothing is built for them."""
        for target in {*self.official, *self.ready} - set(self.targets):
            yield f"`targets`: `{target}` is missing, although it is supported"


class FileHash(Known, frozen=True, kw_only=True):
    """The hash of a file for which its index publishes none."""

    IDENTITY = ("index", "file")
    FRESH_DAYS = None

    index: str
    file: str
    sha256: str

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield a complaint unless it is a SHA-256."""
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            yield "`sha256` must be 64 hexadecimal digits in lower case"


class HipSdk(Known, frozen=True, kw_only=True):
    """AMD's HIP SDK for Windows: a candidate."""

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
    runtime: tuple[str, ...] = ()  # DLL names; () = not known
    comgr: tuple[str, ...] = ()
    hiprtc: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    not_included: tuple[str, ...] = ()
    server_installer: str = ""
    note: str = ""


class InstallerNote(Known, frozen=True, kw_only=True):
    """What to know before running the HIP SDK's installer by hand."""

    IDENTITY = ("text",)

    order: int
    text: str


class Asset(Value, frozen=True, kw_only=True):
    """One archive of a ZLUDA build."""

    name: str
    rocm: tuple[str, ...] = ()  # series that it is for, "6.2", or "6" for all of them; () = it serves none
    # Further series with which it is reported to work, for some targets only.
    also: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    flavour: Literal["plain", "rocm5", "rocm6", "nightly"] = "plain"
    platform: Platform = "windows"
    sha256: str = ""
    size_bytes: int = 0


class ZludaBuild(Known, frozen=True, kw_only=True):
    """One build of ZLUDA; each of its archives for Windows is a candidate."""

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

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield HIP SDKs that do not exist."""
        known = _sdk_series(matrix)
        for asset in self.assets:
            for name in (*asset.rocm, *asset.also):
                if name not in known and name not in {each.partition(".")[0] for each in known}:
                    yield f"`assets`: there is no HIP SDK `{name}`"


class Pack(Known, frozen=True, kw_only=True):
    """A pack of rocBLAS or hipBLASLt libraries for targets that a HIP SDK has none for."""

    IDENTITY = ("provider", "rocm", "asset", "targets")
    FRESH_DAYS = NEWS_DAYS
    VERSIONS = ("rocm",)
    provided_by = "windows"

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

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield HIP SDKs that do not exist."""
        for version in self.rocm:
            if series(version) not in _sdk_series(matrix):
                yield f"`rocm`: there is no HIP SDK `{version}`"


class PackPlace(Known, frozen=True, kw_only=True):
    """Where a part of a library pack belongs in the tree of a HIP SDK."""

    IDENTITY = ("kind", "member")

    kind: Literal["rocblas", "hipblaslt"]
    member: str  # a file, or a folder as `library/`, wherever in the archive it lies
    place: str


class Index(Known, frozen=True, kw_only=True):
    """An address that packages or wheels come from."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS

    name: str
    url: str
    platforms: tuple[Platform, ...]
    published_at: tuple[str, ...] = ()  # where else its files are: "https://host/path/", "*.domain/path/"
    targets: tuple[str, ...] = ()
    note: str = ""


class ShimMap(Known, frozen=True, kw_only=True):
    """Which files of a ZLUDA build stand for which of CUDA."""

    IDENTITY = ("project", "zluda", "cuda")
    RANGES = ("zluda",)

    project: Literal["lshqqytiger", "vosen"]
    zluda: str  # PEP 440 specifier on the build
    cuda: str  # of the torch that it is put in front of, "11.8"
    driver: tuple[str, ...]  # files of the build loaded first, under their own names; the driver API first
    behind: tuple[str, ...]  # libraries of the HIP SDK that `files` call, loaded before them
    files: tuple[ShimFile, ...]  # in the order in which they are loaded, cuBLAS first
    first_run_s: int  # what the first use may take, while kernels are compiled
    original: str = ""  # the file of torch that the build still calls
    note: str = ""


class TorchSwitch(Known, frozen=True, kw_only=True):
    """A setting of torch that ZLUDA needs."""

    IDENTITY = ("name",)

    name: str
    how: Literal["set", "call", "disable"]
    value: bool = False
    reason: str


def _sdk_series(matrix: "Matrix") -> set[str]:
    return {series(row.version) for row in matrix.hip_sdk}

"""The values that the layers hand to each other: plain, frozen, with no behaviour beyond properties.

They are structs, since every command needs these classes, and a dataclass takes about 25 times as long to
define. Annotations are types, not strings, so that reading a record does not evaluate them.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

ComponentKind = Literal["rocm", "zluda", "libraries", "torch", "compiler"]
# A `folder` is one that lay on the machine and was taken over; `path` says where, `sha256` is that of its
# list of files. An `installer` and an `archive` are unpacked, never run.
# A `sdist` is made into a wheel without running any of its code.
ArtifactKind = Literal["deb", "wheel", "sdist", "installer", "archive", "folder"]
RungStatus = Literal["passed", "failed", "crashed", "timeout", "skipped"]


class Value(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all of them, and of whatever else `codec` reads and writes."""


class Artifact(Value, frozen=True, kw_only=True):
    """One file to fetch, known by its hash."""

    kind: ArtifactKind
    name: str  # package or project name
    version: str
    url: str
    sha256: str  # lower-case hex
    size_bytes: int
    installed_bytes: int = 0  # what it takes once unpacked; 0 = unknown
    repo: str = ""  # the repository of the matrix that it came from, to find it again on another mirror
    path: str = ""  # its path below that repository's base


class Program(Value, frozen=True, kw_only=True):
    """Programs that people start by name: each gets a starter in the prefix's folder of programs.

    In values and arguments `{tree}` is the folder of the component, `{bin}` the folder of the starters.
    """

    path: str  # the last part may be a pattern, "usr/bin/llama-*"
    environment: dict[str, str] = {}  # what it needs to find its own files
    arguments: tuple[str, ...] = ()  # the same, put before the user's
    not_before: str = ""  # a first argument that begins so gets none: the program calls itself with it
    names: tuple[str, ...] = ()  # that it is started by, where `path` is one program; () = its own


class Layout(Value, frozen=True, kw_only=True):
    """The places of a component's parts; every path uses `/`.

    A row of the data has the paths as they are in its packages; those of a component are below the prefix.
    """

    root: str  # what ROCM_PATH points to; "" = nothing
    library_dirs: tuple[str, ...]  # searched in this order
    libraries: dict[str, str]  # role (hip, hiprtc, rocblas) -> file name to load
    bin: str = ""  # folder of the programs; "" = there are none
    device_libs: str = ""  # folder of the device bitcode; "" = built into the compiler
    runtime: dict[str, str] = {}  # role -> version prefix the library must report
    programs: tuple[Program, ...] = ()
    # Folder that programs look in for files -> a pattern of those files, where they are. A program that its
    # own loader starts takes the loader's folder for its own.
    links: dict[str, str] = {}
    names: dict[
        str, str
    ] = {}  # another name, as a path -> the file that it is a link to, where that is there
    python: str = ""  # of a venv: its interpreter; "" = this is no venv
    site_packages: str = ""

    def below(self, folder: str) -> "Layout":
        """The layout with every path below a folder; an empty path stays empty."""

        def put(path: str) -> str:
            return f"{folder}/{path}" if path else ""

        return replace(
            self,
            root=put(self.root),
            library_dirs=tuple(map(put, self.library_dirs)),
            bin=put(self.bin),
            device_libs=put(self.device_libs),
            programs=tuple(replace(each, path=put(each.path)) for each in self.programs),
            links={put(place): put(pattern) for place, pattern in self.links.items()},
            names={put(name): put(path) for name, path in self.names.items()},
            python=put(self.python),
            site_packages=put(self.site_packages),
        )


def series(version: str) -> str:
    """Major and minor number: `6.2` for `6.2.4`."""
    return ".".join(version.split(".")[:2])


VENV = "venv"  # the folder of wheels in a prefix


def venv_layout(python: str, platform: str) -> Layout:
    """The layout of the venv in a prefix, whose Python has this version: `3.11.2`."""
    windows = platform == "windows"
    layout = Layout(
        root="",
        library_dirs=(),
        libraries={},
        python="Scripts/python.exe" if windows else "bin/python",
        site_packages="Lib/site-packages" if windows else f"lib/python{series(python)}/site-packages",
    )
    return layout.below(VENV)


class EnvChange(Value, frozen=True, kw_only=True):
    """One change to the environment; `value` may hold `{prefix}`, or `{prefix_url}`: its `file:` address."""

    action: Literal["set", "prepend", "unset"]
    name: str
    value: str = ""


class ShimFile(Value, frozen=True, kw_only=True):
    """One file of a ZLUDA build that stands for a file of CUDA."""

    file: str  # in the build, "cublas.dll"
    stands_for: str  # what torch loads, "cublas64_11.dll"; may be the same


class Switch(Value, frozen=True, kw_only=True):
    """A setting of torch that ZLUDA needs, applied as soon as torch is imported."""

    name: str  # dotted, below `torch`: "backends.cudnn.enabled"
    how: Literal["set", "call", "disable"]  # `disable`: call with False, then replace by what does nothing
    value: bool = False


class Shims(Value, frozen=True, kw_only=True):
    """What makes torch for CUDA run on ZLUDA: the files to load before it in order, and its settings."""

    runtime: tuple[str, ...]  # the SDK's HIP runtime, and what compiles for it, which others load by name
    driver: tuple[str, ...]  # files of the build under their own names: nvcuda.dll, nvml.dll
    behind: tuple[str, ...]  # libraries of the SDK that the files call
    files: tuple[ShimFile, ...]
    original: str = ""  # the file of torch that the build still calls: kept as `KEPT_ORIGINAL`; "" = none
    switches: tuple[Switch, ...] = ()
    first_run_s: int = 0  # what the first use may take, while kernels are compiled


KEPT_ORIGINAL = "nvrtc_cuda.dll"  # Source: lshqqytiger/ZLUDA@5e71745:zluda_rtc/src/lib.rs


class Component(Value, frozen=True, kw_only=True):
    """One part of a set, with every file it consists of."""

    kind: ComponentKind
    name: str
    version: str
    channel: str
    why: str
    artifacts: tuple[Artifact, ...] = ()
    glibc: str = ""  # the oldest C library its programs run with; "" = any
    loader: str = ""  # name of the program loader it brings with a C library; "" = the machine's is used
    layout: Layout | None = None
    python: str = ""  # for wheels: the interpreter version of the venv, "3.11"
    into: str = ""  # the folder of a prefix that its files are in, "rocm/5.7"; "" = it has none
    anchor: str = ""  # a file that is in every such archive: what is beside and below it is taken, no more
    # A file, or a folder as `library/` -> below `into`. It is put over another component, and replaces files.
    places: dict[str, str] = {}
    shims: Shims | None = None

    @property
    def is_wheels(self) -> bool:
        """Whether it is installed into a venv."""
        return any(artifact.kind in ("wheel", "sdist") for artifact in self.artifacts)


class Rejection(Value, frozen=True, kw_only=True):
    """One reason why nothing fits: what a part would have to be, and what it is."""

    component: str
    requirement: str
    found: str
    source: str
    text: str = ""  # the same as a sentence


class Suggestion(Value, frozen=True, kw_only=True):
    """A command that works, and the set it chooses."""

    command: str
    components: tuple[tuple[ComponentKind, str], ...]  # kind and version


class Request(Value, frozen=True, kw_only=True):
    """What the user asked for, as given; empty = not asked."""

    rocm: str = ""
    torch: str = ""  # "" = no torch, "*" = any
    python: str = ""
    target: str = ""
    channel: str = ""
    platform: str = "linux"  # or "windows"
    zluda: str = ""  # "" = no ZLUDA, "*" = any
    driver: str = ""  # "" = the machine's, where that is known
    app: str = ""  # key of the profile of the app that the env is for
    more_targets: tuple[str, ...] = ()  # that the set has to serve beside `target`
    dev: bool = False  # with compilers and headers
    no_guard: bool = False  # let other programs replace the set's own builds of wheels

    @property
    def targets(self) -> tuple[str, ...]:
        """Every target that the set has to serve."""
        return (self.target, *self.more_targets)


class Machine(Value, frozen=True, kw_only=True):
    """The machine that a set is for, as far as it matters to the choice; "" = not known."""

    platform: str = "linux"  # of the machine that commands are given on
    glibc: str = ""  # "2.36"
    kernel: str = ""  # "6.8.0-45-generic"
    driver: str = ""  # the kernel driver on Linux, the display driver on Windows
    wsl: bool = False  # Linux on Windows
    display: str = ""  # on WSL, the display driver as Windows counts, "32.0.31041.1004"


class Lock(Value, frozen=True, kw_only=True):
    """A resolved set: enough to build the same env anywhere."""

    request: Request
    platform: str
    target: str
    components: tuple[Component, ...]
    environment: tuple[EnvChange, ...]
    runs_as: str = ""  # the target that its code is made for, where an override makes it another one
    watched: tuple[str, ...] = ()  # variables that act on every set: reported where the machine has set them
    notes: tuple[str, ...] = ()

    def part(self, kind: ComponentKind) -> Component | None:
        """The component of a kind; None where the set has none."""
        return next((part for part in self.components if part.kind == kind), None)

    @property
    def targets(self) -> tuple[str, ...]:
        """Every target that the set serves."""
        return (self.target, *self.request.more_targets)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every file of the set once."""
        # The hash of some files is not known before their first download.
        found = {each.sha256 or each.url: each for part in self.components for each in part.artifacts}
        return tuple(found.values())

    @property
    def python(self) -> str:
        """The env's own Python, below the prefix; it is there only where a component is a venv."""
        layouts = [part.layout for part in self.components if part.layout is not None]
        return next((each.python for each in layouts if each.python), venv_layout("", self.platform).python)

    @property
    def code_target(self) -> str:
        """The target that its code is made for."""
        return self.runs_as or self.target


class FileEntry(Value, frozen=True, kw_only=True):
    """One file or link of a tree."""

    sha256: str = ""  # "" for a link
    size_bytes: int = 0
    executable: bool = False
    link: str = ""  # target of a symbolic link, relative; "" for a file


class Record(Value, frozen=True, kw_only=True):
    """What an env consists of. Its presence makes the env complete, so it is written last."""

    name: str
    created: str  # ISO 8601, UTC
    rocenv_version: str
    lock: Lock
    files_sha256: str = ""  # of the list of files beside it; filled in when that is written
    loader: str = ""  # path of the prefix's own program loader; "" = the machine's is used
    shims_in_torch: bool = False  # they replace torch's own files, instead of being loaded before them


class RungResult(Value, frozen=True, kw_only=True):
    """What one rung of the ladder found."""

    rung: str
    status: RungStatus
    elapsed_s: float = 0.0
    detail: str = ""
    exit_code: int | None = None
    no_device: bool = False  # skipped or failed only because there is no usable GPU here
    stderr_tail: str = ""
    findings: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether it did not pass although it ran."""
        return self.status not in ("passed", "skipped")


APP_RUNG = "app"  # after the ladder: whether an app finds the GPU in the env


class Verification(Value, frozen=True, kw_only=True):
    """How far an env gets on this machine, as `verify` finds it and `.rocenv/verified.json` keeps it."""

    env: str = ""
    target: str = ""
    results: tuple[RungResult, ...]
    advice: tuple[str, ...] = ()  # what is known to be wrong with such a set, and what to do
    when: str = ""  # ISO 8601, UTC

    @property
    def level(self) -> str:
        """The last rung that passed with all before it that could run; "" if none did.

        The rung of an app counts only on a GPU that was proved to work.
        """
        level, passed = "", [result.rung for result in self.results if result.status == "passed"]
        for result in self.results:
            if result.rung == APP_RUNG and "device" not in passed:
                break
            if result.status == "passed":
                level = result.rung
            elif not result.no_device:
                break
        return level

    @property
    def broken(self) -> tuple[RungResult, ...]:
        """The rungs that did not pass for another reason than a missing GPU."""
        return tuple(result for result in self.results if result.wrong)

    @property
    def no_device(self) -> bool:
        """Whether rungs were skipped because this machine has no usable GPU."""
        return any(result.no_device for result in self.results)

    @property
    def exit_code(self) -> int:
        """0: all passed; 1: something is wrong; 4: only a GPU to run on is missing."""
        if self.broken:
            return 1
        return 4 if self.no_device else 0

    def status(self, rung: str) -> str:
        """The status of a rung, "" if it did not run."""
        return next((result.status for result in self.results if result.rung == rung), "")

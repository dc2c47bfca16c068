"""Plain, frozen values that the packages exchange.

They are structs because every command needs them, and defining a dataclass takes about 25 times as long.
Annotations are types rather than strings, which would have to be evaluated to read a record.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

ComponentKind = Literal["rocm", "zluda", "libraries", "torch", "compiler"]
# A `folder` was imported from this machine: `path` is its original location, and `sha256` hashes its file
# list. An `installer` or an `archive` is unpacked, never run. An `sdist` is turned into a wheel without
# running its code.
ArtifactKind = Literal["deb", "wheel", "sdist", "installer", "archive", "folder"]
RungStatus = Literal["passed", "failed", "crashed", "timeout", "skipped"]


class Value(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Base class for these values and everything else that `codec` reads and writes."""


class Artifact(Value, frozen=True, kw_only=True):
    """One file to fetch, identified by its hash."""

    kind: ArtifactKind
    name: str  # package or project
    version: str
    url: str
    sha256: str  # lowercase hex
    size_bytes: int
    installed_bytes: int = 0  # size once unpacked; 0 if unknown
    repo: str = ""  # name of its repository in the matrix, used to find the file on another mirror
    path: str = ""  # path below the repository's base URL


class Program(Value, frozen=True, kw_only=True):
    """Programs that users run by name; each has a launch script in the prefix's `bin`.

    In values and arguments, `{tree}` is the component's folder and `{bin}` the folder with the launch
    scripts.
    """

    path: str  # the last component can be a pattern: "usr/bin/llama-*"
    environment: dict[str, str] = {}  # variables that locate its files
    arguments: tuple[str, ...] = ()  # arguments for the same purpose, inserted before the user's
    not_before: str = ""  # skip `arguments` if the user's start with this (a recursive call)
    names: tuple[str, ...] = ()  # command names if `path` is a single program; () for its file name


class Layout(Value, frozen=True, kw_only=True):
    """Locations of a component's files; paths use `/`.

    In a data row, paths are relative to the package; in a component, to the prefix.
    """

    root: str  # value of ROCM_PATH; "" to leave it unset
    library_dirs: tuple[str, ...]  # in search order
    libraries: dict[str, str]  # role (hip, hiprtc, rocblas) -> file to load
    bin: str = ""  # folder with the programs; "" if none
    device_libs: str = ""  # folder with the device bitcode; "" if built into the compiler
    runtime: dict[str, str] = {}  # role -> required prefix of the library's version
    programs: tuple[Program, ...] = ()
    # Folder where programs look for files -> pattern that matches those files. A program that is started with
    # the env's own loader mistakes the loader's folder for its own.
    links: dict[str, str] = {}
    names: dict[str, str] = {}  # link to create -> its target; skipped if the target is missing
    python: str = ""  # interpreter, if this is a venv
    site_packages: str = ""

    def below(self, folder: str) -> "Layout":
        """Prefix every path with `folder`; empty paths stay empty."""

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
    """Return the major and minor version: `6.2` for `6.2.4`."""
    return ".".join(version.split(".")[:2])


VENV = "venv"  # folder for wheels in a prefix


def venv_layout(python: str, platform: str) -> Layout:
    """Return the layout of the venv in a prefix for a Python version such as `3.11.2`."""
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
    """One change to the environment; `value` can contain `{prefix}` or, as a `file:` URL, `{prefix_url}`."""

    action: Literal["set", "prepend", "unset"]
    name: str
    value: str = ""


class ShimFile(Value, frozen=True, kw_only=True):
    """A file in a ZLUDA build that stands in for a CUDA file."""

    file: str  # name in the build: "cublas.dll"
    stands_for: str  # name that torch loads: "cublas64_11.dll"; can be equal to `file`


class Switch(Value, frozen=True, kw_only=True):
    """A torch setting that ZLUDA needs, applied when torch is imported."""

    name: str  # dotted path in `torch`: "backends.cudnn.enabled"
    how: Literal["set", "call", "disable"]  # `disable`: call with False, then replace with a no-op
    value: bool = False


class Shims(Value, frozen=True, kw_only=True):
    """The files to load before a CUDA build of torch, in order, and the torch settings for ZLUDA."""

    runtime: tuple[str, ...]  # the SDK's HIP runtime and its compiler; other libraries load them by name
    driver: tuple[str, ...]  # files in the build that keep their names: nvcuda.dll, nvml.dll
    behind: tuple[str, ...]  # SDK libraries that these files call
    files: tuple[ShimFile, ...]
    original: str = ""  # torch file that the build still calls, kept as `KEPT_ORIGINAL`; "" if none
    switches: tuple[Switch, ...] = ()
    first_run_s: int = 0  # maximum time for compiling kernels on first use


KEPT_ORIGINAL = "nvrtc_cuda.dll"  # Source: lshqqytiger/ZLUDA@5e71745:zluda_rtc/src/lib.rs


class Component(Value, frozen=True, kw_only=True):
    """One component in a set, with all its files."""

    kind: ComponentKind
    name: str
    version: str
    channel: str
    why: str
    artifacts: tuple[Artifact, ...] = ()
    glibc: str = ""  # oldest C library that its programs run with; "" for any
    loader: str = ""  # its own dynamic loader, if it includes a C library; "" for the system loader
    layout: Layout | None = None
    python: str = ""  # for wheels: the venv's Python version, "3.11"
    into: str = ""  # its folder in the prefix, "rocm/5.7"; "" if none
    anchor: str = ""  # a file in the archive; only its folder is unpacked
    # File, or folder such as `library/` -> path below `into`, where it replaces another component's files.
    places: dict[str, str] = {}
    shims: Shims | None = None

    @property
    def is_wheels(self) -> bool:
        """Whether it is installed in a venv."""
        return any(artifact.kind in ("wheel", "sdist") for artifact in self.artifacts)


class Rejection(Value, frozen=True, kw_only=True):
    """A reason why no set satisfies a request: a requirement for a component, and what was found instead."""

    component: str
    requirement: str
    found: str
    source: str
    text: str = ""  # full sentence for users


class Suggestion(Value, frozen=True, kw_only=True):
    """A command that works, and the set that it would resolve to."""

    label: str = ""  # what differs from the request: "without PyTorch"
    command: str
    components: tuple[tuple[ComponentKind, str], ...]  # kind and version


class Request(Value, frozen=True, kw_only=True):
    """The user's request as given; empty fields were not specified."""

    rocm: str = ""
    torch: str = ""  # "" for no torch, "*" for any
    python: str = ""
    target: str = ""
    channel: str = ""
    platform: str = "linux"  # or "windows"
    zluda: str = ""  # "" for no ZLUDA, "*" for any
    driver: str = ""  # "" for the installed driver, if known
    app: str = ""  # key of the app profile that the env is for
    more_targets: tuple[str, ...] = ()  # additional targets that the set must support
    dev: bool = False  # include compilers and headers
    no_guard: bool = False  # allow other programs to replace the set's own wheel builds

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets that the set must support."""
        return (self.target, *self.more_targets)


class Machine(Value, frozen=True, kw_only=True):
    """Machine properties that affect which set is chosen; "" if unknown."""

    platform: str = "linux"  # platform for suggested commands
    glibc: str = ""  # "2.36"
    kernel: str = ""  # "6.8.0-45-generic"
    driver: str = ""  # the kernel driver on Linux, the display driver on Windows
    wsl: bool = False  # Windows Subsystem for Linux
    display: str = ""  # on WSL, the Windows display driver's version: "32.0.31041.1004"


class Lock(Value, frozen=True, kw_only=True):
    """A resolved set, complete enough to build the same env anywhere."""

    request: Request
    platform: str
    target: str
    components: tuple[Component, ...]
    environment: tuple[EnvChange, ...]
    runs_as: str = ""  # target that the set's code is built for, if an override is used
    watched: tuple[str, ...] = ()  # variables that would affect the set, reported if they are already set
    warnings: tuple[str, ...] = ()  # what the GPU cannot do with this set
    notes: tuple[str, ...] = ()
    local_notes: tuple[str, ...] = ()  # notes that apply only where and when the set was resolved

    def part(self, kind: ComponentKind) -> Component | None:
        """Return the component of this kind, if the set has one."""
        return next((part for part in self.components if part.kind == kind), None)

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets that the set supports."""
        return (self.target, *self.request.more_targets)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """All files in the set, without duplicates."""
        # A hash may be unknown until the file is first downloaded.
        found = {each.sha256 or each.url: each for part in self.components for each in part.artifacts}
        return tuple(found.values())

    @property
    def python(self) -> str:
        """Path of the env's Python relative to the prefix; the file exists only if the env has a venv."""
        layouts = [part.layout for part in self.components if part.layout is not None]
        return next((each.python for each in layouts if each.python), venv_layout("", self.platform).python)

    @property
    def code_target(self) -> str:
        """The target that the set's code is built for."""
        return self.runs_as or self.target


class FileEntry(Value, frozen=True, kw_only=True):
    """A file or link in a tree."""

    sha256: str = ""  # "" for a link
    size_bytes: int = 0
    executable: bool = False
    link: str = ""  # a symbolic link's target, relative; "" for a file


class Record(Value, frozen=True, kw_only=True):
    """A record of an env's contents; it is written last, and marks the env as complete."""

    name: str
    created: str  # ISO 8601, UTC
    rocenv_version: str
    lock: Lock
    files_sha256: str = ""  # hash of the file list next to it; set when that list is written
    loader: str = ""  # path to the prefix's own dynamic loader; "" for the system loader
    shims_in_torch: bool = False  # shims replace torch's files instead of being loaded before them
    prefix: str = ""  # path that the env's scripts and loader use; "" in records written by older versions


class RungResult(Value, frozen=True, kw_only=True):
    """The result of one rung of the ladder."""

    rung: str
    status: RungStatus
    elapsed_s: float = 0.0
    detail: str = ""
    exit_code: int | None = None
    no_device: bool = False  # skipped or failed only because this machine has no usable GPU
    stderr_tail: str = ""
    findings: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether the rung ran and did not pass."""
        return self.status not in ("passed", "skipped")


APP_RUNG = "app"  # runs after the ladder, to check whether the app finds the GPU


class Verification(Value, frozen=True, kw_only=True):
    """The result of verifying an env on this machine; `.rocenv/verified.json` stores the last one."""

    env: str = ""
    target: str = ""
    results: tuple[RungResult, ...]
    advice: tuple[str, ...] = ()  # this set's known problems, with remedies
    when: str = ""  # ISO 8601, UTC

    @property
    def level(self) -> str:
        """The last rung that passed, if every earlier rung that could run also passed; otherwise "".

        The app rung is included only if the GPU itself passed.
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
        """Rungs that ran and did not pass."""
        return tuple(result for result in self.results if result.wrong)

    @property
    def no_device(self) -> bool:
        """Whether rungs were skipped because this machine has no usable GPU."""
        return any(result.no_device for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 if all rungs passed, 1 if one failed, or 4 if only a GPU is missing."""
        if self.broken:
            return 1
        return 4 if self.no_device else 0

    def status(self, rung: str) -> str:
        """Return a rung's status, or "" if it did not run."""
        return next((result.status for result in self.results if result.rung == rung), "")

"""Rows about apps: profiles, packages, builds, and what their releases require."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import EnvChange, Layout, Program, Value
from rocenv.core.template import places
from rocenv.data.known import NEWS_DAYS, Known, literal_faults, pattern_faults
from rocenv.data.rules import Text

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Failure(Value, frozen=True, kw_only=True):
    """An error message that an app prints, whatever its exit code.

    A message with a `code` also matches that rule, whose explanation `diagnose` and `launch` show.
    """

    text: str  # part of a line that the app prints
    means: Text | None = None  # explanation; None for the rule's own
    remedy: str = ""  # command, with the placeholders of `Fallback`; "" if it depends on the set
    code: str = ""  # the rule in `profiles/rules/`; "" if none
    cpu: bool = False  # whether the app continues on the CPU


PLACES = ("device", "target")  # placeholders in `Flag.words`
# Groups that a device list's patterns must have; `device` is a GPU's name.
_GROUPS = {"pattern": ("device",), "other": (), "target": ("number", "target")}
# Fields that every app inherits from the `generic` row.
INHERITED = ("compiling", "first_run", "starters")


class Flag(Value, frozen=True, kw_only=True):
    """Arguments that rocenv adds if this app version supports them and the user did not pass them.

    `{device}` in `words` is the GPU as the app lists it; `{target}` in `words` and `why` is its target.
    """

    words: tuple[str, ...]  # used only if the app's help lists the first word
    spellings: tuple[str, ...] = ()  # other names for the first word, best first
    unless: tuple[str, ...] = ()  # skip the flag if the user passes any of these
    place: Literal["first", "last"] = "last"  # position relative to the user's arguments
    required: bool = False  # refuse to launch without it, as the app might silently use the CPU
    repeats: bool = False  # it can be repeated, so add it even if the user passes it
    always_known: bool = False  # add it even if the help does not list it
    why: Text | None = None  # reason shown to the user

    @property
    def names(self) -> tuple[str, ...]:
        """The argument's names, best first."""
        return (self.words[0], *self.spellings)

    def faults(self) -> Iterator[str]:
        """Report missing words and unknown placeholders."""
        if not self.words:
            yield "`flags`: `words` is empty"
        for place in {place for word in self.words for place in places(word)} - set(PLACES):
            yield f"`flags`: unknown placeholder `{{{place}}}`; known: {', '.join(PLACES)}"


class Renamed(Value, frozen=True, kw_only=True):
    """An argument that some versions do not support."""

    old: tuple[str, ...]
    new: tuple[str, ...] = ()  # equivalent in those versions; their help lists the first word


class DeviceList(Value, frozen=True, kw_only=True):
    """A program option that lists the usable GPUs and exits."""

    arguments: tuple[str, ...]  # "--list-devices"
    pattern: str  # matches a GPU's line; group `device` is the name used in arguments
    other: str = ""  # matches lines for other devices, such as the CPU
    target: str = ""  # matches a line with groups `target` and `number` (the end of the GPU's name)

    def faults(self) -> Iterator[str]:
        """Report missing arguments, and patterns without the required groups."""
        if not self.arguments:
            yield "`devices.arguments` is empty"
        for name, groups in _GROUPS.items():
            text = getattr(self, name)
            bad = list(pattern_faults(f"devices.{name}", text))
            yield from bad
            for group in groups if not bad and (text or name == "pattern") else ():
                if group not in re.compile(text).groupindex:
                    yield f"`devices.{name}`: `{text}` has no group `{group}`"


class Fallback(Value, frozen=True, kw_only=True):
    """App-specific advice for a rule, shown before the rule's own; best first.

    Placeholders in commands: `{name}` is the env, `{another}` an unused env name, `{target}` the env's
    target, `{code_target}` the target its code is built for, `{program}` the program, `{model}` its model.
    The text may contain `{target}`.
    """

    code: str  # the rule in `profiles/rules/`
    text: Text
    command: str = ""  # omitted if a value is unknown and has no fallback


class Wrapper(Value, frozen=True, kw_only=True):
    """An app's Linux start scripts that break an env; `launch` runs the app's command instead."""

    names: tuple[str, ...] = ()
    does: Text | None = None  # how they break it: "it replaces LD_LIBRARY_PATH"
    settings: str = ""  # settings file that the scripts read; "" if none


class Starter(Value, frozen=True, kw_only=True):
    """Programs that run the command in their arguments, such as `nice`."""

    names: tuple[str, ...]
    valued: tuple[str, ...] = ()  # arguments that take the next word as their value
    operands: int = 0  # number of words before the command, such as a duration
    reads: bool = False  # the program is a shell and runs the file as a script
    inline: tuple[str, ...] = ()  # arguments followed by script text (rocenv does not parse it)


class Launcher(Known, frozen=True, kw_only=True):
    """An app's profile: how to recognize it, start it, keep it on the GPU, and read its output.

    In commands and values, `{python}` is the env's Python, `{batch_python}` is the same in quotes, for
    Windows batch files that do not quote it, and `{prefix}` is the env's folder. Paths are relative to the
    app's folder and use `/`. Every row inherits the `INHERITED` fields and the `secret_options` from the
    `generic` row.
    """

    IDENTITY = ("key",)
    FRESH_DAYS = NEWS_DAYS

    key: str  # for `--app`
    title: str
    platforms: tuple[str, ...] = ("linux", "windows")
    needs_torch: bool = False  # `app_release` rows state which ROCm it needs
    repository: str = ""  # where users clone it from; "" if they get it another way

    # Recognition. Without `signs` and `programs`, the app needs `--app`.
    programs: tuple[str, ...] = ()  # patterns for program names, "llama-*"
    signs: tuple[str, ...] = ()  # files that its folder must contain
    unlike: tuple[str, ...] = ()  # files that identify a similar app instead

    # Start.
    command: tuple[str, ...] = ()  # the usual command; () if the user must specify one
    entries: tuple[str, ...] = ()  # programs that accept its arguments
    helpers: tuple[str, ...] = ()  # programs that do not use the GPU
    settings: tuple[str, ...] = ()  # scripts that set the arguments and ignore those passed to them
    starters: tuple[Starter, ...] = ()
    wrapper: Wrapper = Wrapper()
    arguments_variable: str = ""  # variable with further arguments; "" if none
    environment: tuple[EnvChange, ...] = ()
    # Arguments with secret values; names that are obviously secret (`--api-key`) need no entry.
    secret_options: tuple[str, ...] = ()

    # Arguments.
    help: tuple[str, ...] = ()  # arguments that print the full help; () if it has none
    version: str = ""  # matches the output of `--version`; group `version`; "" if not checked
    modes: tuple[str, ...] = ()  # mode arguments such as `--server`, which have their own help
    flags: tuple[Flag, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    devices: DeviceList | None = None
    behind_dashes: tuple[str, ...] = ()  # arguments valid only after `--`; () if `--` has no meaning
    only_tells: tuple[str, ...] = ()  # arguments that print something and exit
    cpu: tuple[str, ...] = ()  # arguments that select the CPU, "-ngl 0"
    not_hip: tuple[str, ...] = ()  # arguments that select a different GPU API, "--gpu vulkan"
    gpu_work: tuple[str, ...] = ()  # arguments that start GPU work; () if it always uses the GPU

    # Its own torch, Python and ZLUDA.
    own_torch: tuple[str, ...] = ()  # arguments that prevent a torch download; not added with ZLUDA
    own_python: tuple[str, ...] = ()  # folders with its own Python
    bypasses: tuple[str, ...] = ()  # programs that always use its own Python and ZLUDA
    own_zluda: tuple[str, ...] = ()  # folders with its own ZLUDA
    zluda_arguments: tuple[str, ...] = ()  # added if the env has ZLUDA
    zluda_variable: str = ""  # variable that selects a different ZLUDA; "" if it always uses its own
    # Arguments, variables ("$NAME", whatever the value) or ZLUDA files that make it delete the ZLUDA folder.
    deletes_zluda: tuple[str, ...] = ()
    shims: Literal["any", "private", "torch"] = "any"  # where ZLUDA must be installed

    # Output.
    gpu_used: tuple[str, ...] = ()  # output that proves GPU use; () if there is none
    gpu_work_shown: tuple[str, ...] = ()  # output that marks the start of GPU work
    failures: tuple[Failure, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    compiling: str = ""  # output while it compiles kernels
    first_run: Text | None = None  # why the user has to wait
    logs: tuple[str, ...] = ()  # its own log files

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report unknown rules, invalid search strings, and invalid arguments."""
        yield from self._code_faults(matrix)
        yield from self._text_faults()
        yield from self._argument_faults()
        yield from pattern_faults("version", self.version)
        for rule in matrix.never_together:
            for change in self.environment:
                yield from rule.violations((change.name,), change.value)

    def _code_faults(self, matrix: "Matrix") -> Iterator[str]:
        codes = [("failures", each.code) for each in self.failures if each.code]
        codes += [("fallbacks", each.code) for each in self.fallbacks]
        known = matrix.names("rule", "code")
        yield from (f"`{field}`: unknown rule `{code}`" for field, code in codes if code not in known)
        for failure in self.failures:
            if not failure.code and not failure.means:
                yield f"`failures`: `{failure.text}` has neither `means` nor `code`"

    def _text_faults(self) -> Iterator[str]:
        texts = [self.first_run, self.wrapper.does, *(each.means for each in self.failures)]
        for text in (*texts, *(each.text for each in self.fallbacks)):
            yield from text.faults() if text else ()
        yield from literal_faults("failures", [failure.text for failure in self.failures])
        yield from literal_faults("gpu_used", self.gpu_used)
        yield from literal_faults("gpu_work_shown", self.gpu_work_shown)
        for name in ("programs", "gpu_work", "cpu", "not_hip", "secret_options"):
            if not all(text.strip() for text in getattr(self, name)):
                yield f"`{name}` contains an empty string"

    def _argument_faults(self) -> Iterator[str]:
        for flag in self.flags:
            yield from flag.faults()
        if self.devices is not None:
            yield from self.devices.faults()
        if any(not each.names or each.operands < 0 for each in self.starters):
            yield "`starters`: each entry needs `names`, and `operands` must not be negative"
        if not all(each.old for each in self.renamed):
            yield "`renamed`: `old` is empty"
        if self.wrapper.names and not self.command:
            yield "`wrapper` needs a `command` to run instead"

    def inheriting(self, generic: "Launcher") -> "Launcher":
        """Return the row with the fields that it inherits from the `generic` row."""
        values = {name: getattr(self, name) or getattr(generic, name) for name in INHERITED}
        values["secret_options"] = (*generic.secret_options, *self.secret_options)
        return msgspec.structs.replace(self, **values)


class AppPackages(Known, frozen=True, kw_only=True):
    """An app's packages in some channels."""

    IDENTITY = ("app", "channels")
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("channels", "channel"),)
    NOT_EMPTY = ("channels", "names")

    app: str  # key of the app's profile
    channels: tuple[str, ...]
    names: tuple[str, ...]  # package names; the first determines the app's version
    program: str  # the main program's path in the tree: "usr/bin/blender"
    programs: tuple[Program, ...]  # programs that users run by name
    library_dirs: tuple[str, ...] = ()  # its own library folders in the tree
    links: dict[str, str] = msgspec.field(default_factory=dict)  # see `Layout`

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the app with each channel; no two rows may share a pair."""
        for channel in self.channels:
            yield (self.app, channel), ", ".join(self.channels)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report ambiguous names and paths that point outside the tree."""
        yield from _program_faults(self.programs)
        paths = (self.program, *self.library_dirs, *self.links, *self.links.values())
        yield from _path_faults((*paths, *(each.path for each in self.programs)))


class Compiler(Known, frozen=True, kw_only=True):
    """A channel's compiler for GPU code; it is installed in its own env."""

    IDENTITY = ("name",)
    VERSIONS = ("version",)
    REFERS = (("channel", "channel"),)
    NOT_EMPTY = ("packages",)

    name: str  # its env's name, "clang-21"
    version: str  # LLVM version, or only its series if the channel updates it
    channel: str
    packages: tuple[str, ...]  # package names; the first determines the compiler's version
    targets: tuple[str, ...]  # targets that it can compile for
    layout: Layout

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report ambiguous names and paths that point outside the tree."""
        layout = self.layout
        yield from _program_faults(layout.programs)
        yield from _path_faults(
            (*layout.library_dirs, layout.device_libs, *layout.links, *layout.links.values())
        )


class BuildStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that unpacks or starts a build."""

    command: str
    gives: str


class AppBuild(Known, frozen=True, kw_only=True):
    """Builds of an app that do not require a separate ROCm installation."""

    IDENTITY = ("app", "name", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of the app's profile
    name: str  # the publisher's name
    platform: Literal["linux", "windows"]
    url: str
    asset: str  # file name; `{family}` stands for the target's entry in `families`
    targets: tuple[str, ...] = ()  # targets of its bundled ROCm; () if it uses Vulkan, which supports any GPU
    # The publisher's names for targets, if they differ.
    families: dict[str, str] = msgspec.field(default_factory=dict)
    note: str = ""
    steps: tuple[BuildStep, ...] = ()  # commands to run after the download


class AppRelease(Known, frozen=True, kw_only=True):
    """What some releases of an app require of the GPU."""

    IDENTITY = ("app", "versions", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of the app's profile
    versions: str  # PEP 440
    platform: Literal["linux", "windows"]
    without: str = ""  # why these releases cannot use the GPU; "" if they can
    rocm: str = ""  # PEP 440; compatible runtime releases
    libraries: tuple[str, ...] = ()  # file names that it tries for the HIP runtime, in order; () if unknown
    ray_tracing: tuple[str, ...] = ()  # the same for hardware ray tracing
    runtime: int = 0  # lowest HIP runtime version that it accepts; 0 for any
    driver: str = ""  # oldest display driver that it accepts, in AMD's numbering; "" for any
    targets: tuple[str, ...] = ()  # targets with bundled kernels; () if unknown
    denoiser: tuple[str, ...] = ()  # targets that its GPU denoiser supports; () if unknown or no denoiser
    refuses: tuple[str, ...] = ()  # patterns for targets that it rejects even with kernels
    note: str = ""


def _program_faults(programs: Sequence[Program]) -> Iterator[str]:
    for program in programs:
        if any("/" in name or not name for name in program.names):
            yield f"`programs`: a name for `{program.path}` is empty or contains `/`"
        if program.names and any(character in program.path for character in "*?["):
            yield f"`programs`: `{program.path}` may match several programs, so it cannot have `names`"


def _path_faults(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            yield f"`{path}` points outside the tree"

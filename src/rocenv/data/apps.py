"""Rows about apps: profiles, packages, builds, and what each release needs."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import EnvChange, Layout, Program, Value
from rocenv.core.template import places
from rocenv.data.known import NEWS_DAYS, Known, literal_faults, pattern_faults, range_faults
from rocenv.data.rules import Text

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Failure(Value, frozen=True, kw_only=True):
    """A text that an app prints when something goes wrong, whatever its exit code is.

    With a `code`, it also matches that rule, so `diagnose` and `launch` show the rule's explanation.
    """

    text: str  # as printed, a part of a line
    means: Text | None = None  # a clause; None = the rule explains it
    remedy: str = ""  # with places as in a fallback; "" = depends on the set
    code: str = ""  # the rule in `profiles/rules/`; "" = none
    cpu: bool = False  # the app continues on the CPU


PLACES = ("device", "target")  # in the words of a flag
# The groups that each pattern of a device list needs; `device` is the name of a GPU.
_GROUPS = {"pattern": ("device",), "other": (), "target": ("number", "target")}
# What the row `generic` has for all apps.
INHERITED = ("compiling", "first_run", "starters")


class Flag(Value, frozen=True, kw_only=True):
    """Arguments that rocenv adds if this version of the app has them and the user does not give them.

    In `words` and `why`, `{device}` is the GPU as the app lists it, and `{target}` its target.
    """

    words: tuple[str, ...]  # the help has to list the first
    spellings: tuple[str, ...] = ()  # its other names; the first that the help lists is used
    unless: tuple[str, ...] = ()  # other arguments of the user that rule it out
    place: Literal["first", "last"] = "last"  # before or after the user's arguments
    required: bool = False  # without it the app could silently use the CPU, so `launch` does not start it
    repeats: bool = False  # the app accepts it several times, so the user's own does not rule it out
    always_known: bool = False  # all versions have it, whether their help lists it or not
    why: str = ""  # shown with the addition

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the first word."""
        return (self.words[0], *self.spellings)

    def faults(self) -> Iterator[str]:
        """Yield words and places that mean nothing."""
        if not self.words:
            yield "`flags`: `words` is empty"
        for place in {place for word in self.words for place in places(word)} - set(PLACES):
            yield f"`flags`: nothing fills `{{{place}}}`, only {', '.join(PLACES)}"


class Renamed(Value, frozen=True, kw_only=True):
    """An argument that some versions do not have."""

    old: tuple[str, ...]
    new: tuple[str, ...] = ()  # what has the same effect there; the first is what their help lists


class DeviceList(Value, frozen=True, kw_only=True):
    """How a program lists the GPUs that it can use, without doing anything else."""

    arguments: tuple[str, ...]  # "--list-devices"
    pattern: str  # matches a GPU's line; group `device` is its name for arguments
    other: str = ""  # matches the line of another device, such as the CPU
    target: str = ""  # matches a line with a target: groups `target` and `number`, which ends the GPU's name

    def faults(self) -> Iterator[str]:
        """Yield missing arguments, and patterns without their groups."""
        if not self.arguments:
            yield "`devices.arguments` is empty"
        for name, groups in _GROUPS.items():
            text = getattr(self, name)
            bad = list(pattern_faults(f"devices.{name}", text))
            yield from bad
            for group in groups if not bad and (text or name == "pattern") else ():
                if group not in re.compile(text).groupindex:
                    yield f"`devices.{name}`: `{text}` has no group `{group}`"


class MemoryNote(Value, frozen=True, kw_only=True):
    """A note about the memory that a model takes."""

    text: str
    argument: str = ""  # shown only with advice that contains this argument; "" = always


class Fallback(Value, frozen=True, kw_only=True):
    """What to try for a cause, before what its rule suggests; best first.

    In commands, `{name}` is the env, `{another}` a free name for another one, `{target}` the env's target,
    `{code_target}` the target that its code is compiled for, `{program}` the program and `{model}` its model.
    Texts may contain `{target}`.
    """

    code: str  # the rule in `profiles/rules/`
    text: Text
    command: str = ""  # left out if a value is unknown and has no fallback


class Wrapper(Value, frozen=True, kw_only=True):
    """Scripts of an app that undo an env on Linux: `launch` runs the app's command instead."""

    names: tuple[str, ...] = ()
    does: Text | None = None  # why: a clause about the script, "it replaces LD_LIBRARY_PATH"
    settings: str = ""  # the file with the user's settings that it reads; "" = none
    ignored: tuple[str, ...] = ()  # variables in that file that only the script reads, or that undo an env


class Starter(Value, frozen=True, kw_only=True):
    """Programs that start the program named after their own arguments, such as `nice`."""

    names: tuple[str, ...]
    valued: tuple[str, ...] = ()  # arguments with a value as the next word
    operands: int = 0  # words before the program, such as a time
    reads: bool = False  # it is a shell, which runs the file as a script
    inline: tuple[str, ...] = ()  # arguments followed by a script as text, which rocenv does not look into


class Needs(Value, frozen=True, kw_only=True):
    """What an app requires of an env; "" = nothing."""

    rocm: str = ""  # PEP 440
    torch: bool = False
    python: str = ""  # PEP 440


class Launcher(Known, frozen=True, kw_only=True):
    """The profile of an app: how it is recognised, started, kept on the GPU and understood.

    In commands and values `{python}` is the env's Python, `{batch_python}` the same with quotes on Windows,
    where batch files add none, and `{prefix}` the env's folder. Paths are relative to the app's folder, with
    `/`. The row `generic` completes all others with what `INHERITED` lists, and adds its `secret_options`.
    """

    IDENTITY = ("key",)
    FRESH_DAYS = NEWS_DAYS

    key: str  # for `--app`
    title: str
    platforms: tuple[str, ...] = ("linux", "windows")
    needs: Needs = Needs()

    # Recognition. Without `signs` and `programs`, only `--app` and `create --app` name the app.
    programs: tuple[str, ...] = ()  # patterns of program names, "llama-*"
    signs: tuple[str, ...] = ()  # files that its folder has, all of them
    unlike: tuple[str, ...] = ()  # files that only a similar app has

    # Start.
    command: tuple[str, ...] = ()  # the usual command; () = the user has to give one
    entries: tuple[str, ...] = ()  # programs that take its arguments
    helpers: tuple[str, ...] = ()  # programs that do not use the GPU
    settings: tuple[str, ...] = ()  # programs that contain their arguments and pass none on
    starters: tuple[Starter, ...] = ()
    wrapper: Wrapper = Wrapper()
    arguments_variable: str = ""  # holds more arguments; "" = none
    environment: tuple[EnvChange, ...] = ()
    # Arguments with secret values, besides those whose names show it (`--api-key`).
    secret_options: tuple[str, ...] = ()

    # Arguments.
    help: tuple[str, ...] = ()  # lists all arguments; () = rocenv does not ask the program
    modes: tuple[str, ...] = ()  # they determine which other arguments exist, so `help` follows them
    flags: tuple[Flag, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    devices: DeviceList | None = None
    behind_dashes: tuple[str, ...] = ()  # arguments that count only after `--`; () = `--` means nothing
    only_tells: tuple[str, ...] = ()  # arguments that print something and exit
    cpu: tuple[str, ...] = ()  # arguments that ask for the CPU, "-ngl 0"
    not_hip: tuple[str, ...] = ()  # arguments that ask for another GPU interface, "--gpu vulkan"
    gpu_work: tuple[str, ...] = ()  # arguments that start GPU work; () = the app always does such work
    memory_notes: tuple[MemoryNote, ...] = ()  # for `mem model`

    # Its own torch, Python and ZLUDA.
    own_torch: tuple[str, ...] = ()  # arguments against installing a torch, added unless the env has ZLUDA
    own_python: tuple[str, ...] = ()  # folders of its own Python
    bypasses: tuple[str, ...] = ()  # programs that use its own Python and ZLUDA in any case
    own_zluda: tuple[str, ...] = ()  # folders of its own ZLUDA
    zluda_arguments: tuple[str, ...] = ()  # added if the env has ZLUDA
    zluda_variable: str = ""  # names the ZLUDA to use instead; "" = it always uses its own
    deletes_zluda: tuple[str, ...] = ()  # arguments, or files of ZLUDA, that make it delete the folder
    deletes_zluda_if_set: tuple[str, ...] = ()  # variables that do the same, with any value
    shims: Literal["any", "private", "torch"] = "any"  # where ZLUDA has to be

    # Output.
    gpu_used: tuple[str, ...] = ()  # texts that show that it uses the GPU; () = it prints none
    gpu_work_shown: tuple[str, ...] = ()  # texts that show that GPU work begins
    failures: tuple[Failure, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    compiling: str = ""  # printed while it compiles kernels
    first_run: Text | None = None  # explains that
    logs: tuple[str, ...] = ()  # its own log files

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield rules that do not exist, texts that cannot be searched for, and impossible arguments."""
        yield from self._code_faults(matrix)
        yield from self._text_faults()
        yield from self._argument_faults()
        for name in ("rocm", "python"):
            yield from range_faults(f"needs.{name}", getattr(self.needs, name))
        for rule in matrix.never_together:
            for change in self.environment:
                yield from rule.violations((change.name,), change.value)

    def _code_faults(self, matrix: "Matrix") -> Iterator[str]:
        codes = [("failures", each.code) for each in self.failures if each.code]
        codes += [("fallbacks", each.code) for each in self.fallbacks]
        known = matrix.names("rule", "code")
        yield from (f"`{field}`: there is no rule `{code}`" for field, code in codes if code not in known)
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
                yield f"`{name}` contains an empty text"

    def _argument_faults(self) -> Iterator[str]:
        for flag in self.flags:
            yield from flag.faults()
        if self.devices is not None:
            yield from self.devices.faults()
        if any(not each.names or each.operands < 0 for each in self.starters):
            yield "`starters`: each needs `names`, and `operands` of at least 0"
        if not all(each.old for each in self.renamed):
            yield "`renamed`: `old` is empty"
        if self.wrapper.names and not self.command:
            yield "`wrapper` needs a `command` to run instead"

    def inheriting(self, generic: "Launcher") -> "Launcher":
        """Complete the row with what the row `generic` has for all apps."""
        values = {name: getattr(self, name) or getattr(generic, name) for name in INHERITED}
        values["secret_options"] = (*generic.secret_options, *self.secret_options)
        return msgspec.structs.replace(self, **values)


class AppPackages(Known, frozen=True, kw_only=True):
    """The packages of an app in some channels."""

    IDENTITY = ("app", "channels")
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("channels", "channel"),)
    NOT_EMPTY = ("channels", "names")

    app: str  # key of its profile
    channels: tuple[str, ...]
    names: tuple[str, ...]  # the first has the app's version
    program: str  # path in the tree: "usr/bin/blender"
    programs: tuple[Program, ...]  # that users start by name
    library_dirs: tuple[str, ...] = ()  # in the tree, in addition to the set's
    links: dict[str, str] = msgspec.field(default_factory=dict)  # see `Layout`

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each channel, since only one row may list its packages of an app."""
        for channel in self.channels:
            yield (self.app, channel), ", ".join(self.channels)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield ambiguous names, and paths that leave the tree."""
        yield from _program_faults(self.programs)
        paths = (self.program, *self.library_dirs, *self.links, *self.links.values())
        yield from _path_faults((*paths, *(each.path for each in self.programs)))


class Compiler(Known, frozen=True, kw_only=True):
    """A compiler for GPU code that a channel offers; it is installed into its own env."""

    IDENTITY = ("name",)
    VERSIONS = ("version",)
    REFERS = (("channel", "channel"),)
    NOT_EMPTY = ("packages",)

    name: str  # name of its env, "clang-21"
    version: str  # LLVM version; only the series if the channel updates it
    channel: str
    packages: tuple[str, ...]  # the first has the compiler's version
    targets: tuple[str, ...]  # it compiles for these
    layout: Layout
    apt_dir: str = ""  # as in a ROCm set

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield ambiguous names, and paths that leave the tree."""
        layout = self.layout
        yield from _program_faults(layout.programs)
        yield from _path_faults(
            (*layout.library_dirs, layout.device_libs, *layout.links, *layout.links.values())
        )


class AppBuild(Known, frozen=True, kw_only=True):
    """Builds of an app that include GPU libraries."""

    IDENTITY = ("app", "name", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of its profile
    name: str  # of the publisher
    platform: Literal["linux", "windows"]
    url: str
    asset: str  # file name; `{family}` is the target's entry in `families`
    targets: tuple[str, ...]
    # Their name for a target; absent = the target's own.
    families: dict[str, str] = msgspec.field(default_factory=dict)
    note: str = ""


class AppProgram(Known, frozen=True, kw_only=True):
    """How to ask an app's program for its version."""

    IDENTITY = ("app",)

    app: str  # key of its profile
    arguments: tuple[str, ...]  # make it print the version and exit
    pattern: str  # matches the version; group `version`


class AppRelease(Known, frozen=True, kw_only=True):
    """What some releases of an app require."""

    IDENTITY = ("app", "versions", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of its profile
    versions: str  # PEP 440
    platform: Literal["linux", "windows"]
    without: str = ""  # why it cannot use the GPU at all; "" = it can
    rocm: str = ""  # PEP 440: the releases whose runtime it works with
    libraries: tuple[str, ...] = ()  # names by which it looks for the HIP runtime, in order; () = unknown
    ray_tracing: tuple[str, ...] = ()  # the same, for hardware ray tracing
    runtime: int = 0  # the lowest version that the HIP runtime may report; 0 = it does not check
    driver: str = ""  # the oldest display driver, by AMD's numbers; "" = it does not check
    targets: tuple[str, ...] = ()  # it comes with kernels for these; () = unknown
    denoiser: tuple[str, ...] = ()  # it can denoise on these; () = unknown, or it has no denoiser
    refuses: tuple[str, ...] = ()  # patterns of targets that it rejects, whatever kernels exist
    note: str = ""


def _program_faults(programs: Sequence[Program]) -> Iterator[str]:
    for program in programs:
        if any("/" in name or not name for name in program.names):
            yield f"`programs`: a name of `{program.path}` is empty or contains `/`"
        if program.names and any(character in program.path for character in "*?["):
            yield f"`programs`: `{program.path}` may match several programs, and `names` are for one"


def _path_faults(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            yield f"`{path}` leads out of the tree"

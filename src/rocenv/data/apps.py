"""Profiles of apps: what each needs of an env, how it is started, and how its failures look."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import EnvChange, Layout, Program, Value
from rocenv.core.template import places
from rocenv.data.known import NEWS_DAYS, Known, literal_faults, pattern_faults, range_faults

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Failure(Value, frozen=True, kw_only=True):
    """Something an app prints when it does not work as it should, whatever it exits with.

    Where it has a code it is a sign of that rule too: `diagnose` and `launch` tell it in the rule's words.
    """

    text: str  # as printed, a part of a line
    means: str = ""  # one sentence; "" = the rule of its code says it
    remedy: str = ""  # with places as in a fallback; "" = what the set says
    code: str = ""  # the cause that it shows, of `profiles/rules/`; "" = it has none of its own
    cpu: bool = False  # the app goes on, and the CPU does the work


# `blas-fails`: the env's BLAS has no kernels for the target, or its rung failed while the GPU itself works.
# `fits-itself`: this version chooses how much of a model goes to the GPU, and is allowed to.
CONDITIONS = ("blas-fails", "fits-itself", "model-given")
PLACES = ("device", "layers", "margin_mib", "target")  # in the words of a flag
SIZES = ("context", "parallel", "batch", "cache_k", "cache_v")
# The groups that the patterns of a device list need; `device` is the name of a GPU.
_GROUPS = {"pattern": ("device",), "other": (), "target": ("number", "target")}
# What most apps have in common: how a pipe is made up for, how compilation looks, and what starts them.
INHERITED = ("piped", "coloured", "compiling", "first_run", "starters")


class Flag(Value, frozen=True, kw_only=True):
    """Arguments that are added to an app's, if this very version knows them.

    In words `{device}` is the GPU as the app lists it, `{layers}` and `{margin_mib}` what fits its memory,
    `{target}` the target; in `why` also `{room}` and `{margin}`, where the figures are from.
    """

    words: tuple[str, ...]  # what is added; the first is what the help has to name
    # Other names of the first, by version: the first that the help names is taken.
    spellings: tuple[str, ...] = ()
    when: tuple[str, ...] = ()  # CONDITIONS that all hold; `not-` in front turns one round
    unless: tuple[str, ...] = ()  # arguments that the user may have given: then it is left alone
    given: tuple[str, ...] = ()  # arguments that the user has to have given, all of them
    # Arguments that the help has to name: it means something else in other versions.
    knows: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()  # arguments that the help must not name, for the same reason
    place: Literal["first", "last"] = "last"  # in front of the user's arguments, or behind them
    required: bool = False  # without it nothing holds the app to this env's GPU: then it is not started
    repeats: bool = False  # one of the user's is beside it, and not in its place
    always_known: bool = False  # every version knows it, whether or not its help lists it
    starts: tuple[str, ...] = ()  # programs of which it needs one, by name or place; `$NAME` is a variable
    why: str = ""  # shown when it is added; may hold figures

    def faults(self) -> Iterator[str]:
        """Yield words, conditions and places that mean nothing."""
        if not self.words:
            yield "`flags`: `words` is empty"
        for name in {name.removeprefix("not-") for name in self.when} - set(CONDITIONS):
            yield f"`flags`: there is no condition `{name}`, only {', '.join(CONDITIONS)}"
        for place in {place for word in self.words for place in places(word)} - set(PLACES):
            yield f"`flags`: nothing fills `{{{place}}}`, only {', '.join(PLACES)}"


class Renamed(Value, frozen=True, kw_only=True):
    """An argument that a version took away, and what does the same there."""

    old: tuple[str, ...]  # names that some versions have
    new: tuple[str, ...]  # words; the first is what the help of the others names


class Carried(Value, frozen=True, kw_only=True):
    """What an app's program may carry in a zip archive at the end of its own file."""

    prefix: str  # how arguments name a file in it, "/zip/"
    arguments: str  # the file with its usual arguments, one a line
    rest: str  # the word there that stands for the user's


class DeviceList(Value, frozen=True, kw_only=True):
    """How a program is asked for the GPUs that it can use, without doing anything else."""

    arguments: tuple[str, ...]  # "--list-devices"
    pattern: str  # a line of its answer that is a GPU; group `device` is its name as arguments have it
    other: str = ""  # a line that is another kind of device, such as the CPU
    target: str = ""  # a line that tells a target: groups `number`, which ends a GPU's name, and `target`

    def faults(self) -> Iterator[str]:
        """Yield missing arguments, and patterns that cannot find what they are for."""
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
    """A note to show beside the memory that a model takes."""

    text: str
    argument: str = ""  # only where this one is proposed; "" = always


class Fallback(Value, frozen=True, kw_only=True):
    """What to do at a cause of trouble, in the order in which it is worth trying, before what its rule says.

    In texts and commands `{name}` is the env, `{another}` a name that is free for another one, `{target}` its
    target, `{code_target}` the one that its code is for, `{program}` what was started.
    """

    code: str  # the cause, of `profiles/rules/`
    text: str
    zh: str
    command: str = ""


class Wrapper(Value, frozen=True, kw_only=True):
    """Scripts of an app that undo an env on Linux: its command is started in their place."""

    names: tuple[str, ...] = ()
    does: str = ""  # why it is not run, after "it would": one line
    settings: str = ""  # the file of the user's that it reads; "" = none
    ignored: tuple[str, ...] = ()  # variables in there that only the script reads, or that undo an env


class Blas(Value, frozen=True, kw_only=True):
    """The library of an env that an app has its products from."""

    code: str  # the cause where it has no kernels for the target, of `profiles/rules/`
    libraries: tuple[str, ...]  # patterns of its names: where one is beside the program, that is taken
    kernels: tuple[str, ...]  # patterns of the env's files that are its kernels


class Starter(Value, frozen=True, kw_only=True):
    """Programs that do no more than start the one that is named behind their own arguments."""

    names: tuple[str, ...]
    valued: tuple[str, ...] = ()  # their arguments that are followed by a word of their own
    operands: int = 0  # other words before the program, such as a time
    reads: bool = False  # it runs the file's lines itself, as a shell does
    inline: tuple[str, ...] = ()  # arguments behind which a text is run, which is not looked into


class Needs(Value, frozen=True, kw_only=True):
    """What an app asks of an env; "" = nothing."""

    rocm: str = ""  # PEP 440
    torch: bool = False
    python: str = ""  # PEP 440


class Launcher(Known, frozen=True, kw_only=True):
    """How `rocenv launch` starts an app.

    In commands and values `{python}` is the env's Python, `{batch_python}` the same for a batch file that
    puts no quotes around it, `{prefix}` the env, `{columns}` the width of the terminal. Files are relative to
    the app's folder, with `/`. What is in `INHERITED` and left out is as in the row `generic`; the
    `secret_options` of that row are every app's.
    """

    IDENTITY = ("key",)
    FRESH_DAYS = NEWS_DAYS

    key: str  # as in `--app`
    title: str
    signs: tuple[str, ...] = ()  # files that are all there in its folder; () = it is never recognised by them
    unlike: tuple[str, ...] = ()  # files that are not: they are a relative's
    command: tuple[str, ...] = ()  # what is started where none is given; () = one must be given
    entries: tuple[str, ...] = ()  # programs that take its arguments
    programs: tuple[str, ...] = ()  # patterns of program names by which it is recognised, "llama-*"
    helpers: tuple[str, ...] = ()  # its programs that have nothing to do on a GPU
    platforms: tuple[str, ...] = ("linux", "windows")
    needs: Needs = Needs()
    help: tuple[str, ...] = ()  # arguments that make it list all of its arguments
    modes: tuple[str, ...] = ()  # arguments that decide which ones it has: given with `help`
    only_tells: tuple[str, ...] = ()  # arguments with which it tells something and ends
    # Arguments that are read only behind a lone `--`, which ends its own; () = it ends none.
    behind_dashes: tuple[str, ...] = ()
    model: tuple[str, ...] = ()  # arguments that a model's file follows
    fetched: tuple[str, ...] = ()  # arguments that name a model to be fetched
    # What of SIZES a model's memory depends on -> the argument that sets it.
    sizes: dict[str, str] = msgspec.field(default_factory=dict)
    carried: Carried | None = None
    fit: str = ""  # the argument of versions that choose by themselves how much of a model goes to the GPU
    fit_off: tuple[str, ...] = ()  # what switches that off, "--fit off"
    fit_margin_mib: int = 0  # what that leaves free on a GPU; 0 = not known
    fit_misjudges_integrated: bool = False  # it knows too little of GPUs that compute in the machine's memory
    memory_notes: tuple[MemoryNote, ...] = ()  # of `mem model`
    math_library: Blas | None = None  # None = it uses none of the env's
    cpu: tuple[str, ...] = ()  # what a user gives who wants the CPU, "-ngl 0"
    not_hip: tuple[str, ...] = ()  # what a user gives who wants a GPU by another interface, "--gpu vulkan"
    devices: DeviceList | None = None
    flags: tuple[Flag, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    wrapper: Wrapper = Wrapper()
    own_torch: tuple[str, ...] = ()  # arguments that keep it from installing a torch; left out with ZLUDA
    gpu_used: tuple[str, ...] = ()  # texts that it prints once it works on the GPU; () = it prints none
    # Arguments with which it does work that the GPU is for, "-b + -P" where it takes both; () = any.
    gpu_work: tuple[str, ...] = ()
    gpu_work_shown: tuple[str, ...] = ()  # texts that it prints when it begins such work
    fallbacks: tuple[Fallback, ...] = ()
    zluda_arguments: tuple[str, ...] = ()  # added where the env has ZLUDA and they are not there
    arguments_variable: str = ""  # holds more arguments; "" = there is none
    environment: tuple[EnvChange, ...] = ()
    piped: tuple[EnvChange, ...] = ()  # where its output goes through a pipe
    coloured: tuple[EnvChange, ...] = ()  # where that pipe stands for a terminal
    own_zluda: tuple[str, ...] = ()  # where it looks for a ZLUDA of its own
    zluda_variable: str = ""  # what makes it take another one; "" = its own would win
    own_python: tuple[str, ...] = ()  # folders of a Python of its own
    bypasses: tuple[str, ...] = ()  # programs that start its own Python and ZLUDA whatever is set
    settings: tuple[str, ...] = ()  # programs that take their arguments from themselves and nowhere else
    deletes_zluda: tuple[str, ...] = ()  # arguments, or files in the ZLUDA folder, that make it delete that
    deletes_zluda_if_set: tuple[str, ...] = ()  # variables that do the same, whatever they hold
    shims: Literal["any", "private", "torch"] = "any"  # how ZLUDA has to be put in front for it
    logs: tuple[str, ...] = ()  # of its own
    failures: tuple[Failure, ...] = ()
    compiling: str = ""  # what is printed when kernels are being compiled
    first_run: str = ""  # what to know about that
    starters: tuple[Starter, ...] = ()
    # Arguments whose values only the user may see, beside those whose names say so (`--api-key`).
    secret_options: tuple[str, ...] = ()
    silence_s: int = 60  # of no output, before a note says so

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield causes that no rule has, texts that cannot be searched for, and arguments that cannot be."""
        yield from self._cause_faults(matrix)
        yield from self._text_faults()
        yield from self._argument_faults()
        for name in ("rocm", "python"):
            yield from range_faults(f"needs.{name}", getattr(self.needs, name))
        for rule in matrix.never_together:
            for change in (*self.environment, *self.piped, *self.coloured):
                yield from rule.violations((change.name,), change.value)

    def _cause_faults(self, matrix: "Matrix") -> Iterator[str]:
        codes = [("failures", each.code) for each in self.failures if each.code]
        codes += [("fallbacks", each.code) for each in self.fallbacks]
        codes += [("math_library", self.math_library.code)] if self.math_library else []
        known = matrix.names("rule", "code")
        yield from (f"`{field}`: there is no rule `{code}`" for field, code in codes if code not in known)
        for failure in self.failures:
            if not failure.code and not failure.means:
                yield f"`failures`: `{failure.text}` has neither `means` nor `code`"
        for fallback in self.fallbacks:
            if not fallback.text or not fallback.zh:
                yield f"`fallbacks`: the one for `{fallback.code}` lacks a text in a language"

    def _text_faults(self) -> Iterator[str]:
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
        for size in set(self.sizes) - set(SIZES):
            yield f"`sizes`: there is no size `{size}`, only {', '.join(SIZES)}"
        if self.fit_margin_mib < 0:
            yield "`fit_margin_mib` is below 0"
        if any(not each.names or each.operands < 0 for each in self.starters):
            yield "`starters`: each needs `names`, and `operands` of at least 0"
        if not all(each.new for each in self.renamed):
            yield "`renamed`: `new` is empty"
        if self.wrapper.names and not self.command:
            yield "`wrapper` needs a `command` to start in its place"

    def inheriting(self, generic: "Launcher") -> "Launcher":
        """Take what the row leaves out from the row of any program."""
        values = {name: getattr(self, name) or getattr(generic, name) for name in INHERITED}
        values["secret_options"] = (*generic.secret_options, *self.secret_options)
        return msgspec.structs.replace(self, **values)


class AppPackages(Known, frozen=True, kw_only=True):
    """The packages that channels have of an app."""

    IDENTITY = ("app", "channels")
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("channels", "channel"),)
    NOT_EMPTY = ("channels", "names")

    app: str  # key of the launcher
    channels: tuple[str, ...]
    names: tuple[str, ...]  # the first is the one whose version is the app's
    program: str  # what it is, below the tree: "usr/bin/blender"
    programs: tuple[Program, ...]  # what people start by name
    library_dirs: tuple[str, ...] = ()  # below the tree, beside those of the set
    links: dict[str, str] = msgspec.field(default_factory=dict)  # see `Layout`

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each channel: only one row may say what a channel has of an app."""
        for channel in self.channels:
            yield (self.app, channel), ", ".join(self.channels)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield names that are ambiguous, and paths that lead out of the tree."""
        yield from _program_faults(self.programs)
        paths = (self.program, *self.library_dirs, *self.links, *self.links.values())
        yield from _path_faults((*paths, *(each.path for each in self.programs)))


class Compiler(Known, frozen=True, kw_only=True):
    """A compiler for GPU code that a channel offers separately; it becomes an env of its own."""

    IDENTITY = ("name",)
    VERSIONS = ("version",)
    REFERS = (("channel", "channel"),)
    NOT_EMPTY = ("packages",)

    name: str  # of the env that it becomes, "clang-21"
    version: str  # of LLVM; its series where the channel moves on
    channel: str
    packages: tuple[str, ...]  # the first is the one whose version is the compiler's
    targets: tuple[str, ...]  # that it compiles for
    layout: Layout
    apt_dir: str = ""  # as in a ROCm set

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield names that are ambiguous, and paths that lead out of the tree."""
        layout = self.layout
        yield from _program_faults(layout.programs)
        yield from _path_faults(
            (*layout.library_dirs, layout.device_libs, *layout.links, *layout.links.values())
        )


class AppBuild(Known, frozen=True, kw_only=True):
    """Builds of an app that bring GPU libraries of their own."""

    IDENTITY = ("app", "name", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of the launcher
    name: str  # who publishes them
    platform: Literal["linux", "windows"]
    url: str  # where they are
    asset: str  # how a file is called; `{family}` as `families` has it
    targets: tuple[str, ...]
    # What a target is called there; absent = the same.
    families: dict[str, str] = msgspec.field(default_factory=dict)
    note: str = ""


class AppProgram(Known, frozen=True, kw_only=True):
    """How an app's program is asked which release it is, and what it loads as it runs."""

    IDENTITY = ("app",)

    app: str  # key of the launcher
    arguments: tuple[str, ...]  # that make it print its version and end
    pattern: str  # of that print; group `version`
    runtime: str = ""  # pattern of the HIP runtime's library; "" = what is loaded is not looked at
    compiler: str = ""  # the same, of the compiler library that it opens
    loads: tuple[str, ...] = ()  # patterns of libraries that are loaded by name, beside the runtime
    shows: tuple[str, ...] = ()  # the same, where it opens a window
    windowless: tuple[str, ...] = ()  # arguments with which it opens none


class AppRelease(Known, frozen=True, kw_only=True):
    """Releases of an app that ask the same."""

    IDENTITY = ("app", "versions", "platform")
    FRESH_DAYS = NEWS_DAYS

    app: str  # key of the launcher
    versions: str  # PEP 440
    platform: Literal["linux", "windows"]
    without: str = ""  # why it has no use for the GPU at all; "" = it has
    rocm: str = ""  # PEP 440: releases whose runtime it works with
    libraries: tuple[str, ...] = ()  # the HIP runtime as it looks for it, in that order; () = not read
    ray_tracing: tuple[str, ...] = ()  # the same, for ray tracing in hardware
    runtime: int = 0  # the least that the HIP runtime may answer as its version; 0 = not checked
    driver: str = ""  # the oldest display driver, as AMD counts them; only where the release checks it
    targets: tuple[str, ...] = ()  # its maker builds kernels for; () = not read
    denoiser: tuple[str, ...] = ()  # targets that it denoises on; () = not read, or it has none
    refuses: tuple[str, ...] = ()  # patterns of targets that it does not take, whatever kernels there are
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

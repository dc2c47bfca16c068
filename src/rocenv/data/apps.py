"""Profiles of apps: what each needs of an env, how it is made to use it, and how its failures look."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from rocenv.core.model import EnvChange  # noqa: TC001 - the reader needs the type at run time
from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something an app prints when it does not work as it should, whatever it exits with.

    Where it has a code it is a sign of that rule too: `diagnose` and `launch` tell it in the rule's words.
    """

    text: str  # as printed, a part of a line
    means: str = ""  # one sentence; "" = the rule of its code says it
    remedy: str = ""  # with places as in a fallback; "" = what the set says
    code: str = ""  # the cause that it shows, of `profiles/rules/`; "" = it has none of its own
    cpu: bool = False  # the app goes on, and the CPU does the work


# `blas-fails`: the env's BLAS has no kernels for the target, or its rung failed while the GPU itself works.
# `fits-itself`: this version chooses how much of a model goes to the GPU, and is let do it.
CONDITIONS = ("blas-fails", "fits-itself", "model-given")
PLACES = ("{device}", "{layers}", "{margin_mib}", "{target}")  # in the words of a flag
SIZES = ("context", "parallel", "batch", "cache_k", "cache_v")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Arguments that are added to an app's, if this very version knows them.

    In words `{device}` is the GPU as the app lists it, `{layers}` and `{margin_mib}` what fits its memory,
    `{target}` the target; in `why` also `{room}` and `{margin}`, where the figures are from.
    """

    words: tuple[str, ...]  # what is added; the first is what the help has to name
    spellings: tuple[
        str, ...
    ] = ()  # other names of the first, by version: the first that the help names is taken
    when: tuple[str, ...] = ()  # CONDITIONS that all hold; `not-` in front turns one round
    unless: tuple[str, ...] = ()  # arguments that the user may have given: then it is left alone
    given: tuple[str, ...] = ()  # arguments that the user has to have given, all of them
    knows: tuple[
        str, ...
    ] = ()  # arguments that the help has to name: it means something else in other versions
    lacks: tuple[str, ...] = ()  # arguments that the help must not name, for the same reason
    place: Literal["first", "last"] = "last"  # in front of the user's arguments, or behind them
    required: bool = False  # without it nothing holds the app to this env's GPU: then it is not started
    repeats: bool = False  # one of the user's is beside it, and not in its place
    always_known: bool = False  # every version knows it, whether or not its help lists it
    starts: tuple[str, ...] = ()  # programs of which it needs one, by name or place; `$NAME` is a variable
    why: str = ""  # told when it is added; may hold figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """An argument that a version took away, and what does the same there."""

    old: tuple[str, ...]  # names that some versions have
    new: tuple[str, ...]  # words; the first is what the help of the others names


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What an app's program may carry in a zip archive at the end of its own file."""

    prefix: str  # how arguments name a file in it, "/zip/"
    arguments: str  # the file with its usual arguments, one a line
    rest: str  # the word there that stands for the user's


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceList:
    """How a program is asked for the GPUs that it can use, without doing anything else."""

    arguments: tuple[str, ...]  # "--list-devices"
    pattern: str  # a line of its answer that is a GPU; group `device` is its name as arguments have it
    other: str = ""  # a line that is another kind of device, such as the CPU
    target: str = ""  # a line that tells a target: groups `number`, which ends a GPU's name, and `target`


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNote:
    """What has to be known where it is told how much memory a model takes."""

    text: str
    argument: str = ""  # only where this one is proposed; "" = always


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What to do at a cause of trouble, in the order in which it is worth trying, before what its rule says.

    In texts and commands `{name}` is the env, `{another}` a name that is free for another one, `{target}` its
    target, `{code_target}` the one that its code is for, `{program}` what was started.
    """

    code: str  # the cause, of `profiles/rules/`
    text: str
    zh: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """Scripts of an app that undo an env on Linux: its command is started in their place."""

    names: tuple[str, ...] = ()
    does: str = ""  # why it is not run, after "it would": one line
    settings: str = ""  # the file of the user's that it reads; "" = none
    ignored: tuple[str, ...] = ()  # variables in there that only the script reads, or that undo an env


@dataclass(frozen=True, slots=True, kw_only=True)
class Blas:
    """The library of an env that an app has its products from."""

    code: str  # the cause where it has no kernels for the target, of `profiles/rules/`
    libraries: tuple[str, ...]  # patterns of its names: where one lies beside the program, that is taken
    kernels: tuple[str, ...]  # patterns of the env's files that are its kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Programs that do no more than start the one that is named behind their own arguments."""

    names: tuple[str, ...]
    valued: tuple[str, ...] = ()  # their arguments that are followed by a word of their own
    operands: int = 0  # other words before the program, such as a time
    reads: bool = False  # it runs the file's lines itself, as a shell does
    inline: tuple[str, ...] = ()  # arguments behind which a text is run, which is not looked into


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an app asks of an env; "" = nothing."""

    rocm: str = ""  # PEP 440
    torch: bool = False
    python: str = ""  # PEP 440


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher(Known):
    """How `rocenv launch` starts an app. Table `launcher`.

    In commands and values `{python}` is the env's Python, `{batch_python}` the same for a batch file that
    puts no quotes around it, `{prefix}` the env, `{columns}` the width of the terminal. Files are relative to
    the app's folder, with `/`. What is in `INHERITED` and left out is as in the row `generic`.
    """

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
    sizes: dict[str, str] = field(default_factory=dict)
    carried: Carried | None = None
    fit: str = ""  # the argument of versions that choose by themselves how much of a model goes to the GPU
    fit_off: tuple[str, ...] = ()  # what switches that off, "--fit off"
    fit_margin_mib: int = 0  # what that leaves free on a GPU; 0 = not known
    fit_misjudges_integrated: bool = False  # it knows too little of GPUs that compute in the machine's memory
    memory_notes: tuple[MemoryNote, ...] = ()  # to what `mem --model` tells
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
    silence_s: int = 60  # of no output, before that is told


# What most apps have in common: how a pipe is made up for, how compilation looks, and what starts them.
INHERITED = ("piped", "coloured", "compiling", "first_run", "starters")


def inherited(row: Launcher, generic: Launcher) -> Launcher:
    """Return a row with what it leaves to the one of any program."""
    return replace(row, **{name: getattr(row, name) or getattr(generic, name) for name in INHERITED})


TABLES: dict[str, type[Known]] = {"launcher": Launcher}

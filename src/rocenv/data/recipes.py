"""How the GPU kernels of an app are compiled from its own source, and where the app looks for them."""

from typing import Literal

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known


class StandIn(Value, frozen=True, kw_only=True):
    """A program that an app looks for before it takes ready kernels, and that need not do much."""

    name: str  # "hipcc"
    kind: Literal["compiler", "finder"]  # the compiler that made the kernels; a `which`


class KernelSource(Known, frozen=True, kw_only=True):
    """Where an app keeps the source of its kernels, and where it looks for ready ones.

    Paths are below an installation, and may hold patterns.
    """

    IDENTITY = ("app",)

    app: str  # key of the launcher, and of the option that names the program
    title: str
    since: str  # the first version that has kernels for these GPUs
    folders: tuple[str, ...]  # that hold `code` and `precompiled`
    code: str  # folder of the source
    precompiled: str  # folder of the kernels that come with it
    programs: tuple[str, ...]
    version_arguments: tuple[str, ...]  # with which the program says its version
    version_pattern: str  # what it answers; group `version`
    version_folder: str = ""  # its folder of resources, where the name is its version; group `version`
    cache: str = ""  # folder of kernels that it compiled itself, below XDG_CACHE_HOME, on Linux
    stand_ins: tuple[StandIn, ...] = ()  # without them it looks at nothing, where it came without kernels
    resources_up: int = 1  # how many levels the folder of all of its resources lies above `folders`
    resources_variable: str = ""  # names another one
    resources_since: str = ""  # the first version that has this variable


class BuiltWith(Value, frozen=True, kw_only=True):
    """What else it takes where the program was built so."""

    text: str  # holds this if it was
    flags: tuple[str, ...]
    named: str  # what comes behind `name_of_flags`


class KernelRecipe(Known, frozen=True, kw_only=True):
    """How one kind of kernels of an app is made.

    In words `{source}` is the source folder, `{target}` the target, `{include}` the folder of further
    headers, `{md5}` what the app itself makes of its source and flags.
    """

    IDENTITY = ("app", "kind", "versions")

    app: str
    kind: str  # "hip", "hiprt"; the first of an app is what is made where nothing else is asked for
    title: str
    versions: str  # of the app, PEP 440
    file: str  # what is compiled, below the source folder
    flags: tuple[str, ...]
    precompiled: str  # name of a kernel that comes with the app, without `.zst`
    precompiled_text: str  # the program holds it, with `.zst` behind it where such files are compressed
    cached: str = ""  # name of one that the app compiled itself
    flags_text: str = ""  # pattern: the flags that the name stands for, as the program holds them
    flags_more: str = ""  # behind them
    built_with: tuple[BuiltWith, ...] = ()
    headers: str = ""  # a file below `{include}`, which the source does not have
    headers_from: str = ""  # where to get them
    kernels: int = 0  # how many it has, where that was counted; 0 = unknown
    seconds: int = 0  # what compiling takes, about


class CodeObjects(Known, frozen=True, kw_only=True):
    """How code for a GPU is marked."""

    IDENTITY = ("elf_machine",)

    elf_machine: int
    mask: int  # of the flags, where the target stands
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

"""Rows about compiling an app's GPU kernels from its source."""

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known


class KernelSource(Known, frozen=True, kw_only=True):
    """Where to find an app's kernel sources and compiled kernels.

    Paths are relative to the installation and can contain patterns.
    """

    IDENTITY = ("app",)

    app: str  # key of the app's profile; also the option for the program's path
    title: str
    folders: tuple[str, ...]  # folders that contain `code` and `precompiled`
    code: str  # source folder
    precompiled: str  # folder with the app's own compiled kernels
    programs: tuple[str, ...]
    version_arguments: tuple[str, ...]  # arguments that print the version
    version_pattern: str  # matches the output; group `version`
    version_folder: str = ""  # matches a resource folder named after the version; group `version`
    resources_up: int = 1  # number of levels from `folders` up to the resource folder
    resources_variable: str = ""  # variable that selects a different resource folder
    resources_since: str = ""  # first version that reads this variable


class BuiltWith(Value, frozen=True, kw_only=True):
    """Additional flags for programs built with an option."""

    text: str  # string in programs built with the option
    flags: tuple[str, ...]


class KernelRecipe(Known, frozen=True, kw_only=True):
    """The build recipe for one kind of kernel.

    `{source}` is the source folder, `{target}` the target, `{include}` the folder with additional headers.
    """

    IDENTITY = ("app", "kind", "versions")

    app: str
    kind: str  # "hip", "hiprt"; an app's first kind is the default
    title: str
    versions: str  # app versions, PEP 440
    file: str  # file to compile, relative to the source folder
    flags: tuple[str, ...]
    precompiled: str  # file name of the app's own kernel, without `.zst`
    # Text in every program that loads this kind of kernel, followed by `.zst` if the program loads compressed
    # files.
    precompiled_text: str
    built_with: tuple[BuiltWith, ...] = ()
    headers: str = ""  # additional header below `{include}`
    headers_from: str = ""  # where to download it
    kernels: int = 0  # number of kernels in the file; 0 if unknown
    seconds: int = 0  # approximate compile time


class CodeObjects(Known, frozen=True, kw_only=True):
    """How to identify GPU code in ELF files."""

    IDENTITY = ("elf_machine",)

    elf_machine: int
    mask: int  # bits in `e_flags` that contain the target's number
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

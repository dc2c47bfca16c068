"""How an app's GPU kernels are compiled from its source, and where the app looks for them."""

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known


class KernelSource(Known, frozen=True, kw_only=True):
    """Where an app has the source of its kernels, and where it looks for compiled ones.

    Paths are relative to the installation and may contain patterns.
    """

    IDENTITY = ("app",)

    app: str  # key of the launcher; also the option that names the program
    title: str
    folders: tuple[str, ...]  # with `code` and `precompiled` in them
    code: str  # folder of the source
    precompiled: str  # folder of the kernels that the app ships with
    programs: tuple[str, ...]
    version_arguments: tuple[str, ...]  # make the program print its version
    version_pattern: str  # its answer; group `version`
    version_folder: str = ""  # name of its resource folder, if that is its version; group `version`
    resources_up: int = 1  # how many levels above `folders` the folder of all resources is
    resources_variable: str = ""  # the variable that names another resource folder
    resources_since: str = ""  # the first version that reads this variable


class BuiltWith(Value, frozen=True, kw_only=True):
    """Flags that depend on how the program was built."""

    text: str  # the program contains it if it was built that way
    flags: tuple[str, ...]


class KernelRecipe(Known, frozen=True, kw_only=True):
    """How one kind of kernel is compiled.

    Placeholders: `{source}` is the source folder, `{target}` the target, `{include}` the folder of the
    additional headers.
    """

    IDENTITY = ("app", "kind", "versions")

    app: str
    kind: str  # "hip", "hiprt"; an app's first kind is the default
    title: str
    versions: str  # of the app, PEP 440
    file: str  # what is compiled, relative to the source folder
    flags: tuple[str, ...]
    precompiled: str  # file name of such a kernel in the app's own folder, without `.zst`
    precompiled_text: (
        str  # in every program that loads the kind; with `.zst` after it if files are compressed
    )
    built_with: tuple[BuiltWith, ...] = ()
    headers: str = ""  # a file below `{include}` that the source lacks
    headers_from: str = ""  # where to download it
    kernels: int = 0  # how many kernels it contains; 0 = not counted
    seconds: int = 0  # about how long compiling takes


class CodeObjects(Known, frozen=True, kw_only=True):
    """How ELF files are marked as code for a GPU."""

    IDENTITY = ("elf_machine",)

    elf_machine: int
    mask: int  # the bits of `e_flags` that hold the number of the target
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

"""Rows about compiling Blender's GPU kernels from its source."""

from typing import Literal

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known


class BuiltWith(Value, frozen=True, kw_only=True):
    """Additional flags for programs built with a certain option."""

    text: str  # string that only such programs contain
    flags: tuple[str, ...]


class KernelRecipe(Known, frozen=True, kw_only=True):
    """The build recipe for one kind of kernel.

    `{source}` is the source folder, `{target}` the target, `{include}` the folder with additional headers.
    """

    IDENTITY = ("kind", "versions")
    RANGES = ("versions", "overlay")

    kind: Literal["hip", "hiprt"]
    title: str
    versions: str  # Blender versions, PEP 440
    file: str  # file to compile, relative to the source folder
    flags: tuple[str, ...]
    precompiled: str  # file name of Blender's own kernel, without `.zst`
    # Text in every program that loads this kind of kernel, followed by `.zst` if the program loads compressed
    # files.
    precompiled_text: str
    built_with: tuple[BuiltWith, ...] = ()
    headers: str = ""  # additional header below `{include}`
    headers_from: str = ""  # where to download it
    overlay: str = ""  # versions that can load the kernel from an overlay, PEP 440; "" for all
    kernels: int = 0  # number of kernels in the file; 0 if unknown
    seconds: int = 0  # approximate compile time


class CodeObjects(Known, frozen=True, kw_only=True):
    """How to identify GPU code in ELF files."""

    IDENTITY = ("elf_machine",)

    elf_machine: int
    mask: int  # bits of `e_flags` that contain the target's number
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

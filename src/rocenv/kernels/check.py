"""Check the compiler's output: it must contain kernels for the target."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.data.recipes import CodeObjects

# Source: https://clang.llvm.org/docs/ClangOffloadBundler.html, "Bundled Binary File Layout"
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_MAX_ENTRIES = 1000
_ELF = b"\x7fELF"
# A kernel descriptor's symbol ends with this. Source: https://llvm.org/docs/AMDGPUUsage.html, "Symbols"
_DESCRIPTOR = ".kd"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a kernel file contains."""

    kernels: int
    flags: int  # the code object's `e_flags`


def check(content: bytes, target: str, rows: Sequence[CodeObjects]) -> Checked:
    """Inspect a code object, or the one for `target` in an offload bundle.

    Raises:
        RocenvError: A GPU with that target cannot run it.
    """
    try:
        return _checked(_code_for(content, target), target, rows)
    except RocenvError:
        raise
    except Exception as error:  # damaged files make pyelftools raise all kinds of exceptions
        raise _rejected(f"it cannot be read: {error}") from error


def _code_for(content: bytes, target: str) -> bytes:
    if content.startswith(_ELF):
        return content
    if not content.startswith(_MAGIC):
        raise _rejected("it is neither a code object nor an offload bundle")
    entries = dict(_entries(content))
    for name, code in entries.items():
        if name.split("--")[-1].split(":")[0] == target:
            return code
    raise _rejected(f"it has no code for {target}, only for {', '.join(entries) or 'nothing'}")


def _entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    (count,) = struct.unpack_from("<Q", content, len(_MAGIC))
    at = len(_MAGIC) + 8
    for _ in range(min(count, _MAX_ENTRIES)):
        offset, size, length = struct.unpack_from("<QQQ", content, at)
        at += 24
        name = content[at : at + length].decode("ascii", "replace")
        at += length
        if offset + size > len(content):
            raise _rejected("it is truncated")
        yield name, content[offset : offset + size]


def _checked(code: bytes, target: str, rows: Sequence[CodeObjects]) -> Checked:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(code))
    flags = int(elf.header["e_flags"])
    (machine,) = struct.unpack_from("<H", code, 18)
    row = next((each for each in rows if target in each.numbers), None)
    if row is not None and machine != row.elf_machine:
        raise _rejected(f"its ELF machine is {machine}; AMD GPUs have {row.elf_machine}")
    if row is not None and flags & row.mask != row.numbers[target]:
        found = next((name for name, number in row.numbers.items() if number == flags & row.mask), hex(flags))
        raise _rejected(f"it is for {found}, not for {target}")
    names = {  # in a set, because a descriptor can be in two symbol tables
        symbol.name
        for section in elf.iter_sections()
        if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
        if symbol.name.endswith(_DESCRIPTOR)
    }
    if not names:
        raise _rejected("it contains no kernel")
    return Checked(len(names), flags)


def _rejected(why: str) -> RocenvError:
    return RocenvError(
        f"the compiler's output does not work on this GPU: {why}",
        hints=("try the compiler in a different env with `--env`",),
        code="kernels-bad-result",
    )

"""What a compiler made: a bundle with code for the target in it, and kernels in that."""

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
_MOST_ENTRIES = 1000
_ELF = b"\x7fELF"
_DESCRIPTOR = ".kd"  # the symbol of a kernel's descriptor. Source: llvm.org/docs/AMDGPUUsage.html, "Symbols"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in a file of kernels."""

    kernels: int
    flags: int  # of the code object


def check(content: bytes, target: str, rows: Sequence[CodeObjects]) -> Checked:
    """Return what a file of kernels holds for a target.

    Raises:
        RocenvError: It is not what a GPU of that target can run.
    """
    try:
        code = _code_for(content, target)
        return _checked(code, target, rows)
    except RocenvError:
        raise
    except Exception as error:  # the reader raises what it likes at damaged files
        raise _refused(f"it cannot be read: {error}") from error


def _code_for(content: bytes, target: str) -> bytes:
    if content.startswith(_ELF):
        return content
    if not content.startswith(_MAGIC):
        raise _refused("it is neither a code object nor a bundle of some")
    entries = dict(_entries(content))
    found = next(
        (code for name, code in entries.items() if name.split("--")[-1].split(":")[0] == target), None
    )
    if found is None:
        raise _refused(f"it holds no code for {target}, but for {', '.join(entries) or 'nothing'}")
    return found


def _entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    (count,) = struct.unpack_from("<Q", content, len(_MAGIC))
    at = len(_MAGIC) + 8
    for _ in range(min(count, _MOST_ENTRIES)):
        offset, size, length = struct.unpack_from("<QQQ", content, at)
        at += 24
        name = content[at : at + length].decode("ascii", "replace")
        at += length
        if offset + size > len(content):
            raise _refused("it is cut short")
        yield name, content[offset : offset + size]


def _checked(code: bytes, target: str, rows: Sequence[CodeObjects]) -> Checked:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(code))
    flags = int(elf.header["e_flags"])
    (machine,) = struct.unpack_from("<H", code, 18)
    row = next((each for each in rows if target in each.numbers), None)
    if row is not None and machine != row.elf_machine:
        raise _refused(f"it is for the machine {machine}, not for AMD GPUs ({row.elf_machine})")
    if row is not None and flags & row.mask != row.numbers[target]:
        found = next((name for name, number in row.numbers.items() if number == flags & row.mask), hex(flags))
        raise _refused(f"it is for {found}, not for {target}")
    names = {
        symbol.name
        for section in elf.iter_sections()
        if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
        if symbol.name.endswith(_DESCRIPTOR)
    }
    if not names:
        raise _refused("it holds no kernel")
    return Checked(len(names), flags)


def _refused(why: str) -> RocenvError:
    return RocenvError(
        f"what the compiler made is no kernel for this GPU: {why}",
        hints=("try another compiler: `--env NAME`",),
        code="kernels-bad-result",
    )

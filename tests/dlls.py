"""Real DLLs, built with mingw."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pefile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TOOLS = "x86_64-w64-mingw32"
_RESOURCE = """
1 VERSIONINFO
FILEVERSION {numbers}
PRODUCTVERSION {numbers}
BEGIN
  BLOCK "StringFileInfo"
  BEGIN
    BLOCK "040904E4"
    BEGIN
      VALUE "FileVersion", "{text}"
      VALUE "ProductVersion", "{text}"
    END
  END
  BLOCK "VarFileInfo" BEGIN VALUE "Translation", 0x409, 1252 END
END
"""


# A delay-load import table, which Microsoft's linker writes but GNU's cannot.
# Source: learn.microsoft.com, "PE Format", Delay-Load Import Tables
_DELAYED = """
asm(".section .rdata\\n"
    ".globl delayed_table\\n"
    "delayed_table: .long 1\\n .rva 1f, 2f, 3f, 4f\\n .long 0, 0, 0\\n .zero 32\\n"
    "1: .asciz \\"{name}\\"\\n .balign 8\\n"
    "2: .quad 0\\n"
    "3: .quad 5f\\n .quad 0\\n"
    "4: .rva 5f\\n .long 0\\n .quad 0\\n"
    "5: .word 0\\n .asciz \\"answer\\"\\n .text\\n");
extern __declspec(dllexport) char delayed_table[];
asm(".section .drectve\\n .ascii \\" -export:delayed_table,data\\"\\n .text\\n");
"""


def dll(
    path: Path,
    *,
    needs: Sequence[Path] = (),
    exports: Sequence[str] = ("answer",),
    numbers: str = "",
    text: str = "",
    delayed: str = "",
) -> Path:
    """Build a DLL that imports one function from each DLL in `needs`.

    Args:
        path: The file to write. Its folder must exist.
        needs: Existing DLLs that it imports.
        exports: The functions that it exports.
        numbers: The numeric version, `5,7,1,0`; without it and `text`, the DLL has no version resource.
        text: The version as text.
        delayed: The name of a DLL that it loads on demand.
    """
    build = path.with_name(f"{path.name}.build")
    build.mkdir()
    lines = [f"__declspec(dllexport) int {name}(void) {{ return 42; }}" for name in exports]
    libraries = []
    for number, needed in enumerate(needs):
        # Import each function under its own symbol, because several DLLs export the same name.
        definition = build / f"{number}.def"
        symbol = f"{needed.stem.replace('-', '_').replace('.', '_')}_answer"
        definition.write_text(f"LIBRARY {needed.name}\nEXPORTS\n{symbol} = answer\n")
        library = build / f"lib{number}.a"
        _run([f"{_TOOLS}-dlltool", "-d", definition, "-l", library, "-D", needed.name])
        lines.append(f"int {symbol}(void); int call_{number}(void) {{ return {symbol}(); }}")
        libraries.append(library)
    if delayed:
        lines.append(_DELAYED.format(name=delayed))
    (build / "x.c").write_text("\n".join(lines))
    objects = []
    if numbers or text:
        (build / "x.rc").write_text(_RESOURCE.format(numbers=numbers or "0,0,0,0", text=text))
        _run([f"{_TOOLS}-windres", build / "x.rc", build / "x.res.o"])
        objects.append(build / "x.res.o")
    _run([f"{_TOOLS}-gcc", "-shared", "-s", "-o", path, build / "x.c", *objects, *libraries])
    shutil.rmtree(build)
    if delayed:
        _enter_delayed_table(path)
    return path


def _enter_delayed_table(path: Path) -> None:
    with pefile.PE(data=path.read_bytes()) as pe:
        table = next(each for each in pe.DIRECTORY_ENTRY_EXPORT.symbols if each.name == b"delayed_table")
        pe.OPTIONAL_HEADER.DATA_DIRECTORY[13].VirtualAddress = table.address
        pe.OPTIONAL_HEADER.DATA_DIRECTORY[13].Size = 64
        path.write_bytes(pe.write())


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

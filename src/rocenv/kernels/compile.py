"""Run the compiler, and check that its output contains kernels for the target."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system import process
from rocenv.system.exit_codes import describe_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from rocenv.core.progress import Progress
    from rocenv.data.recipes import CodeObjects
    from rocenv.kernels.recipe import Job

_TIMEOUT_S = 3600.0
_VERSION_TIMEOUT_S = 60.0
_SHOWN_LINES = 12
_SHOWN_WIDTH = 300
_SEARCHED_BYTES = 16 << 20  # at the end of a log
_TARGET_ERRORS = (
    "cannot find ROCm device library",
    "unsupported HIP gpu architecture",
    "unknown target CPU",
)
# Source: https://clang.llvm.org/docs/ClangOffloadBundler.html, "Bundled Binary File Layout"
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_MAX_ENTRIES = 1000
_ELF = b"\x7fELF"
# A kernel descriptor's symbol ends with this. Source: https://llvm.org/docs/AMDGPUUsage.html, "Symbols"
_DESCRIPTOR = ".kd"


def command(toolchain: Toolchain, job: Job, output: Path) -> list[str]:
    """Build a command line that creates a bundle with only GPU code, like `hipcc --genco`."""
    options = ["-x", "hip", "--cuda-device-only", f"--offload-arch={job.target}"]
    if toolchain.device_libs is not None:
        options.append(f"--rocm-device-lib-path={toolchain.device_libs}")
    options.append(f"--rocm-path={toolchain.include.parent}")
    return [str(toolchain.clang), *options, *job.flags, str(job.file), "-o", str(output)]


def compiler_version(toolchain: Toolchain) -> str:
    """Get a compiler's version; raise RocenvError if the compiler does not start."""
    answer = process.run(
        [str(toolchain.clang), "--version"], stderr=process.MERGE, timeout_s=_VERSION_TIMEOUT_S
    )
    lines = [line.strip()[:_SHOWN_WIDTH] for line in answer.lines]
    if not answer.ok:
        last = f", last line: `{lines[-1]}`" if lines else ""
        raise RocenvError(
            f"the compiler `{toolchain.name}` does not start: {answer.end}{last}",
            hints=(f"rocenv repair {shell_join(toolchain.env)}",),
            code="kernels-no-compiler",
        )
    # The dynamic loader can print warnings before the version line.
    return next((line for line in lines if "version" in line), lines[0] if lines else "")


def compile_kernel(toolchain: Toolchain, job: Job, folder: Path, log: Path, progress: Progress) -> bytes:
    """Compile a kernel and return the compiled bytes.

    Args:
        toolchain: The compiler.
        job: What to compile.
        folder: An empty folder for temporary files; the caller removes it.
        log: The file that receives the compiler's output.
        progress: Shows the elapsed time.

    Raises:
        RocenvError: The compiler failed; the error includes the log's path and last lines.
    """
    output = folder / "kernel"
    argv = command(toolchain, job, output)
    environ = {**os.environ, "TMPDIR": str(folder), "TMP": str(folder), "TEMP": str(folder)}
    with log.open("wb") as out:
        out.write(f"$ {' '.join(map(shell_join, argv))}\n".encode(errors="surrogateescape"))
        out.flush()
        with progress.wait(f"compiling the {job.title}", float(job.recipe.seconds)) as stage:
            done = process.run(
                argv, environ=environ, stdout=out, stderr=out, timeout_s=_TIMEOUT_S, on_wait=stage.tick
            )
    if not done.ok:
        raise _failed(job, done.problem or describe_exit(done.code or 0), log)
    try:
        return output.read_bytes()
    except FileNotFoundError as error:
        raise _failed(job, "it reported success but wrote nothing", log) from error


def _failed(job: Job, why: str, log: Path) -> RocenvError:
    with log.open("rb") as file:
        file.readline()  # the command
        file.seek(max(file.tell(), file.seek(0, os.SEEK_END) - _SEARCHED_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    hints = []
    if "no space left" in text.lower():  # the compiler reports a full disk only in its output
        hints.append("free disk space: `rocenv gc` lists what no env needs")
    if any(each in text for each in _TARGET_ERRORS):
        hints.append(
            f"this compiler does not support {job.target}; without `--env`, rocenv uses the newest one"
        )
    shown = "".join(f"\n  {line[:_SHOWN_WIDTH]}" for line in (errors or lines)[-_SHOWN_LINES:])
    return RocenvError(
        f"could not compile the {job.title}: {why}{shown}",
        hints=(*hints, f"complete output: {log}"),
        code="kernels-compiler",
    )


# ---------------------------------------------------------------- its output


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
        raise _rejected(f"its ELF machine is {machine}; AMD GPUs use {row.elf_machine}")
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
        raise _rejected("it does not contain a kernel")
    return Checked(len(names), flags)


def _rejected(why: str) -> RocenvError:
    return RocenvError(
        f"the compiler's output does not work on this GPU: {why}",
        hints=("use `--env` to try the compiler in a different env",),
        code="kernels-bad-result",
    )

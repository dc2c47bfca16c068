"""Running the compiler: once, with a clock on display, leaving nothing behind that is half done."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system import process
from rocenv.system.exit_codes import describe_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from rocenv.core.progress import Progress
    from rocenv.kernels.recipe import Job

_LONGEST_S = 3600.0
_LAST_LINES = 12
_WIDEST = 300  # of a line that is repeated
_LOOKED_AT = 4096  # of a line
_TAIL = 16 << 20  # of a log
_ASKED_IN_S = 60.0
_OTHERS = ("cannot find ROCm device library", "unsupported HIP gpu architecture", "unknown target CPU")


def command(toolchain: Toolchain, job: Job, output: Path) -> list[str]:
    """Return the command line that compiles a kernel.

    It is what `hipcc --genco` makes of an app's own command: code for the GPU alone, in a bundle.
    """
    own = ["-x", "hip", "--cuda-device-only", f"--offload-arch={job.target}"]
    if toolchain.device_libs is not None:
        own.append(f"--rocm-device-lib-path={toolchain.device_libs}")
    if toolchain.include is not None:
        own.append(f"--rocm-path={toolchain.include.parent}")
    return toolchain.run_argv(toolchain.clang, *own, *job.flags, str(job.file), "-o", str(output))


def compiler_version(toolchain: Toolchain) -> str:
    """Return what a compiler says it is; raise RocenvError where it does not start."""
    argv = toolchain.run_argv(toolchain.clang, "--version")
    answer = process.run(argv, stderr=process.MERGE, timeout_s=_ASKED_IN_S)
    lines = [line.strip()[:_WIDEST] for line in answer.lines]
    if not answer.ok:
        said = f", and said `{lines[-1]}`" if lines else ""
        raise RocenvError(
            f"the compiler of `{toolchain.name}` does not start: {answer.end}{said}",
            hints=(f"rocenv repair {shell_join(toolchain.env)}",) if toolchain.env else (),
            code="kernels-no-compiler",
        )
    # The loader may have warned of something else before.
    return next((line for line in lines if "version" in line), lines[0] if lines else "")


def compile_kernel(
    toolchain: Toolchain, job: Job, folder: Path, log: Path, progress: Progress, usual_s: float
) -> bytes:
    """Return a compiled kernel.

    Args:
        toolchain: The compiler.
        job: What to compile.
        folder: An empty folder for files on the way; the caller removes it.
        log: Where the compiler's words go.
        progress: Where the clock is shown.
        usual_s: What it takes, as far as is known; 0 = unknown.

    Raises:
        RocenvError: The compiler failed; names the log and repeats its last lines.
    """
    output = folder / "kernel"
    argv = command(toolchain, job, output)
    environ = {**os.environ, "TMPDIR": str(folder), "TMP": str(folder), "TEMP": str(folder)}
    with log.open("wb") as out:
        out.write(f"$ {' '.join(map(shell_join, argv))}\n".encode(errors="surrogateescape"))
        out.flush()
        with progress.wait(f"compiling the {job.title}", usual_s) as stage:
            done = process.run(
                argv, environ=environ, stdout=out, stderr=out, timeout_s=_LONGEST_S, on_wait=stage.tick
            )
    if not done.ok:
        raise _failed(job, done.problem or describe_exit(done.code or 0), log)
    try:
        return output.read_bytes()
    except FileNotFoundError as error:
        raise _failed(job, "it ended well and wrote nothing", log) from error


def _failed(job: Job, why: str, log: Path) -> RocenvError:
    lines: deque[str] = deque(maxlen=_LAST_LINES)
    errors: deque[str] = deque(maxlen=_LAST_LINES)
    is_full = is_unknown = False
    for line in _lines(log):
        lines.append(line[:_WIDEST])
        if "error:" in line:
            errors.append(line[:_WIDEST])
        # A full disk is the compiler's words only.
        is_full = is_full or "no space left" in line.lower()
        is_unknown = is_unknown or any(each in line for each in _OTHERS)
    hints = ["free some space: `rocenv gc` shows what no env needs"] if is_full else []
    if is_unknown:
        hints.append(f"this compiler does not know {job.target}: leave `--env` out, and the newest is taken")
    return RocenvError(
        f"the compiler failed on the {job.title}: {why}\n"
        + "\n".join(f"  {each}" for each in errors or lines),
        hints=(*hints, f"all that it said: {log}"),
        code="kernels-compiler",
    )


def _lines(log: Path) -> Iterator[str]:
    """Yield the last lines of a log that are not empty, of long ones what is looked at."""
    with log.open("rb") as file:
        file.readline()  # the command
        begin = max(file.tell(), file.seek(0, os.SEEK_END) - _TAIL)
        file.seek(begin)
        is_whole = True
        while piece := file.readline(_LOOKED_AT):
            line = piece.decode(errors="replace").strip()
            if is_whole and line:
                yield line
            is_whole = piece.endswith(b"\n")
